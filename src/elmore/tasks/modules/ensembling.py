"""What several networks say of the same, put together: the mean of their scores, or of their probabilities.

Of a single one what it says is left as it is, to the bit.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def mean_scores(scores: Sequence[Tensor]) -> Tensor:
    """The mean of several networks' scores, all of one shape."""
    return scores[0] if len(scores) == 1 else torch.stack(list(scores)).mean(dim=0)


def mean_of_probabilities(logits: Sequence[Tensor]) -> Tensor:  # (..., K) each -> (..., K)
    """Logits whose softmax is the mean of the networks' own softmaxes.

    Their size is that of the networks' too: the mean of the logarithms of their sums is added.

    >>> one, other = torch.tensor([0.25, 0.75]).log(), torch.tensor([0.75, 0.25]).log() + 3
    >>> mean_of_probabilities([one, other]).softmax(dim=0)
    tensor([0.5000, 0.5000])
    """
    if len(logits) == 1:
        return logits[0]
    stacked = torch.stack(list(logits))  # (networks, ..., K)
    # Not by way of probabilities: what is improbable, and is all that is left, would have the logarithm of zero.
    mixed = stacked.log_softmax(dim=-1).logsumexp(dim=0) - math.log(len(logits))
    return mixed + stacked.logsumexp(dim=-1, keepdim=True).mean(dim=0)
