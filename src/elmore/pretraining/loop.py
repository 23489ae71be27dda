"""The loop: one update after another, and what happened in each."""

import math
from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from typing import NamedTuple

from elmore.pretraining.stepping import Outcome, Stepper
from elmore.pretraining.windows import Windows
from elmore.training.schedule import rate_at

# On a GPU the loop runs ahead of the losses it reports: to look at one at once would make the GPU wait.
UPDATES_AHEAD = 8


class Update(NamedTuple):
    """What happened in one update."""

    number: int  # how many updates there have been with it
    losses: tuple[float, ...]  # the mean of each direction
    norm: float  # of all gradients, before clipping
    rate: float

    @property
    def loss(self) -> float:
        """The mean of all directions."""
        return sum(self.losses) / len(self.losses)

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.norm)


def train(
    stepper: Stepper,
    windows: Windows,
    *,
    done: int,
    until: int,
    updates: int,
    first: int = 0,
    skipped: Collection[int] = (),
    rate_share: float = 1.0,
    rank: int = 0,
) -> Iterator[Update]:
    """Go on after `done` updates up to `until`, of `updates` in all; yield each, on a GPU a little later.

    Windows that are `skipped`, because they once gave no finite loss, are left out. The rate rises from update `first`,
    and of what the recipe asks only a share is taken after a leap of the loss.
    """
    training = stepper.training
    ahead = UPDATES_AHEAD if stepper.device.type == "cuda" else 0
    stepper.model.train()
    waiting: deque[tuple[int, float, Outcome]] = deque()
    stream = windows.ahead(done * training.accumulate, until * training.accumulate)
    for number in range(done, until):
        group = [window for window in islice(stream, training.accumulate) if window.number not in skipped]
        if not group:
            continue
        # Dropout depends on seed and update alone, so a run that was stopped goes on as if it had not been.
        stepper.seed((training.seed * 1_000_003 + number) * 1_009 + rank)
        rate = rate_share * rate_at(
            number - first,
            peak=training.learning_rate,
            updates=updates - first,
            warmup=training.warmup,
            final_share=training.final_rate,
        )
        waiting.append((number, rate, stepper.step(group, rate)))
        while len(waiting) > ahead:
            yield _finished(*waiting.popleft())
    while waiting:
        yield _finished(*waiting.popleft())


def _finished(number: int, rate: float, outcome: Outcome) -> Update:
    return Update(number + 1, tuple(outcome.losses.tolist()), outcome.norm.item(), rate)
