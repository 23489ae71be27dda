"""The training loop: steps, evaluations, checkpoints and rollbacks of any `Trainable`, in a run folder.

`TrainingLoop.events` pauses the training after a few seconds of steps, and at each evaluation and checkpoint.
`StepRunner` makes the steps between two pauses.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import torch

from elmore.errors import ElmoreError
from elmore.training.checkpoints import TrainingCheckpoints
from elmore.training.evaluation_schedule import EvaluationSchedule
from elmore.training.events import Estimated, Progressed, RolledBack, RunEvent, Started, Stopped
from elmore.training.log import JsonLog, Log, RunLog
from elmore.training.run_folder import RunFolder, RunSettings
from elmore.training.trainable import Snapshot, Step, Trainable, World

MAX_ROLLBACKS = 3
SECONDS_BETWEEN_OUTPUTS = 10.0  # at most, as long as steps are made
SECONDS_BETWEEN_PAUSES = 5.0  # about
# When the speed of a phase can be estimated: after many steps between two pauses, or after some pauses and seconds.
ENOUGH_STEPS, ENOUGH_PAUSES, ENOUGH_SECONDS = 32, 3, 3.0


class TrainingFailed(ElmoreError):
    """The loss was not finite, or spiked, too many times."""


@dataclass
class RunState:
    """The progress of a run, as far as checkpoints store it in addition to tensors."""

    done: int = 0  # steps
    skipped: set[int] = field(default_factory=set)  # numbers of steps
    lr_scale: float = 1.0  # factor of the recipe's learning rate
    seconds: float = 0.0  # of all steps

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint, which stores the number of steps itself."""
        return {"skipped_steps": sorted(self.skipped), "lr_scale": self.lr_scale, "seconds": self.seconds}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Return to a checkpoint, but keep skipped steps and a lower learning rate of later steps."""
        self.done, self.seconds = values["step"], values["seconds"]
        self.skipped.update(values["skipped_steps"])
        # Checkpoints of older versions call the factor "rate_share".
        self.lr_scale = min(self.lr_scale, values.get("lr_scale", values.get("rate_share", 1.0)))


class TrainingLoop:
    """One training run. With several processes, each has a loop, and rank 0 writes."""

    def __init__(
        self,
        trainable: Trainable,
        folder: RunFolder,
        settings: RunSettings,
        *,
        world: World | None = None,
        logs: Sequence[Log] = (),  # in addition to log.jsonl
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
        all_logs = [JsonLog(folder.log), *logs] if self.world.is_rank_zero else []
        self._log = RunLog(all_logs, tokens_per_step=trainable.tokens_per_step)
        reports = ProgressReports(
            trainable, self.evaluations, self._log, steps=self.steps, log_every=settings.log_every
        )
        self._runner = StepRunner(trainable, self.state, reports, self.world)
        self._checkpoints = TrainingCheckpoints(folder.checkpoints, keep=settings.keep)

    @property
    def is_finished(self) -> bool:
        return self.state.done == self.steps or self.trainable.should_stop

    def events(self, stop_requested: Callable[[], bool] = lambda: False) -> Iterator[RunEvent]:
        """Train to the end, from the newest checkpoint if there is one; save and end after a stop request."""
        try:
            yield self._start()
            yield from self._evaluate_if_due()
            rollbacks = 0
            while not self.is_finished and not self.world.any(stop_requested()):
                failed = yield from self._runner.train(self._next_pause())
                if failed is not None:
                    rollbacks += 1
                    yield self._roll_back(failed, rollbacks)
                    continue
                yield from self._evaluate_if_due()
                if self._is_checkpoint_due() or self.is_finished:
                    self._save()
            if not self.is_finished:
                self._save()
                yield Stopped(self.state.done)
        finally:
            self._log.close()

    def _start(self) -> Started:
        is_resumed = self.world.on_rank_zero(lambda: bool(self._checkpoints))
        if is_resumed:
            self._restore()
        else:
            self._save()
        self._log.rewind(self.state.done if is_resumed else -1)
        epochs = self.steps / self.trainable.steps_per_epoch
        return Started(self.steps, self.state.done, epochs, self.world.size, self.is_finished)

    def _next_pause(self) -> int:
        """The next step after which the run saves, evaluates, or checks for a stop request."""
        done, every = self.state.done, self.settings.checkpoint_every
        return min(self._runner.next_pause(), (done // every + 1) * every, self.evaluations.next_after(done))

    def _evaluate_if_due(self) -> Iterator[RunEvent]:
        evaluated = self.evaluations.evaluate_if_due(self.state.done)
        if evaluated is not None:
            self._log.write_evaluation(evaluated)
            yield evaluated

    def _roll_back(self, failed: int, times: int) -> RolledBack:
        self._restore()
        if times > MAX_ROLLBACKS:
            raise TrainingFailed(
                f"step {failed}: the loss is not finite, or far above the losses before, for the {times}th time; the "
                f"checkpoint of step {self.state.done} is good. Resume with a lower rate: --training.learning_rate"
            )
        # The same data would give the same loss again.
        self.state.skipped.add(failed)
        self._log.rewind(self.state.done)
        return RolledBack(failed, self.state.done, self.state.lr_scale)

    def _is_checkpoint_due(self) -> bool:
        if self.state.done % self.settings.checkpoint_every:
            return False
        # Processes have different clocks and must decide alike.
        return self.world.any(monotonic() - self._saved_at >= self.settings.checkpoint_seconds)

    def _save(self) -> None:
        self._saved_at = monotonic()
        progress = {**self.state.to_dict(), "evaluations": self.evaluations.to_dict()}
        snapshot = Snapshot(self.trainable.state_dict(), progress)  # every process takes part
        self.world.on_rank_zero(lambda: self._checkpoints.save(self.state.done, snapshot))

    def _restore(self) -> None:
        """Return to the newest checkpoint."""
        snapshot = self.world.load_snapshot(self._checkpoints.newest)
        self.state.restore(snapshot.progress)
        self.evaluations.restore(snapshot.progress["evaluations"])
        self._runner.enter_phase()
        self.trainable.load_state_dict(snapshot.tensors, done=self.state.done)


class StepRunner:
    """Makes the steps between two pauses, none of which are of two phases."""

    def __init__(self, trainable: Trainable, state: RunState, reports: "ProgressReports", world: World) -> None:
        self._trainable, self._state, self._reports, self._world = trainable, state, reports, world
        self._phase_end = self._current_phase_end()
        self._timer, self._is_estimated = StepTimer(), False

    def enter_phase(self) -> None:
        """Measure the speed again if the run is in another phase than before."""
        if self._current_phase_end() != self._phase_end:
            self._phase_end = self._current_phase_end()
            self._timer, self._is_estimated = StepTimer(), False

    def next_pause(self) -> int:
        """The last step before the next pause."""
        return min(self._phase_end, self._state.done + self._timer.steps_to_next_pause())

    def train(self, until: int) -> Generator[Progressed | Estimated, None, int | None]:
        """Train up to a step; return the number of the first failed step, if any."""
        state = self._state
        first, seconds_before = state.done, state.seconds
        self._reports.measure_from(first)
        started = monotonic()
        for local_step in self._trainable.train(first, until, skipped=state.skipped, lr_scale=state.lr_scale):
            step = self._mean_over_processes(local_step)
            if self._has_failed(step):
                return step.number
            now = monotonic()
            state.seconds += now - started
            progress = self._reports.after(step, now - started)
            started = now
            if progress is not None:
                yield progress
                # The caller's time is no training time.
                started = monotonic()
        state.done = until
        # All processes pause at the same steps, by the clock of rank 0.
        seconds = self._world.on_rank_zero(lambda: state.seconds - seconds_before)
        self._timer.add(steps=until - first, seconds=seconds)
        yield from self._estimate_once()
        self.enter_phase()
        return None

    def _estimate_once(self) -> Iterator[Estimated]:
        done = self._state.done
        if self._timer.can_estimate and not self._is_estimated and done < self._phase_end:
            self._is_estimated = True
            yield self._reports.estimate(done, self._phase_end, seconds_per_step=self._timer.seconds_per_step)

    def _mean_over_processes(self, step: Step) -> Step:
        *losses, norm = self._world.all_reduce_mean(torch.tensor([*step.losses, step.gradient_norm])).tolist()
        return step._replace(losses=tuple(losses), gradient_norm=norm)

    def _has_failed(self, step: Step) -> bool:
        if not step.is_finite:
            return True
        if self._trainable.is_loss_spike(step):
            # Unlike a single infinite loss, a spike means that the steps are too large.
            self._state.lr_scale /= 2
            return True
        return False

    def _current_phase_end(self) -> int:
        ends = self._trainable.phase_ends
        return next((end for end in ends if end > self._state.done), ends[-1])


class StepTimer:
    """The speed of the steps of one phase, and how many steps to make before the next pause.

    The first steps are slow: they allocate memory, and on a GPU capture graphs. So a run pauses after 1, 2, 4, … steps,
    and the latest measurement counts.

    >>> timer = StepTimer()
    >>> timer.steps_to_next_pause()
    1
    >>> timer.add(steps=1, seconds=0.5)
    >>> timer.steps_to_next_pause(), timer.seconds_per_step
    (2, 0.5)
    """

    def __init__(self) -> None:
        self.seconds_per_step = 0.0
        self._most_steps = 0  # between two pauses
        self._pauses, self._seconds = 0, 0.0

    def steps_to_next_pause(self) -> int:
        """How many steps to make before the next pause."""
        if not self._pauses:
            return 1
        most = SECONDS_BETWEEN_PAUSES / max(self.seconds_per_step, 1e-9)
        return max(int(min(2 * self._most_steps, most)), 1)

    def add(self, *, steps: int, seconds: float) -> None:
        """Count the steps between two pauses."""
        self._most_steps, self.seconds_per_step = max(self._most_steps, steps), seconds / steps
        self._pauses, self._seconds = self._pauses + 1, self._seconds + seconds

    @property
    def can_estimate(self) -> bool:
        """Whether there are enough measurements for an estimate."""
        has_enough_pauses = self._pauses >= ENOUGH_PAUSES and self._seconds > ENOUGH_SECONDS
        return self._most_steps >= ENOUGH_STEPS or has_enough_pauses


class ProgressReports:
    """Reports every step that is logged, and other steps after some seconds without output."""

    def __init__(
        self, trainable: Trainable, evaluations: EvaluationSchedule, log: RunLog, *, steps: int, log_every: int
    ) -> None:
        self._trainable, self._evaluations, self._log = trainable, evaluations, log
        self._steps, self._log_every = steps, log_every
        self._silence = 0.0  # seconds since the latest report
        self.measure_from(0)

    def measure_from(self, done: int) -> None:
        """Measure the speed of the steps after this one."""
        self._first, self._seconds = done, 0.0

    def after(self, step: Step, seconds: float) -> Progressed | None:
        """The report of a step that took so long, which is also logged if due; None if nothing is due."""
        self._seconds += seconds
        self._silence += seconds
        is_logged = step.number % self._log_every == 0 or step.number == self._steps
        if not is_logged and self._silence <= SECONDS_BETWEEN_OUTPUTS:
            return None
        seconds_per_step = self._seconds / (step.number - self._first)
        self.measure_from(step.number)
        self._silence = 0.0
        progress = Progressed(
            step,
            self._steps,
            epoch=step.number / self._trainable.steps_per_epoch,
            metrics=self._trainable.metrics(step),
            tokens_per_second=self._trainable.tokens_per_step / seconds_per_step,
            seconds_left=self._seconds_between(step.number, self._steps, seconds_per_step),
            logged=is_logged,
        )
        if is_logged:
            self._log.write_step(progress)
        return progress

    def estimate(self, done: int, until: int, *, seconds_per_step: float) -> Estimated:
        """The duration of steps and evaluations up to a step."""
        seconds = self._seconds_between(done, until, seconds_per_step)
        return Estimated(until, seconds, self._trainable.memory_bytes())

    def _seconds_between(self, done: int, until: int, seconds_per_step: float) -> float:
        return (until - done) * seconds_per_step + self._evaluations.seconds_between(done, until)
