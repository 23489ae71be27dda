"""What a kernel that runs a whole word encoder takes and gives: from characters to vectors, without gradients.

    features = activation(max over positions of convolution(characters) + bias)
    features = g * relu(transform(features)) + (1 - g) * features, g = σ(gate(features)), for each highway
    vectors = projection([table row, features])

W words, M characters, C size of a character, F filters, P vector size.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from elmore.kernels.character_cnn import Filters

Linear = tuple[Tensor, Tensor]  # weight (out, in) and bias (out,)


class CharacterWeights(NamedTuple):
    """The part that reads characters."""

    table: Tensor  # (characters, C)
    filters: Filters
    tanh: bool  # the activation: tanh, or relu
    highways: Sequence[tuple[Linear, Linear]]  # transform and gate of each


class WordEncoderWeights(NamedTuple):
    """All weights of a word encoder; a part that it does not have is None."""

    word_table: Tensor | None  # (words, size)
    characters: CharacterWeights | None
    projection: Linear | None


class WordEncoding(NamedTuple):
    """A way to run a word encoder: `prepare(weights)`, once, and `run(prepared, character_ids, word_ids)` to (W, P).

    A word has the same bits whichever words it is encoded with.

    `restore(prepared)` gives the large matrices back as they were, to the bit, where the prepared form has all of them:
    the transform's and the gate's of each highway, then the projection's.
    """

    prepare: Callable[[WordEncoderWeights], Any]
    run: Callable[[Any, Tensor | None, Tensor | None], Tensor]
    restore: Callable[[Any], list[Tensor]] | None = None
