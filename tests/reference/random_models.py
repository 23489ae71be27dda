"""Small random models in both published layouts: every number is one that float32 can hold."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reference.many_languages import ManyLanguagesModel
from reference.network import Array
from reference.published import PublishedModel


def random_published(
    seed: int, options: Mapping[str, Any], *, bidirectional: bool = True, vocabulary: Sequence[str] = ()
) -> PublishedModel:
    """A model of these options; without `char_cnn` among them it reads the words of the vocabulary."""
    lstm = options["lstm"]
    P, D, n_layers = lstm["projection_dim"], lstm["dim"], lstm["n_layers"]
    shapes: dict[str, tuple[int, ...]] = {}
    if "char_cnn" in options:
        shapes |= _character_shapes(options["char_cnn"], P)
    else:
        shapes["embedding"] = (len(vocabulary), P)
    names = ("W_0", "B", "W_P_0") if bidirectional else ("kernel", "bias", "projection/kernel")
    for direction in ("RNN_0/RNN", "RNN_1/RNN") if bidirectional else ("rnn",):
        for layer in range(n_layers):
            place = f"{direction}/LSTMCell" if n_layers == 1 else f"{direction}/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes[f"{place}/{names[0]}"] = (2 * P, 4 * D)
            shapes[f"{place}/{names[1]}"] = (4 * D,)
            if P != D:
                shapes[f"{place}/{names[2]}"] = (D, P)
    return PublishedModel(options, _draw(seed, shapes), vocabulary)


def random_many_languages(
    seed: int, config: Mapping[str, Any], *, words: Sequence[str], letters: Sequence[str]
) -> ManyLanguagesModel:
    """A model of this network configuration that knows these words and letters."""
    embedder, encoder = config["token_embedder"], config["encoder"]
    P, D = encoder["projection_dim"], encoder["dim"]
    characters = [*letters, "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    lexicon = ["<oov>", "<bos>", "<eos>", "<pad>", *words]
    outside: dict[str, tuple[int, ...]] = {}
    features = embedder["word_dim"]
    if embedder["word_dim"]:
        outside["word_emb_layer.embedding.weight"] = (len(lexicon), embedder["word_dim"])
    if embedder["char_dim"]:
        outside["char_emb_layer.embedding.weight"] = (len(characters), embedder["char_dim"])
        for i, (width, number) in enumerate(embedder["filters"]):
            outside[f"convolutions.{i}.weight"] = (number, embedder["char_dim"], width)
            outside[f"convolutions.{i}.bias"] = (number,)
        F = sum(number for _, number in embedder["filters"])
        for k in range(embedder["n_highway"]):
            outside[f"highways._layers.{k}.weight"] = (2 * F, F)
            outside[f"highways._layers.{k}.bias"] = (2 * F,)
        features += F
    outside |= {"projection.weight": (P, features), "projection.bias": (P,)}
    inside: dict[str, tuple[int, ...]] = {}
    for direction in ("forward", "backward"):
        for layer in range(encoder["n_layers"]):
            place = f"{direction}_layer_{layer}"
            inside[f"{place}.input_linearity.weight"] = (4 * D, P)
            inside[f"{place}.state_linearity.weight"] = (4 * D, P)
            inside[f"{place}.state_linearity.bias"] = (4 * D,)
            inside[f"{place}.state_projection.weight"] = (P, D)
    return ManyLanguagesModel(
        config=config,
        words={word: number for number, word in enumerate(lexicon)},
        characters={letter: number for number, letter in enumerate(characters)},
        token_embedder=_draw(seed, outside),
        encoder=_draw(seed + 1, inside),
    )


def _character_shapes(cnn: Mapping[str, Any], P: int) -> dict[str, tuple[int, ...]]:
    C = cnn["embedding"]["dim"]
    F = sum(number for _, number in cnn["filters"])
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, C)}
    for i, (width, number) in enumerate(cnn["filters"]):
        shapes |= {f"CNN/W_cnn_{i}": (1, width, C, number), f"CNN/b_cnn_{i}": (number,)}
    for k in range(cnn.get("n_highway", 0)):
        shapes |= {f"CNN_high_{k}/{W}": (F, F) for W in ("W_carry", "W_transform")}
        shapes |= {f"CNN_high_{k}/{b}": (F,) for b in ("b_carry", "b_transform")}
    if F != P:
        shapes |= {"CNN_proj/W_proj": (F, P), "CNN_proj/b_proj": (P,)}
    return shapes


def _draw(seed: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    # Large enough for gates to move and for clips to be met; yet not so large that rounding grows from step to step.
    return {name: random.normal(0, 0.4, shape).astype(np.float32).astype(np.float64) for name, shape in shapes.items()}
