"""Scores become probabilities, in place: the softmax of a training. `triton_softmax` is the same as one GPU kernel.

n positions, K candidates.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Normalize = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # `normalize_`, or what does the same


def normalize_(scores: Tensor, offsets: Tensor, true: Tensor, columns: Tensor) -> Tensor:
    """Turn scores (n, K) into the probabilities of the candidates beside a right class with the score `true` (n,).

    `offsets` (K,) are added first; the candidate in column `columns` (n,) of each row, which is the right class again,
    gets none. Returns (n,) the logarithm of the sum that everything was divided by.
    """
    exact = scores.to(offsets.dtype)  # the scores themselves, if they are exact already
    exact += offsets
    repeated = (columns < scores.shape[1]).nonzero()[:, 0]
    exact[repeated, columns[repeated]] = float("-inf")
    highest = torch.maximum(exact.amax(-1), true)
    exact.sub_(highest[:, None]).exp_()
    sums = exact.sum(-1) + (true - highest).exp()
    exact /= sums[:, None]
    if exact is not scores:
        scores.copy_(exact)
    return highest + sums.log()
