"""How the learning rate moves over a training."""

import math


def learning_rate_at(step: int, *, peak: float, steps: int, warmup: int, final_rate: float) -> float:
    """Rise in a straight line over `warmup` steps, then fall along a cosine to a share of the peak.

    >>> [round(learning_rate_at(n, peak=1.0, steps=100, warmup=10, final_rate=0.1), 3) for n in (0, 9, 10, 55, 99)]
    [0.1, 1.0, 1.0, 0.542, 0.1]
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(steps - warmup - 1, 1)
    return peak * (final_rate + (1 - final_rate) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0))))
