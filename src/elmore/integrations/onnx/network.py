"""The biLM as nodes of an ONNX graph.

All words of all sentences are encoded together, followed by the two boundary words. Each position gathers the vector of
its word. The LSTM operator of ONNX lacks the projection and the clips, so each layer and direction is a `Scan` over the
cell of `engine.numpy_engine`. The backward scan runs from the last position to the first. It holds the start state
until it reaches the end of the sentence; no row is reversed.

B sentences, n words, T = n + 2 positions, W = 2 + B * n words, M characters, C character size, F filters, G directions,
P vector size, D cells.
"""

from typing import NamedTuple

from elmore.config import Direction
from elmore.engine.weights import CharacterWeights, Clips, Linear, as_float, lstm_weights, word_weights
from elmore.integrations.onnx.graph import BOOL, FLOAT, Graph, GraphProto, Value
from elmore.model import Model


def add_network(graph: Graph, model: Model, *, output: str) -> None:
    """Add the nodes from ids and lengths to the layers."""
    config = model.config
    positions = _positions(graph, ids="character_ids" if config.characters else "word_ids")
    vectors = graph.add("Gather", _word_vectors(graph, model), positions.words)  # (T, B, P)
    x = dict.fromkeys(config.direction_names, vectors)
    layers = [graph.add("Concat", *x.values(), axis=-1)]
    for number in range(config.lstm_layers):
        for direction in config.direction_names:
            y = _scan(graph, _lstm(graph, model, number, direction), x[direction], positions)
            # Added to the input of the next layer, not to the recurrent state.
            x[direction] = graph.add("Add", x[direction], y) if config.skip_connections and number > 0 else y
        layers.append(graph.add("Concat", *x.values(), axis=-1))
    stacked = graph.add("Concat", *(graph.add("Unsqueeze", layer, graph.ints([0])) for layer in layers), axis=0)
    words = graph.add("Slice", stacked, graph.ints([1]), graph.ints([-1]), graph.ints([1]))  # without boundaries
    words = graph.add("Where", positions.is_word, words, graph.floats(0))
    graph.add("Transpose", words, perm=[0, 2, 1, 3], output=output)


class _Positions(NamedTuple):
    words: str  # (T, B) the index of the word, of W
    is_read: str  # (T, B, 1) whether the position is in the sentence or its boundaries
    is_word: str  # (n, B, 1) whether the word is in the sentence
    batch: str  # (1,) B


def _positions(graph: Graph, *, ids: str) -> _Positions:
    shape = graph.add("Shape", ids)
    batch, length = (graph.add("Gather", shape, graph.ints(axis)) for axis in (0, 1))
    lengths = graph.add("Clip", "lengths", graph.ints(0), length)
    position = _range(graph, graph.add("Add", length, graph.ints(2)))
    position = graph.add("Unsqueeze", position, graph.ints([1]))  # (T, 1)
    before_end = graph.add("LessOrEqual", position, lengths)  # (T, B)
    is_read = graph.add("LessOrEqual", position, graph.add("Add", lengths, graph.ints(1)))  # (T, B)

    # Word i of sentence b has the index b * n + i, <S> and </S> have the last two, and padding has that of </S>.
    begin = graph.add("Mul", batch, length)
    end = graph.add("Add", begin, graph.ints(1))
    first = graph.add("Mul", _range(graph, batch), length)  # (B,)
    word = graph.add("Add", graph.add("Sub", position, graph.ints(1)), first)  # (T, B)
    words = graph.add("Where", before_end, word, end)
    words = graph.add("Where", graph.add("Equal", position, graph.ints(0)), begin, words)

    is_word = graph.add("Slice", before_end, graph.ints([1]), graph.ints([-1]), graph.ints([0]))
    is_read, is_word = (graph.add("Unsqueeze", mask, graph.ints([2])) for mask in (is_read, is_word))
    return _Positions(words, is_read, is_word, graph.add("Unsqueeze", batch, graph.ints([0])))


def _word_vectors(graph: Graph, model: Model) -> str:  # (W, P)
    weights = word_weights(model.checkpoint)
    features = []
    if weights.table is not None:
        features.append(graph.add("Gather", graph.array("words.table", weights.table), _word_ids(graph, model)))
    if weights.characters is not None:
        features.append(_character_features(graph, _character_ids(graph, model), weights.characters))
    x = graph.add("Concat", *features, axis=1)
    return x if weights.projection is None else _linear(graph, "words.projection", x, weights.projection)


def _word_ids(graph: Graph, model: Model) -> str:  # (W,)
    boundaries = model.word_indexer.index([model.config.bos_token, model.config.eos_token]).word_ids
    assert boundaries is not None  # a model with a word table has them
    given = graph.add("Reshape", "word_ids", graph.ints([-1]))
    return graph.add("Concat", given, graph.array("boundaries.word_ids", boundaries), axis=0)


def _character_ids(graph: Graph, model: Model) -> str:  # (W, the number that affects the vectors)
    config, alphabet = model.config.characters, model.word_indexer.alphabet
    assert config is not None
    assert alphabet is not None
    boundaries = alphabet.index([model.config.bos_token, model.config.eos_token])  # (2, M)
    given = graph.add("Reshape", "character_ids", graph.ints([-1, config.max_characters]))
    characters = graph.add("Concat", given, graph.array("boundaries.character_ids", boundaries), axis=0)  # (W, M)
    # Up to the end of the longest word, and padding of the width of a filter: see `WordIndexer.characters_needed`.
    ends = graph.ints(list(range(1, config.max_characters + 1)))
    own = graph.add("Where", graph.add("Equal", characters, graph.ints(alphabet.padding)), graph.ints(0), ends)
    longest = graph.add("ReduceMax", own, axes=[0, 1], keepdims=0)
    needed = graph.add("Add", longest, graph.ints([max(width for width, _ in config.filters)]))
    return graph.add("Slice", characters, graph.ints([0]), needed, graph.ints([1]))


