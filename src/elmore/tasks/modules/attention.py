"""Attention between the tokens of two sentences, or of one with itself.

B sentences, S and T tokens, D size.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:  # (..., T), broadcastable bool -> (..., T)
    """The softmax of the scores where the mask is true, and zeros elsewhere; all zeros where it is nowhere true.

    >>> mask = torch.tensor([[True, True, False], [False, False, False]])
    >>> masked_softmax(torch.tensor([[1.0, 1.0, 9.0], [1.0, 2.0, 3.0]]), mask)
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    # Not -inf: a row of nothing else would be 0 / 0 on the way, which whoever looks for NaNs would be stopped by.
    smallest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, smallest).softmax(dim=-1).masked_fill(~mask, 0)


def attend(scores: Tensor, values: Tensor, mask: Tensor) -> Tensor:  # (B, S, T), (B, T, D), (B, T) -> (B, S, D)
    """For each of S tokens, the average of the values, weighted by the softmax of its row of scores."""
    return torch.bmm(masked_softmax(scores, mask.unsqueeze(1)), values)


def dot_product(x: Tensor, y: Tensor) -> Tensor:  # (B, S, D), (B, T, D) -> (B, S, T)
    """The similarity x_i · y_j of all pairs of tokens."""
    return torch.bmm(x, y.transpose(1, 2))


class TrilinearSimilarity(nn.Module):
    """The similarity w1 · x_i + w2 · y_j + (w3 * x_i) · y_j + b of all pairs of tokens (Seo et al., 2017).

    >>> TrilinearSimilarity(4)(torch.ones(2, 3, 4), torch.ones(2, 5, 4)).shape
    torch.Size([2, 3, 5])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.x_weight = nn.Parameter(torch.empty(dim))
        self.y_weight = nn.Parameter(torch.empty(dim))
        self.product_weight = nn.Parameter(torch.empty(dim))
        self.bias = nn.Parameter(torch.zeros(()))
        # As one layer from [x; y; x * y] to a number (Glorot and Bengio, 2010).
        bound = (6 / (3 * dim + 1)) ** 0.5
        for weight in (self.x_weight, self.y_weight, self.product_weight):
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # (B, S, D), (B, T, D) -> (B, S, T)
        alone = (x @ self.x_weight).unsqueeze(2) + (y @ self.y_weight).unsqueeze(1)
        return alone + dot_product(x * self.product_weight, y) + self.bias


class Attended(NamedTuple):
    """What each token of one sentence saw of the other."""

    x: Tensor  # (B, S, D): for each token of x, an average of y
    y: Tensor  # (B, T, D): for each token of y, an average of x


class BiAttention(nn.Module):
    """Attention of two sentences to each other, in both directions by the same scores.

        A_ij = similarity(x_i, y_j),   softmax over j of A @ Y,   softmax over i of A^T @ X

    As in ESIM (Chen et al., 2017) and the biattentive classification network (McCann et al., 2017). At padding
    stands something that nobody should look at.

    >>> x, mask = torch.ones(2, 3, 4), torch.tensor([[True, True, False], [True, True, True]])
    >>> BiAttention().attend_self(x, mask).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, similarity: Callable[[Tensor, Tensor], Tensor] = dot_product) -> None:
        super().__init__()
        self.similarity = similarity

    def forward(self, x: Tensor, y: Tensor, x_mask: Tensor, y_mask: Tensor) -> Attended:
        scores = self.similarity(x, y)  # (B, S, T)
        return Attended(attend(scores, y, y_mask), attend(scores.transpose(1, 2), x, x_mask))

    def attend_self(self, x: Tensor, mask: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, T, D)
        """A sentence's attention to itself: A = X X^T, softmax by row, A X. A token may look at itself."""
        return attend(self.similarity(x, x), x, mask)
