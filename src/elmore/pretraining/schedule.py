"""The learning rate of each step, and the detection of loss spikes, after which the rate is halved."""

import math
from collections.abc import Sequence

DECAY = 0.99  # of the running mean and variance: about the last hundred steps
STEPS_BEFORE = 200  # steps before the first spike is detected
SMALLEST_SPIKE = 1.5  # nats; a perplexity more than four times as high
DEVIATIONS = 10.0  # for small batches, whose losses vary


def learning_rate_at(step: int, *, peak: float, steps: int, warmup_steps: int, final_rate: float) -> float:
    """Linear warmup over `warmup_steps` steps, then a cosine from the peak to `final_rate` times the peak.

    >>> rates = [learning_rate_at(n, peak=1.0, steps=100, warmup_steps=10, final_rate=0.1) for n in (0, 9, 10, 55, 99)]
    >>> [round(rate, 3) for rate in rates]
    [0.1, 1.0, 1.0, 0.542, 0.1]
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    done = (step - warmup_steps) / max(steps - warmup_steps - 1, 1)
    return peak * (final_rate + (1 - final_rate) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))


class LossSpikeDetector:
    """Detects a loss far above its running mean.

    A training run diverges within a few steps, long before a number is infinite: clipped LSTM states saturate at their
    bounds, where they have no gradient, so that a direction does not recover, although all numbers stay finite.

    >>> detector = LossSpikeDetector()
    >>> any(detector.is_spike([3.0 + 0.1 * (n % 2)]) for n in range(300))
    False
    >>> detector.is_spike([3.4]), detector.is_spike([9.0])
    (False, True)
    """

    def __init__(self) -> None:
        self._steps = 0
        self._means: list[float] = []
        self._variances: list[float] = []

    def is_spike(self, losses: Sequence[float]) -> bool:
        """Whether one of the losses spikes; if not, they are added to the running means."""
        if not self._means:
            self._means, self._variances = list(losses), [0.0] * len(losses)
        bounds = [
            mean + max(SMALLEST_SPIKE, DEVIATIONS * math.sqrt(variance))
            for mean, variance in zip(self._means, self._variances, strict=True)
        ]
        if self._steps >= STEPS_BEFORE and any(loss > bound for loss, bound in zip(losses, bounds, strict=True)):
            return True
        self._steps += 1
        for number, loss in enumerate(losses):
            deviation = loss - self._means[number]
            self._means[number] += (1 - DECAY) * deviation
            self._variances[number] = DECAY * (self._variances[number] + (1 - DECAY) * deviation * deviation)
        return False
