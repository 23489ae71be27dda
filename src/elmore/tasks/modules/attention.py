"""Attention between the tokens of two sentences or of one, and pooling of a sentence's tokens to one vector.

B sentences, S and T tokens, D size. Pooling an empty sentence gives zeros.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:  # (..., T), broadcastable bool -> (..., T)
    """The softmax of the scores where the mask is true, and zeros elsewhere. A row without true is all zeros.

    >>> mask = torch.tensor([[True, True, False], [False, False, False]])
    >>> masked_softmax(torch.tensor([[1.0, 1.0, 9.0], [1.0, 2.0, 3.0]]), mask)
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 0.0000]])
    """
    # Not -inf: a row of -inf computes 0 / 0, which anomaly detection reports as NaN.
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
        # Initialized as one layer from [x; y; x * y] to a number (Glorot and Bengio, 2010).
        bound = (6 / (3 * dim + 1)) ** 0.5
        for weight in (self.x_weight, self.y_weight, self.product_weight):
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # (B, S, D), (B, T, D) -> (B, S, T)
        linear = (x @ self.x_weight).unsqueeze(2) + (y @ self.y_weight).unsqueeze(1)
        return linear + dot_product(x * self.product_weight, y) + self.bias


class Attended(NamedTuple):
    """For each token of one sentence, an average of the other sentence."""

    x: Tensor  # (B, S, D): for each token of x, an average of y
    y: Tensor  # (B, T, D): for each token of y, an average of x


class BiAttention(nn.Module):
    """Attention of two sentences to each other, in both directions with the same scores.

        A_ij = similarity(x_i, y_j),   softmax over j of A @ Y,   softmax over i of A^T @ X

    As in ESIM (Chen et al., 2017) and the biattentive classification network (McCann et al., 2017). The result at
    padding is undefined.

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
        """Attention of a sentence to all of its tokens: A = X X^T, softmax by row, A X."""
        return attend(self.similarity(x, x), x, mask)


def masked_max(x: Tensor, mask: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, D)
    """The largest value of each feature over a sentence's tokens.

    >>> masked_max(torch.tensor([[[-2.0], [-1.0], [7.0]]]), torch.tensor([[True, True, False]]))
    tensor([[-1.]])
    """
    if x.shape[1] == 0:
        return x.sum(dim=1)
    largest = x.masked_fill(~mask.unsqueeze(2), -torch.inf).max(dim=1).values
    return largest.masked_fill(~mask.any(dim=1, keepdim=True), 0)


def masked_min(x: Tensor, mask: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, D)
    """The smallest value of each feature over a sentence's tokens."""
    return -masked_max(-x, mask)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, D)
    """The mean of each feature over a sentence's tokens."""
    total = x.masked_fill(~mask.unsqueeze(2), 0).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp_min(1)


class SelfAttentivePooling(nn.Module):
    """An average of a sentence's tokens, weighted by a linear layer: softmax over t of (v · x_t + b), times X.

    McCann et al., 2017.

    >>> SelfAttentivePooling(4)(torch.ones(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)).shape
    torch.Size([2, 4])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.scores = nn.Linear(dim, 1)
        nn.init.xavier_uniform_(self.scores.weight)
        nn.init.zeros_(self.scores.bias)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:  # (B, T, D), (B, T) -> (B, D)
        return attend(self.scores(x).transpose(1, 2), x, mask).squeeze(1)
