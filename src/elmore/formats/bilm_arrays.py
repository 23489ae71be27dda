"""The arrays of a bilm-tf model, by their names in weights.hdf5, made into ours and back.

bilm-tf stores matrices for `x @ W`, so those of torch.nn modules are transposed; a convolution has the axes of one over
a picture of height 1. Gates stand in our order, and the forget gate's bias lacks 1, as ours does with `forget_bias` 1.
Its dump tool has other names for models of one layer, and yet others for models of one direction, which is
always the forward one.

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

Shape = tuple[int, ...]


def config_of_arrays(options: Mapping[str, Any], shapes: Mapping[str, Shape]) -> ModelConfig:
    """The shape of a model: what its options say, and what only the arrays it has can tell."""
    return config_from_options(
        options,
        directions="forward" if any(name.startswith("rnn/") for name in shapes) else "both",
        vocab_size=shapes["embedding"][0] if shapes.get("embedding") else 0,
        # Where sizes agree bilm-tf has no projection, but AllenNLP always has one.
        token_projection=True if "CNN_proj/W_proj" in shapes else None,
        lstm_projection=True if any(name.endswith(("/W_P_0", "/projection/kernel")) for name in shapes) else None,
    )


def check_arrays(config: ModelConfig, shapes: Mapping[str, Shape], *, options_file: str) -> None:
    """Compare all arrays with the config; the error names what is missing, too much or of another shape."""
    needed = set()
    for name, axes in _needed(config, shapes):
        _check(name, shapes, axes, options_file)
        needed.add(name)
    if left := sorted(name for name in shapes if name.startswith(("CNN", "RNN_", "rnn/")) and name not in needed):
        raise FormatError(f"{join_names(left, most=2)} belong to a larger model than {options_file} describes")


def tensors_from_arrays(
    config: ModelConfig, names: Collection[str], read: Callable[[str], Floats]
) -> dict[str, Floats]:
    """Our tensors, from the arrays that `read` gives by name; `names` are those there are."""

    def array(name: str, *, axes: tuple[int, ...] | None = None) -> Floats:
        """The array in memory of its own, its axes in another order if one is given."""
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
    """The tensors of a layer, filled array by array: layers are most of a model, and no array is kept beside them."""
    directions, vector, cell = config.num_directions, config.vector_dim, config.cell_dim
    shapes = {"input": (vector, 4 * cell), "recurrent": (vector, 4 * cell), "bias": (4 * cell,)}
    if config.lstm_projection:
        shapes["projection"] = (cell, vector)
    ours = {part: np.empty((directions, *shape), np.float32) for part, shape in shapes.items()}
    for direction in range(directions):
        stored = _cell(config, names, direction, layer)
        # Rows for the input, then for the output before.
        _fill([ours["input"][direction], ours["recurrent"][direction]], stored.kernel, read)
        _fill([ours["bias"][direction]], stored.bias, read)
        if config.lstm_projection:
            _fill([ours["projection"][direction]], stored.projection, read)
    return ours


def _fill(tensors: Sequence[Floats], name: str, read: Callable[[str], Floats]) -> None:
    """Copy an array's rows into these tensors, one after the other."""
    values, start = read(name), 0
    for tensor in tensors:
        tensor[...] = values[start : start + len(tensor)]
        check_finite(name, tensor)
        start += len(tensor)


def arrays_from_tensors(config: ModelConfig, tensors: Mapping[str, Floats]) -> Iterator[tuple[str, Floats]]:
    """The arrays that the readers of weights.hdf5 look for, for a model that options.json can describe."""
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
            # Its readers add 1 to the forget gate, whatever ours adds.
            bias[2 * config.cell_dim : 3 * config.cell_dim] += config.forget_bias - 1
            yield cell.kernel, np.concatenate(kernel)
            yield cell.bias, bias
            if config.lstm_projection:
                yield cell.projection, tensors[f"lstm.{layer}.projection"][direction]


# Despite their names: the "carry" matrices make the gate that lets the transformed branch through.
_HIGHWAY = {"transform": "transform", "gate": "carry"}


class _Cell(NamedTuple):
    """The names of one cell's arrays."""

    kernel: str
    bias: str
    projection: str


def _cell(config: ModelConfig, names: Collection[str], direction: int, layer: int) -> _Cell:
    if config.num_directions == 1:
        place = "rnn/LSTMCell" if "rnn/LSTMCell/kernel" in names else f"rnn/MultiRNNCell/Cell{layer}/LSTMCell"
        return _Cell(f"{place}/kernel", f"{place}/bias", f"{place}/projection/kernel")
    place = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
    # How bilm-tf dumps a model of one layer, although neither it nor AllenNLP can read that.
    if config.lstm_layers == 1 and f"RNN_{direction}/RNN/LSTMCell/W_0" in names:
        place = f"RNN_{direction}/RNN/LSTMCell"
    return _Cell(f"{place}/W_0", f"{place}/B", f"{place}/W_P_0")


class _Axis(NamedTuple):
    length: int
    option: str  # which asks for that length


def _needed(config: ModelConfig, names: Collection[str]) -> Iterator[tuple[str, tuple[_Axis, ...]]]:
    """Every array of a model, and its axes."""
    p = _Axis(config.vector_dim, f"lstm.projection_dim {config.vector_dim}")
    if config.characters is None:
        yield "embedding", (_Axis(config.vocab_size, "no char_cnn"), p)
    else:
        yield from _needed_for_characters(config.characters)
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


def _needed_for_characters(config: CharacterConfig) -> Iterator[tuple[str, tuple[_Axis, ...]]]:
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
        raise FormatError(f"{name} is missing, and {options_file} asks for it; there are {join_names(sorted(shapes))}")
    found, needed = shapes[name], tuple(axis.length for axis in axes)
    if found != needed:
        same_rank = len(found) == len(needed)
        wrong = [axis for axis, length in zip(axes, found, strict=True) if axis.length != length] if same_rank else axes
        because = " and ".join(dict.fromkeys(axis.option for axis in wrong))
        raise FormatError(f"{name} has shape {found}; {options_file}, with {because}, needs {needed}")
