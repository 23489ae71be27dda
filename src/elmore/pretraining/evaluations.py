"""The evaluations of a run: when one is due, what the last one found, how long those to come will take."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.pretraining.evaluation import HeldOut, as_fact, from_fact
from elmore.pretraining.events import Evaluated


class Evaluations:
    """Measures the held-out part after every so many updates, at the end, and of fine-tuning also before."""

    def __init__(
        self,
        measure: Callable[[NDArray[np.uint32]], HeldOut | None],
        stream: NDArray[np.uint32],
        *,
        every: int,
        sample: int,  # places of the stream by which the time is measured
        last: int,  # the update with which the run ends
        before: int | None,  # the update at which a model that came from elsewhere can predict, and is as it came
    ) -> None:
        self._every, self._sample = every, sample
        self.found: HeldOut | None = None
        self.found_before: HeldOut | None = None
        self._measure, self._stream = measure, stream
        self._last, self._before = last, before
        self._at = -1

    def next_after(self, done: int) -> int:
        """The next update after which one is due."""
        return (done // self._every + 1) * self._every

    def make_if_due(self, done: int) -> Evaluated | None:
        """None where nothing is due, has been made already, or where nothing was held out."""
        before = done == self._before
        due = before or done == self._last or (done > 0 and done % self._every == 0)
        if not due or done == self._at or (found := self._measure(self._stream)) is None:
            return None
        self.found, self._at = found, done
        if before:
            self.found_before = found
        return Evaluated(done, found, before)

    def seconds_after(self, done: int) -> float:
        """About how long all evaluations to come will take, from a sample of the held-out part."""
        sample = self._stream[: self._sample + 1]
        self._measure(sample)  # sets up what the first evaluation needs
        began = time.monotonic()
        found = self._measure(sample)
        if found is None:
            return 0.0
        times = self._last // self._every - done // self._every + (self._last % self._every > 0)
        return (time.monotonic() - began) * len(self._stream) / found.tokens * times

    def to_facts(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"held_out": as_fact(self.found), "held_out_at": self._at, "before": as_fact(self.found_before)}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Take up what a checkpoint kept."""
        self.found, self._at = from_fact(facts.get("held_out")), facts.get("held_out_at", -1)
        self.found_before = from_fact(facts.get("before"))
