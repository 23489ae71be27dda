"""A training run in a folder: whatever is trained, from its first step to its last, through any interruption.

The run yields events (see `events`); whoever runs it decides what to print. What lies in the folder, `run_folder` says.
Here is the loop from pause to pause; `stretches` makes the steps between two pauses.
"""

from collections.abc import Callable, Iterator
from time import monotonic

from elmore.errors import ElmoreError
from elmore.training.checkpoints import Snapshot, TrainingCheckpoints
from elmore.training.distributed import World
from elmore.training.evaluation_schedule import EvaluationSchedule
from elmore.training.events import RolledBack, RunEvent, Started, Stopped
from elmore.training.log import open_logs
from elmore.training.progress_reports import ProgressReports
from elmore.training.run_folder import RunFolder
from elmore.training.run_log import RunLog
from elmore.training.run_state import RunState
from elmore.training.settings import RunSettings
from elmore.training.shared_checkpoints import SharedCheckpoints
from elmore.training.stretches import Stretches
from elmore.training.trainable import Trainable

MOST_ROLLBACKS = 3


class TrainingFailed(ElmoreError):
    """The loss would not stay finite."""


class TrainingRun:
    """One training run; every process has one, and that of rank 0 writes."""

    def __init__(
        self, trainable: Trainable, folder: RunFolder, settings: RunSettings, *, world: World | None = None
    ) -> None:
        self.trainable, self.settings, self.world = trainable, settings, world or World()
        self.steps = trainable.phase_ends[-1]
        self.state = RunState()
        self._saved_at = monotonic()
        self.evaluations = EvaluationSchedule(
            trainable.evaluate,
            every=settings.evaluate_every or max(int(trainable.steps_per_epoch), 1),
            last=self.steps,
            baseline_at=trainable.baseline_at,
        )
        logs = open_logs(folder, tensorboard=settings.tensorboard) if self.world.is_rank_zero else ()
        self._log = RunLog(logs, tokens_per_step=trainable.tokens_per_step)
        reports = ProgressReports(
            trainable, self.evaluations, self._log, steps=self.steps, log_every=settings.log_every
        )
        self._stretches = Stretches(trainable, self.state, reports, self.world)
        self._checkpoints = SharedCheckpoints(TrainingCheckpoints(folder.checkpoints, keep=settings.keep), self.world)

    @property
    def is_finished(self) -> bool:
        return self.state.done == self.steps or self.trainable.is_converged

    def events(self, stop_asked: Callable[[], bool] = lambda: False) -> Iterator[RunEvent]:
        """Train to the end, from the newest checkpoint if there is one; save and end soon once `stop_asked` says so."""
        try:
            yield self._started()
            yield from self._evaluate_if_due()
            rollbacks = 0
            while not self.is_finished and not self.world.any(stop_asked()):
                failed = yield from self._stretches.train(self._next_pause())
                if failed is not None:
                    rollbacks += 1
                    yield self._roll_back(failed, rollbacks)
                    continue
                yield from self._evaluate_if_due()
                if self._checkpoint_is_due() or self.is_finished:
                    self._save()
            if not self.is_finished:
                self._save()
                yield Stopped(self.state.done)
        finally:
            self._log.close()

    def _started(self) -> Started:
        resumes = self._checkpoints.exist()
        if resumes:
            self._restore()
        else:
            self._save()
        self._log.rewind(self.state.done if resumes else -1)
        epochs = self.steps / self.trainable.steps_per_epoch
        return Started(self.steps, self.state.done, epochs, self.world.size, self.is_finished)

    def _next_pause(self) -> int:
        """The next step after which something is saved or measured, or the run looks whether it is to stop."""
        done, every = self.state.done, self.settings.checkpoint_every
        return min(self._stretches.longest(), (done // every + 1) * every, self.evaluations.next_after(done))

    def _evaluate_if_due(self) -> Iterator[RunEvent]:
        evaluated = self.evaluations.evaluate_if_due(self.state.done)
        if evaluated is not None:
            self._log.write_evaluation(evaluated)
            yield evaluated

    def _roll_back(self, failed: int, times: int) -> RolledBack:
        self._restore()
        if times > MOST_ROLLBACKS:
            raise TrainingFailed(
                f"step {failed}: the loss is not finite, or has leapt, for the {times}th time; the checkpoint of step "
                f"{self.state.done} is good. Go on from it with a lower rate: --training.learning_rate"
            )
        # The same data would give the same again, so that of this step is left out from now on.
        self.state.skipped.add(failed)
        self._log.rewind(self.state.done)
        return RolledBack(failed, self.state.done, self.state.rate_share)

    def _checkpoint_is_due(self) -> bool:
        if self.state.done % self.settings.checkpoint_every:
            return False
        # Each process has its own clock, and all must do the same.
        return self.world.any(monotonic() - self._saved_at >= self.settings.checkpoint_seconds)

    def _save(self) -> None:
        self._saved_at = monotonic()
        progress = {**self.state.to_dict(), "evaluations": self.evaluations.to_dict()}
        self._checkpoints.save(self.state.done, Snapshot(self.trainable.state_dict(), progress))

    def _restore(self) -> None:
        """Go back to the newest checkpoint."""
        snapshot = self._checkpoints.newest()
        self.state.restore(snapshot.progress)
        self.evaluations.restore(snapshot.progress["evaluations"])
        self._stretches.enter_phase()
        self.trainable.load_state_dict(snapshot.tensors, done=self.state.done)
