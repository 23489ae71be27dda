"""The weights of a checkpoint, part by part, as engines use them.

Matrices may be float32 or int8 arrays; an engine converts one at a time, so that no second copy of a model exists.

G directions, P vector size, D cells.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.formats.arrays import Int8Array, StoredArray
from elmore.formats.checkpoint import Checkpoint

Array = NDArray[np.float32]


class Clips(NamedTuple):
    """Bounds on the cell and on its projection; None: no bound."""

    cell: float | None
    projection: float | None


class LstmWeights(NamedTuple):
    """One layer, all directions. Gates are in the order input, candidate, forget, output."""

    input: StoredArray  # (G, P, 4D)
    recurrent: StoredArray  # (G, P, 4D)
    bias: Array  # (G, 4D), forget bias included
    projection: StoredArray | None  # (G, D, P)
    clips: Clips


class Linear(NamedTuple):
    """A dense layer, applied as x @ weight.T + bias."""

    weight: StoredArray  # (out, in)
    bias: Array  # (out,)


class CharacterWeights(NamedTuple):
    """The character CNN and its highways."""

    table: Array  # (characters, C)
    filters: list[tuple[Array, Array]]  # weight (filters, C, width) and bias (filters,) of each width
    tanh: bool  # the activation: tanh, or relu
    highways: list[tuple[Linear, Linear]]  # transform and gate


class WordWeights(NamedTuple):
    """The word encoder; at least one of table and characters is present."""

    table: StoredArray | None  # (words, word size)
    characters: CharacterWeights | None
    projection: Linear | None


def as_float(array: StoredArray) -> Array:
    """The array as float32."""
    return array.dequantize() if isinstance(array, Int8Array) else array


def lstm_weights(checkpoint: Checkpoint, layer: int) -> LstmWeights:
    """The weights of one LSTM layer."""
    config, tensors = checkpoint.config, checkpoint.tensors
    bias = as_float(tensors[f"lstm.{layer}.bias"]).copy()
    bias[:, 2 * config.cell_dim : 3 * config.cell_dim] += np.float32(config.forget_bias)
    return LstmWeights(
        tensors[f"lstm.{layer}.input"],
        tensors[f"lstm.{layer}.recurrent"],
        bias,
        tensors.get(f"lstm.{layer}.projection"),
        Clips(config.cell_clip, config.projection_clip),
    )


def word_weights(checkpoint: Checkpoint) -> WordWeights:
    """The weights of the word encoder."""
    config, tensors = checkpoint.config, checkpoint.tensors

    def linear(name: str) -> Linear:
        return Linear(tensors[f"{name}.weight"], as_float(tensors[f"{name}.bias"]))

    characters = None
    if config.characters is not None:
        convolutions = [f"words.convolutions.{i}" for i in range(len(config.characters.filters))]
        highways = [f"words.highways.{k}" for k in range(config.characters.num_highways)]
        characters = CharacterWeights(
            as_float(tensors["words.characters"]),
            [(as_float(tensors[f"{name}.weight"]), as_float(tensors[f"{name}.bias"])) for name in convolutions],
            config.characters.activation == "tanh",
            [(linear(f"{name}.transform"), linear(f"{name}.gate")) for name in highways],
        )
    projection = linear("words.projection") if config.token_projection else None
    return WordWeights(tensors.get("words.table"), characters, projection)
