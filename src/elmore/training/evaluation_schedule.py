"""When a run evaluates, its latest evaluation, and how long evaluations take."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from elmore.training.events import Evaluated
from elmore.training.trainable import Evaluation


class EvaluationSchedule:
    """Evaluates after every N steps, at the end, and a pretrained model before training changes it."""

    def __init__(
        self,
        evaluate: Callable[[], Evaluation | None],
        *,
        every: int,
        last: int,  # the last step of the run
        baseline_at: int | None,  # the step at which a pretrained model is evaluated unchanged
    ) -> None:
        self._evaluate, self._every, self._last, self._baseline_at = evaluate, every, last, baseline_at
        self.latest: Evaluation | None = None
        self.baseline: Evaluation | None = None
        self._made_at = -1
        self._seconds = 0.0  # duration of the latest evaluation

    def next_after(self, done: int) -> int:
        """The next step after which an evaluation is due."""
        return (done // self._every + 1) * self._every

    def evaluate_if_due(self, done: int) -> Evaluated | None:
        """Evaluate; None if no evaluation is due, if it was made before, or without held-out data."""
        is_baseline = done == self._baseline_at
        is_due = is_baseline or done == self._last or (done > 0 and done % self._every == 0)
        if not is_due or done == self._made_at:
            return None
        started = time.monotonic()
        evaluation = self._evaluate()
        if evaluation is None:
            return None
        self._seconds = time.monotonic() - started
        self.latest, self._made_at = evaluation, done
        if is_baseline:
            self.baseline = evaluation
        return Evaluated(done, evaluation, is_baseline)

    def seconds_between(self, done: int, until: int) -> float:
        """How long the evaluations up to a step will take; 0 before the first evaluation."""
        has_extra_last = until == self._last and until % self._every > 0
        return self._seconds * (until // self._every - done // self._every + has_extra_last)

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {
            "latest": self.latest and self.latest._asdict(),
            "made_at": self._made_at,
            "baseline": self.baseline and self.baseline._asdict(),
        }

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore the values of `to_dict`."""
        self.latest, self.baseline = (
            None if values[name] is None else Evaluation(**values[name]) for name in ("latest", "baseline")
        )
        self._made_at = values["made_at"]