def _character_features(graph: Graph, characters: str, weights: CharacterWeights) -> str:  # (W, M) -> (W, F)
    x = graph.add("Gather", graph.array("words.characters", weights.table), characters)
    x = graph.add("Transpose", x, perm=[0, 2, 1])  # (W, C, M)
    responses = []
    for i, (weight, bias) in enumerate(weights.filters):
        name = f"words.convolutions.{i}"
        y = graph.add("Conv", x, graph.array(f"{name}.weight", weight), graph.array(f"{name}.bias", bias))
        responses.append(graph.add("ReduceMax", y, axes=[2], keepdims=0))
    x = graph.add("Tanh" if weights.tanh else "Relu", graph.add("Concat", *responses, axis=1))
    for k, (transform, gate) in enumerate(weights.highways):
        transformed = graph.add("Relu", _linear(graph, f"words.highways.{k}.transform", x, transform))
        g = graph.add("Sigmoid", _linear(graph, f"words.highways.{k}.gate", x, gate))
        carried = graph.add("Mul", graph.add("Sub", graph.floats(1), g), x)
        x = graph.add("Add", graph.add("Mul", g, transformed), carried)
    return x


class _Lstm(NamedTuple):
    """One LSTM layer in one direction, with the names of its weights in the graph."""

    name: str
    direction: Direction
    vector_dim: int
    cell_dim: int
    input: str  # (P, 4D)
    recurrent: str  # (P, 4D)
    bias: str  # (4D,)
    projection: str | None  # (D, P)
    clips: Clips
    start: tuple[str, str]  # h (1, P), c (1, D)


def _lstm(graph: Graph, model: Model, number: int, direction: Direction) -> _Lstm:
    name = f"lstm.{number}.{direction}"
    g = model.config.direction_names.index(direction)
    weights = lstm_weights(model.checkpoint, number)
    return _Lstm(
        name,
        direction,
        vector_dim=model.config.vector_dim,
        cell_dim=model.config.cell_dim,
        input=graph.array(f"{name}.input", as_float(weights.input)[g]),
        recurrent=graph.array(f"{name}.recurrent", as_float(weights.recurrent)[g]),
        bias=graph.array(f"{name}.bias", weights.bias[g]),
        projection=None
        if weights.projection is None
        else graph.array(f"{name}.projection", as_float(weights.projection)[g]),
        clips=weights.clips,
        start=(
            graph.array(f"{name}.start_h", model.start.h[number, g]),
            graph.array(f"{name}.start_c", model.start.c[number, g]),
        ),
    )


def _scan(graph: Graph, lstm: _Lstm, x: str, positions: _Positions) -> str:  # (T, B, P) -> (T, B, P)
    # The products of all inputs are computed before the recurrence.
    products = graph.add("Add", graph.add("MatMul", x, lstm.input), lstm.bias)  # (T, B, 4D)
    rows = graph.add("Concat", positions.batch, graph.ints([1]), axis=0)
    start = [graph.add("Expand", part, rows) for part in lstm.start]
    backwards = int(lstm.direction == "backward")
    *_, outputs = graph.add_many(
        "Scan",
        *start,
        products,
        positions.is_read,
        outputs=3,
        body=_cell(lstm),
        num_scan_inputs=2,
        scan_input_directions=[backwards, backwards],
        scan_output_directions=[backwards],
    )
    return outputs


def _cell(lstm: _Lstm) -> GraphProto:
    """One step: from the state, a row of products and `is_read` to the next state and the output."""
    body = Graph(lstm.name)
    before_h, before_c, products, is_read = (f"{lstm.name}.{name}" for name in ("h", "c", "products", "is_read"))
    gates = body.add("Add", products, body.add("MatMul", before_h, lstm.recurrent))
    i, j, f, o = body.add_many("Split", gates, outputs=4, axis=-1)
    retained = body.add("Mul", body.add("Sigmoid", f), before_c)
    c = body.add("Add", retained, body.add("Mul", body.add("Sigmoid", i), body.add("Tanh", j)))
    c = _clipped(body, c, lstm.clips.cell)
    h = body.add("Mul", body.add("Sigmoid", o), body.add("Tanh", c))
    if lstm.projection is not None:
        h = _clipped(body, body.add("MatMul", h, lstm.projection), lstm.clips.projection)
    # After the end of a sentence, the state does not change.
    after_h, after_c = body.add("Where", is_read, h, before_h), body.add("Where", is_read, c, before_c)
    output = body.add("Identity", after_h)
    # Older versions of onnxruntime require the shapes.
    of_h: Value = (FLOAT, ["batch", lstm.vector_dim])
    of_c: Value = (FLOAT, ["batch", lstm.cell_dim])
    return body.graph(
        name=lstm.name,
        inputs={
            before_h: of_h,
            before_c: of_c,
            products: (FLOAT, ["batch", 4 * lstm.cell_dim]),
            is_read: (BOOL, ["batch", 1]),
        },
        outputs={after_h: of_h, after_c: of_c, output: of_h},
    )


def _clipped(graph: Graph, x: str, bound: float | None) -> str:
    return x if bound is None else graph.add("Clip", x, graph.floats(-bound), graph.floats(bound))


def _linear(graph: Graph, name: str, x: str, linear: Linear) -> str:
    weight, bias = linear
    return graph.add("Gemm", x, graph.array(f"{name}.weight", weight), graph.array(f"{name}.bias", bias), transB=1)


def _range(graph: Graph, end: str) -> str:
    return graph.add("Range", graph.ints(0), end, graph.ints(1))
