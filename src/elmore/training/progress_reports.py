"""How a run gets on: what is told and logged of its steps, and how long the rest will take."""

from elmore.training.evaluation_schedule import EvaluationSchedule
from elmore.training.events import Estimated, Progressed
from elmore.training.run_log import RunLog
from elmore.training.trainable import Step, Trainable

SECONDS_OF_SILENCE = 10.0


class ProgressReports:
    """Tells every step that is logged, and others after some seconds of silence."""

    def __init__(
        self, trainable: Trainable, evaluations: EvaluationSchedule, log: RunLog, *, steps: int, log_every: int
    ) -> None:
        self._trainable, self._evaluations, self._log = trainable, evaluations, log
        self._steps, self._log_every = steps, log_every
        self._silence = 0.0  # seconds since something was told
        self.measure_from(0)

    def measure_from(self, done: int) -> None:
        """Count what comes after this step for the speed; the first steps of a run would make it look slow."""
        self._first, self._seconds = done, 0.0

    def after(self, step: Step, seconds: float) -> Progressed | None:
        """What there is to tell after a step that took so long, logged if it is due; None: nothing yet."""
        self._seconds += seconds
        self._silence += seconds
        logged = step.number % self._log_every == 0 or step.number == self._steps
        if not logged and self._silence <= SECONDS_OF_SILENCE:
            return None
        each = self._seconds / (step.number - self._first)
        self.measure_from(step.number)
        self._silence = 0.0
        progress = Progressed(
            step,
            self._steps,
            epoch=step.number / self._trainable.steps_per_epoch,
            metrics=self._trainable.metrics(step),
            tokens_per_second=self._trainable.tokens_per_step / each,
            seconds_left=self._seconds_between(step.number, self._steps, each),
            logged=logged,
        )
        if logged:
            self._log.write_step(progress)
        return progress

    def estimate(self, done: int, until: int, *, seconds_per_step: float) -> Estimated:
        """What the steps and evaluations up to a step will take."""
        seconds = self._seconds_between(done, until, seconds_per_step)
        return Estimated(until, seconds, self._trainable.memory_bytes())

    def _seconds_between(self, done: int, until: int, each: float) -> float:
        return (until - done) * each + self._evaluations.seconds_between(done, until)
