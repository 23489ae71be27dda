"""The arrays of a bilm-tf model, by their names in weights.hdf5, converted to Elmore's tensors and back; and vocab.txt.

bilm-tf applies matrices as `x @ W`, so they are transposed here, except those of the LSTM. A convolution has the axes
of one over an image of height 1. The gates have Elmore's order, and 1 is added to the bias of the forget gate, as with
`forget_bias` 1. The dump tool of bilm-tf has other names for models of one layer, and others again for models of one
direction, which is always the forward one.

F filters, P vector size, D cell size, C character size.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elmore.config import CharacterConfig, ModelConfig
from elmore.display import join_names
from elmore.errors import FormatError
from elmore.formats.arrays import Floats, check_finite
from elmore.formats.options_json import config_from_options
from elmore.formats.storage.container import Container, matching_file, matching_files, read_vocabulary
from elmore.text.vocabulary import Vocabulary

Shape = tuple[int, ...]

_VOCABULARY = ("vocab.txt", "vocab.txt.gz", "vocab*.txt*")


def config_of_arrays(options: Mapping[str, Any], shapes: Mapping[str, Shape]) -> ModelConfig:
    """The shape of a model, from its options and from the names and shapes of its arrays."""
    return config_from_options(
        options,
        directions="forward" if any(name.startswith("rnn/") for name in shapes) else "both",
        vocab_size=shapes["embedding"][0] if shapes.get("embedding") else 0,
        # Between equal sizes bilm-tf has no projection, but AllenNLP always has one.
        token_projection=True if "CNN_proj/W_proj" in shapes else None,
        lstm_projection=True if any(name.endswith(("/W_P_0", "/projection/kernel")) for name in shapes) else None,
    )


def find_vocabulary(container: Container, *, required: bool) -> Vocabulary | None:
    """The vocabulary next to a model, if there is one; FormatError if it is required and several files are possible."""
    names = matching_files(container, _VOCABULARY)
    if required and len(names) > 1:
        matching_file(container, _VOCABULARY)  # raises
    return read_vocabulary(container, names[0]) if len(names) == 1 else None


def check_arrays(config: ModelConfig, shapes: Mapping[str, Shape], *, options_file: str) -> None:
    """Raise FormatError if an array is missing, superfluous or of another shape than the config requires."""
    needed = set()
    for name, axes in _required(config, shapes):
        _check(name, shapes, axes, options_file)
        needed.add(name)
    if left := sorted(name for name in shapes if name.startswith(("CNN", "RNN_", "rnn/")) and name not in needed):
        raise FormatError(f"{join_names(left, most=2)} belong to a larger model than that in {options_file}")


def tensors_from_arrays(
    config: ModelConfig, names: Collection[str], read: Callable[[str], Floats]
) -> dict[str, Floats]:
    """Elmore's tensors, from arrays that `read` returns by name; `names` are the names of all arrays."""

    def array(name: str, *, axes: tuple[int, ...] | None = None) -> Floats:
        """A copy of the array, with its axes in another order if one is given."""
        values = read(name)
        values = np.array(values if axes is None else values.transpose(axes), order="C")
        check_finite(name, values)
        return values

    ours: dict[str, Floats] = {}
    if config.characters is None:
        ours["words.table"] = array("embedding")
    else:
        ours["words.characters"] = array("char_embed")
        for i in range(len(config.characters.filters)):
            ours[f"words.convolutions.{i}.weight"] = array(f"CNN/W_cnn_{i}", axes=(0, 3, 2, 1))[0]
            ours[f"words.convolutions.{i}.bias"] = array(f"CNN/b_cnn_{i}")
        for k in range(config.characters.num_highways):
            for part, stored in _HIGHWAY.items():
                ours[f"words.highways.{k}.{part}.weight"] = array(f"CNN_high_{k}/W_{stored}", axes=(1, 0))
                ours[f"words.highways.{k}.{part}.bias"] = array(f"CNN_high_{k}/b_{stored}")
    if config.token_projection:
        ours["words.projection.weight"] = array("CNN_proj/W_proj", axes=(1, 0))
        ours["words.projection.bias"] = array("CNN_proj/b_proj")
    for layer in range(config.lstm_layers):
        ours |= {f"lstm.{layer}.{part}": tensor for part, tensor in _lstm_layer(config, names, layer, read).items()}
    return ours


def _lstm_layer(
    config: ModelConfig, names: Collection[str], layer: int, read: Callable[[str], Floats]
) -> dict[str, Floats]:
    """The tensors of a layer, filled array by array, so that no more than one array is in memory besides them."""
    directions, vector, cell = config.num_directions, config.vector_dim, config.cell_dim
    shapes = {"input": (vector, 4 * cell), "recurrent": (vector, 4 * cell), "bias": (4 * cell,)}
    if config.lstm_projection:
        shapes["projection"] = (cell, vector)
    ours = {part: np.empty((directions, *shape), np.float32) for part, shape in shapes.items()}
    for direction in range(directions):
        stored = _cell(config, names, direction, layer)
        # First the rows for the input, then those for the previous output.
        _fill([ours["input"][direction], ours["recurrent"][direction]], stored.kernel, read)
        _fill([ours["bias"][direction]], stored.bias, read)
        if config.lstm_projection:
            _fill([ours["projection"][direction]], stored.projection, read)
    return ours


def _fill(tensors: Sequence[Floats], name: str, read: Callable[[str], Floats]) -> None:
    """Copy the rows of an array into these tensors, one after the other."""
    values, start = read(name), 0
    for tensor in tensors:
        tensor[...] = values[start : start + len(tensor)]
        check_finite(name, tensor)
        start += len(tensor)


