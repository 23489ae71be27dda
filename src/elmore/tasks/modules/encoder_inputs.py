"""What networks that compare two sentences are given of each.

B sentences, T tokens, D and E sizes.
"""

from typing import NamedTuple

from torch import Tensor


class EncoderInputs(NamedTuple):
    """The vectors of a batch of sentences; padding at the end of each."""

    x: Tensor  # (B, T, D)
    mask: Tensor  # (B, T) true where there is a token
    lengths: tuple[int, ...]
    extra: Tensor | None = None  # (B, T, E) to stand beside the output of the first RNN that reads them
