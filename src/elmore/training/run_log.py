"""What of a run's events stands in its logs."""

from collections.abc import Sequence

from elmore.training.events import Evaluated, Progressed
from elmore.training.log import Log


class RunLog:
    """Writes steps and evaluations to all logs of a run; of several processes only rank 0 has any."""

    def __init__(self, logs: Sequence[Log], *, tokens_per_step: float) -> None:
        self._logs, self._tokens_per_step = logs, tokens_per_step

    def rewind(self, step: int) -> None:
        """Forget what came after a step; -1 forgets all."""
        for log in self._logs:
            log.rewind(step)

    def write_step(self, progress: Progressed) -> None:
        """Add the numbers of one step."""
        step = progress.step
        for log in self._logs:
            log.write(
                step=step.number,
                epoch=round(progress.epoch, 4),
                tokens=self._tokens_at(step.number),
                loss=step.loss,
                **progress.metrics,
                gradient_norm=step.gradient_norm,
                learning_rate=step.learning_rate,
                tokens_per_second=round(progress.tokens_per_second),
            )

    def write_evaluation(self, evaluated: Evaluated) -> None:
        """Add what was found on held-out data, and what it is called."""
        step, found = evaluated.number, evaluated.evaluation
        for log in self._logs:
            log.write(
                step=step,
                tokens=self._tokens_at(step),
                metric=found.metric,
                heldout=found.score,
                heldout_each=found.parts,
            )

    def close(self) -> None:
        for log in self._logs:
            log.close()

    def _tokens_at(self, step: int) -> int:
        return round(step * self._tokens_per_step)
