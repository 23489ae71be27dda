"""Averages over the networks of an ensemble: of their scores, or of their probabilities.

With one network both functions return its tensor unchanged, bit-identical.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def mean_scores(scores: Sequence[Tensor]) -> Tensor:
    """The mean of several networks' scores, all of one shape."""
    return scores[0] if len(scores) == 1 else torch.stack(list(scores)).mean(dim=0)


def mean_of_probabilities(logits: Sequence[Tensor]) -> Tensor:  # (..., K) each -> (..., K)
    """Logits whose softmax is the mean of the networks' softmaxes.

    The mean over networks of logsumexp(logits) is added, so that the logits have the scale of the networks' logits.

    >>> a, b = torch.tensor([0.25, 0.75]).log(), torch.tensor([0.75, 0.25]).log() + 3
    >>> mean_of_probabilities([a, b]).softmax(dim=0)
    tensor([0.5000, 0.5000])
    """
    if len(logits) == 1:
        return logits[0]
    stacked = torch.stack(list(logits))  # (networks, ..., K)
    # Not through probabilities: those that underflow to 0 would have the logarithm -inf.
    mixed = stacked.log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(logits))
    return mixed + stacked.logsumexp(dim=-1, keepdim=True).mean(dim=0)