def arrays_from_tensors(config: ModelConfig, tensors: Mapping[str, Floats]) -> Iterator[tuple[str, Floats]]:
    """The arrays of weights.hdf5, for a model that options.json can describe."""
    if config.characters is None:
        yield "embedding", tensors["words.table"]
    else:
        yield "char_embed", tensors["words.characters"]
        for i in range(len(config.characters.filters)):
            yield f"CNN/W_cnn_{i}", tensors[f"words.convolutions.{i}.weight"].transpose(2, 1, 0)[None]
            yield f"CNN/b_cnn_{i}", tensors[f"words.convolutions.{i}.bias"]
        for k in range(config.characters.num_highways):
            for part, stored in _HIGHWAY.items():
                yield f"CNN_high_{k}/W_{stored}", tensors[f"words.highways.{k}.{part}.weight"].T
                yield f"CNN_high_{k}/b_{stored}", tensors[f"words.highways.{k}.{part}.bias"]
    if config.token_projection:
        yield "CNN_proj/W_proj", tensors["words.projection.weight"].T
        yield "CNN_proj/b_proj", tensors["words.projection.bias"]
    for layer in range(config.lstm_layers):
        for direction in range(config.num_directions):
            cell = _cell(config, (), direction, layer)
            kernel = [tensors[f"lstm.{layer}.{part}"][direction] for part in ("input", "recurrent")]
            bias = tensors[f"lstm.{layer}.bias"][direction].copy()
            # The readers of the file add 1 to the forget gate.
            bias[2 * config.cell_dim : 3 * config.cell_dim] += config.forget_bias - 1
            yield cell.kernel, np.concatenate(kernel)
            yield cell.bias, bias
            if config.lstm_projection:
                yield cell.projection, tensors[f"lstm.{layer}.projection"][direction]


# Despite their name, the "carry" matrices compute the gate of the transformed branch.
_HIGHWAY = {"transform": "transform", "gate": "carry"}


class _Cell(NamedTuple):
    """The names of one cell's arrays."""

    kernel: str
    bias: str
    projection: str


def _cell(config: ModelConfig, names: Collection[str], direction: int, layer: int) -> _Cell:
    if config.num_directions == 1:
        prefix = "rnn/LSTMCell" if "rnn/LSTMCell/kernel" in names else f"rnn/MultiRNNCell/Cell{layer}/LSTMCell"
        return _Cell(f"{prefix}/kernel", f"{prefix}/bias", f"{prefix}/projection/kernel")
    prefix = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
    # The names of a dumped model of one layer, which neither bilm-tf nor AllenNLP can read.
    if config.lstm_layers == 1 and f"RNN_{direction}/RNN/LSTMCell/W_0" in names:
        prefix = f"RNN_{direction}/RNN/LSTMCell"
    return _Cell(f"{prefix}/W_0", f"{prefix}/B", f"{prefix}/W_P_0")


class _Axis(NamedTuple):
    length: int
    option: str  # that requires this length


def _required(config: ModelConfig, names: Collection[str]) -> Iterator[tuple[str, tuple[_Axis, ...]]]:
    """The required arrays of a model, and their axes."""
    p = _Axis(config.vector_dim, f"lstm.projection_dim {config.vector_dim}")
    if config.characters is None:
        yield "embedding", (_Axis(config.vocab_size, "no char_cnn"), p)
    else:
        yield from _required_for_characters(config.characters)
    if config.token_projection:
        f = _Axis(config.word_feature_dim, f"char_cnn.filters that number {config.word_feature_dim}")
        yield from (("CNN_proj/W_proj", (f, p)), ("CNN_proj/b_proj", (p,)))
    inputs = _Axis(2 * p.length, p.option)
    d = _Axis(config.cell_dim, f"lstm.dim {config.cell_dim}")
    gates = _Axis(4 * d.length, d.option)
    for layer in range(config.lstm_layers):
        for direction in range(config.num_directions):
            cell = _cell(config, names, direction, layer)
            yield from ((cell.kernel, (inputs, gates)), (cell.bias, (gates,)))
            if config.lstm_projection:
                yield cell.projection, (d, p)


def _required_for_characters(config: CharacterConfig) -> Iterator[tuple[str, tuple[_Axis, ...]]]:
    c = _Axis(config.embedding_dim, f"char_cnn.embedding.dim {config.embedding_dim}")
    yield "char_embed", (_Axis(config.n_characters, "char_cnn, which reads bytes"), c)
    for i, (width, number) in enumerate(config.filters):
        option = f"[{width}, {number}] in char_cnn.filters"
        w, n = _Axis(width, option), _Axis(number, option)
        yield from ((f"CNN/W_cnn_{i}", (_Axis(1, option), w, c, n)), (f"CNN/b_cnn_{i}", (n,)))
    f = _Axis(config.num_filters, f"char_cnn.filters that number {config.num_filters}")
    for k in range(config.num_highways):
        for part in _HIGHWAY.values():
            yield from ((f"CNN_high_{k}/W_{part}", (f, f)), (f"CNN_high_{k}/b_{part}", (f,)))


def _check(name: str, shapes: Mapping[str, Shape], axes: tuple[_Axis, ...], options_file: str) -> None:
    if name not in shapes:
        raise FormatError(
            f"{name} is missing, which {options_file} requires; the arrays are {join_names(sorted(shapes))}"
        )
    shape, required = shapes[name], tuple(axis.length for axis in axes)
    if shape != required:
        same_rank = len(shape) == len(required)
        wrong = [axis for axis, length in zip(axes, shape, strict=True) if axis.length != length] if same_rank else axes
        options = " and ".join(dict.fromkeys(axis.option for axis in wrong))
        raise FormatError(f"{name} has shape {shape}; {options_file} ({options}) requires {required}")
