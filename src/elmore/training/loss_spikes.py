"""Notice when a loss leaps: a training that goes wrong does so within a few steps, long before a number is infinite.

Clipped states get stuck at their bounds, where no gradient reaches them, so that a direction once lost does not come
back, while every number stays finite.
"""

import math
from collections.abc import Sequence

DECAY = 0.99  # of the running mean and variance: about the last hundred steps
STEPS_BEFORE = 200  # seen before anything counts as a leap
SMALLEST_SPIKE = 1.5  # nats; a perplexity more than four times as high
DEVIATIONS = 10.0  # for small windows, whose losses scatter


class LossSpikeDetector:
    """Keeps the running mean of each loss, and says when one lies far above it.

    >>> detector = LossSpikeDetector()
    >>> any(detector.is_spike([3.0 + 0.1 * (n % 2)]) for n in range(300))
    False
    >>> detector.is_spike([3.4]), detector.is_spike([9.0])
    (False, True)
    """

    def __init__(self) -> None:
        self._seen = 0
        self._means: list[float] = []
        self._variances: list[float] = []

    def is_spike(self, losses: Sequence[float]) -> bool:
        """Whether one of these losses has leapt; if not, they count for the running mean."""
        if not self._means:
            self._means, self._variances = list(losses), [0.0] * len(losses)
        bounds = [
            mean + max(SMALLEST_SPIKE, DEVIATIONS * math.sqrt(variance))
            for mean, variance in zip(self._means, self._variances, strict=True)
        ]
        if self._seen >= STEPS_BEFORE and any(loss > bound for loss, bound in zip(losses, bounds, strict=True)):
            return True
        self._seen += 1
        for number, loss in enumerate(losses):
            apart = loss - self._means[number]
            self._means[number] += (1 - DECAY) * apart
            self._variances[number] = DECAY * (self._variances[number] + (1 - DECAY) * apart * apart)
        return False
