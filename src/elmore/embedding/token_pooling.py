"""Vectors of a model's words become vectors of the tokens that were given.

Where tokens of another style are turned into a model's words (see `text.token_style`), every given token still gets one
vector: the mean over the words it became, which its neighbours may share.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def pool_tokens(vectors: Tensor, groups: Sequence[range]) -> Tensor:
    """(..., words, dim) becomes (..., tokens, dim); `groups` has for each token the numbers of its words, at least one.

    >>> words = torch.tensor([[1.0], [2.0], [4.0]])
    >>> pool_tokens(words, [range(0, 1), range(0, 2), range(2, 3)]).tolist()
    [[1.0], [1.5], [4.0]]
    """
    first = torch.tensor([group.start for group in groups], dtype=torch.int64, device=vectors.device)
    pooled = vectors.index_select(-2, first)
    for token, group in enumerate(groups):
        if len(group) > 1:
            pooled[..., token, :] = vectors[..., group.start : group.stop, :].mean(dim=-2)
    return pooled
