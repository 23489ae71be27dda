"""When a run evaluates, what it found last, and how long an evaluation takes."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from elmore.training.events import Evaluated
from elmore.training.trainable import Evaluation


class EvaluationSchedule:
    """Measures after every so many steps, at the end, and a model that came from elsewhere before it changes."""

    def __init__(
        self,
        evaluate: Callable[[], Evaluation | None],
        *,
        every: int,
        last: int,  # the step with which the run ends
        baseline_at: int | None,  # the step at which a model from elsewhere can be measured, and is as it came
    ) -> None:
        self._evaluate, self._every, self._last, self._baseline_at = evaluate, every, last, baseline_at
        self.latest: Evaluation | None = None
        self.baseline: Evaluation | None = None
        self._made_at = -1
        self._seconds = 0.0  # that the latest took

    def next_after(self, done: int) -> int:
        """The next step after which one is due."""
        return (done // self._every + 1) * self._every

    def evaluate_if_due(self, done: int) -> Evaluated | None:
        """None where nothing is due, has been made already, or where nothing was held out."""
        is_baseline = done == self._baseline_at
        due = is_baseline or done == self._last or (done > 0 and done % self._every == 0)
        if not due or done == self._made_at:
            return None
        began = time.monotonic()
        found = self._evaluate()
        if found is None:
            return None
        self._seconds = time.monotonic() - began
        self.latest, self._made_at = found, done
        if is_baseline:
            self.baseline = found
        return Evaluated(done, found, is_baseline)

    def seconds_between(self, done: int, until: int) -> float:
        """How long the evaluations up to a step will take, as far as one has been made before."""
        ends_apart = until == self._last and until % self._every > 0
        return self._seconds * (until // self._every - done // self._every + ends_apart)

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "latest": self.latest and self.latest._asdict(),
            "made_at": self._made_at,
            "baseline": self.baseline and self.baseline._asdict(),
        }

    def restore(self, values: Mapping[str, Any]) -> None:
        """Take up what a checkpoint kept."""
        self.latest, self.baseline = (
            None if values[name] is None else Evaluation(**values[name]) for name in ("latest", "baseline")
        )
        self._made_at = values["made_at"]
