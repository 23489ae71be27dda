"""One vector for a sentence, from those of its tokens: its largest, smallest or mean values, or a learned average.

B sentences, T tokens, D size. An empty sentence is a vector of zeros.
"""

import torch
from torch import Tensor, nn

from elmore.tasks.modules.attention import attend


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
    """An average of a sentence's tokens with weights that a linear layer gives them.

        softmax over t of (v · x_t + b), times X            (McCann et al., 2017)

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
