"""Logits become probabilities, in place: the softmax of a training. `triton_softmax` is the same as one GPU kernel.

n positions, K candidates.
"""

from collections.abc import Callable

import torch
from torch import Tensor

SoftmaxKernel = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # `softmax_`, or what does the same


def softmax_(logits: Tensor, offsets: Tensor, target_logits: Tensor, target_columns: Tensor) -> Tensor:
    """Turn logits (n, K) into the probabilities of the candidates beside a target with a logit (n,) of its own.

    `offsets` (K,) are added first; the candidate in column `target_columns` (n,) of each row, which is the target
    again, gets none. Returns (n,) the logarithm of the sum that everything was divided by.
    """
    exact = logits.to(offsets.dtype)  # the logits themselves, if they are exact already
    exact += offsets
    repeated = (target_columns < logits.shape[1]).nonzero()[:, 0]
    exact[repeated, target_columns[repeated]] = float("-inf")
    highest = torch.maximum(exact.amax(-1), target_logits)
    exact.sub_(highest[:, None]).exp_()
    sums = exact.sum(-1) + (target_logits - highest).exp()
    exact /= sums[:, None]
    if exact is not logits:
        logits.copy_(exact)
    return highest + sums.log()
