"""Batches of sentences of several lengths, as the blocks of task models take them."""

import torch
from hypothesis import strategies as st
from torch import Tensor

# Empty sentences among others, alone, and nothing else.
some_lengths = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def ragged_mask(lengths: list[int], *, places: int | None = None) -> Tensor:
    """(B, T) true where there is a token; T is the longest sentence's, or as many places as are wanted."""
    return torch.arange(max(lengths) if places is None else places) < torch.tensor(lengths)[:, None]


def random_tensor(seed: int, *shape: int) -> Tensor:
    """Float64: what is compared with a plain computation must not differ by rounding."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
