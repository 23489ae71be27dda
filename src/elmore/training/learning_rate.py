"""How the learning rate moves over a training."""

import math


def learning_rate_at(step: int, *, peak: float, steps: int, warmup_steps: int, final_rate: float) -> float:
    """Rise in a straight line over `warmup_steps` steps, then fall along a cosine to a share of the peak.

    >>> rates = [learning_rate_at(n, peak=1.0, steps=100, warmup_steps=10, final_rate=0.1) for n in (0, 9, 10, 55, 99)]
    >>> [round(rate, 3) for rate in rates]
    [0.1, 1.0, 1.0, 0.542, 0.1]
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    done = (step - warmup_steps) / max(steps - warmup_steps - 1, 1)
    return peak * (final_rate + (1 - final_rate) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))
