"""A training run in a folder: whatever is trained, from its first step to its last, through any interruption.

The run yields events (see `events`); whoever runs it decides what to print. What lies in the folder, `run_folder` says.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from elmore.errors import ElmoreError
from elmore.training.checkpoints import Snapshot, TrainingCheckpoints
from elmore.training.distributed import World
from elmore.training.evaluation_schedule import EvaluationSchedule
from elmore.training.events import Estimated, Progressed, RolledBack, RunEvent, Started, Stopped
from elmore.training.log import Log, open_logs
from elmore.training.loss_spikes import LossSpikeDetector
from elmore.training.run_folder import RunFolder
from elmore.training.settings import RunSettings
from elmore.training.step_timer import StepTimer
from elmore.training.trainable import Step, Trainable

MOST_ROLLBACKS = 3
SECONDS_OF_SILENCE = 10.0


class TrainingFailed(ElmoreError):
    """The loss would not stay finite."""


@dataclass
class RunState:
    """How far a run is, and what it has met on the way."""

    done: int = 0  # steps
    skipped: set[int] = field(default_factory=set)  # the numbers of steps that are left out
    rate_share: float = 1.0  # of the rate that the recipe asks for
    seconds: float = 0.0  # spent on steps

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; the step it has from elsewhere."""
        return {"skipped_steps": sorted(self.skipped), "rate_share": self.rate_share, "seconds": self.seconds}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Go back to what a checkpoint kept, without forgetting which steps went wrong since, and how to avoid it."""
        self.done, self.seconds = values["step"], values["seconds"]
        self.skipped.update(values["skipped_steps"])
        self.rate_share = min(self.rate_share, values["rate_share"])


class TrainingRun:
    """One training run; every process has one, and that of rank 0 writes."""

    def __init__(
        self, trainable: Trainable, folder: RunFolder, settings: RunSettings, *, world: World | None = None
    ) -> None:
        self.trainable, self.settings, self.world = trainable, settings, world or World()
        self.steps = trainable.phase_ends[-1]
        self.state = RunState()
        self.evaluations = EvaluationSchedule(
            trainable.evaluate,
            every=settings.evaluate_every or max(int(trainable.steps_per_epoch), 1),
            last=self.steps,
            baseline_at=trainable.baseline_at,
        )
        self._checkpoints = TrainingCheckpoints(folder.checkpoints, keep=settings.keep)
        self._logs: list[Log] = []
        if self.world.is_rank_zero:
            self._logs = open_logs(folder, tensorboard=settings.tensorboard)
        self._phase = _Phase(self._phase_end())

    @property
    def is_finished(self) -> bool:
        return self.state.done == self.steps

    def events(self, stop_asked: Callable[[], bool] = lambda: False) -> Iterator[RunEvent]:
        """Train to the end, from the newest checkpoint if there is one; save and end soon once `stop_asked` says so."""
        try:
            yield self._started()
            yield from self._evaluate_if_due()
            rollbacks = 0
            while not self.is_finished and not self.world.any(stop_asked()):
                failed = yield from self._advance(self._next_pause())
                if failed is not None:
                    rollbacks += 1
                    yield self._roll_back(failed, rollbacks)
                    continue
                yield from self._evaluate_if_due()
                if self.state.done % self.settings.checkpoint_every == 0 or self.is_finished:
                    self._save()
            if not self.is_finished:
                self._save()
                yield Stopped(self.state.done)
        finally:
            for log in self._logs:
                log.close()

    def _started(self) -> Started:
        resumes = self.world.on_rank_zero(lambda: bool(self._checkpoints))
        if resumes:
            self._restore()
        else:
            self._save()
        for log in self._logs:
            log.rewind(self.state.done if resumes else -1)
        epochs = self.steps / self.trainable.steps_per_epoch
        return Started(self.steps, self.state.done, epochs, self.world.size)

    def _next_pause(self) -> int:
        """The next step after which something is saved or measured, or the run looks whether it is to stop."""
        done, every = self.state.done, self.settings.checkpoint_every
        due = (done // every + 1) * every, self.evaluations.next_after(done)
        return min(self._phase.end, done + self._phase.timer.steps_to_next_pause(), *due)

    def _advance(self, until: int) -> Generator[RunEvent, None, int | None]:
        """Train up to a step; return the number of the first one that went wrong, if any."""
        state, phase = self.state, self._phase
        first, seconds_before = state.done, state.seconds
        busy, before = 0.0, state.done
        began = spoke = time.monotonic()
        for own in self.trainable.train(first, until, skipped=state.skipped, rate_share=state.rate_share):
            means = self.world.all_reduce_mean(torch.tensor([*own.losses, own.gradient_norm])).tolist()
            step = own._replace(losses=tuple(means[:-1]), gradient_norm=means[-1])
            if not step.finite:
                return step.number
            if phase.detector.is_spike(step.losses):
                # Unlike a lone infinity, a leap comes of steps that are too long.
                state.rate_share /= 2
                return step.number
            now = time.monotonic()
            state.seconds += now - began
            busy, began = busy + now - began, now
            due = step.number % self.settings.log_every == 0 or step.number == self.steps
            if due or now - spoke > SECONDS_OF_SILENCE:
                progress = self._progress(step, busy / (step.number - before), logged=due)
                if due:
                    self._log(progress)
                yield progress
                busy, before = 0.0, step.number
                began = spoke = time.monotonic()
        state.done = until
        # All processes take the pauses of rank 0.
        seconds = self.world.on_rank_zero(lambda: state.seconds - seconds_before)
        phase.timer.add(steps=until - first, seconds=seconds)
        yield from self._estimate_once()
        self._enter_phase()
        return None

    def _progress(self, step: Step, seconds: float, *, logged: bool) -> Progressed:
        evaluating = self.evaluations.seconds_between(step.number, self.steps)
        return Progressed(
            step,
            self.steps,
            epoch=step.number / self.trainable.steps_per_epoch,
            metrics=self.trainable.metrics(step),
            tokens_per_second=self.trainable.tokens_per_step / seconds,
            seconds_left=(self.steps - step.number) * seconds + evaluating,
            logged=logged,
        )

    def _log(self, progress: Progressed) -> None:
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

    def _estimate_once(self) -> Iterator[RunEvent]:
        phase, done = self._phase, self.state.done
        if phase.is_estimated or done == phase.end or not phase.timer.can_estimate:
            return
        phase.is_estimated = True
        seconds = (phase.end - done) * phase.timer.seconds_per_step + self.evaluations.seconds_between(done, phase.end)
        yield Estimated(phase.end, seconds, self.trainable.memory_bytes())

    def _phase_end(self) -> int:
        return next((end for end in self.trainable.phase_ends if end > self.state.done), self.steps)

    def _enter_phase(self) -> None:
        if self._phase_end() != self._phase.end:
            self._phase = _Phase(self._phase_end())

    def _evaluate_if_due(self) -> Iterator[RunEvent]:
        done = self.state.done
        evaluated = self.evaluations.evaluate_if_due(done)
        if evaluated is None:
            return
        found = evaluated.evaluation
        for log in self._logs:
            log.write(step=done, tokens=self._tokens_at(done), heldout=found.score, heldout_each=found.parts)
        yield evaluated

    def _tokens_at(self, step: int) -> int:
        return round(step * self.trainable.tokens_per_step)

    def _roll_back(self, failed: int, times: int) -> RolledBack:
        self._restore()
        if times > MOST_ROLLBACKS:
            raise TrainingFailed(
                f"step {failed}: the loss is not finite, or has leapt, for the {times}th time; the checkpoint of step "
                f"{self.state.done} is good. Go on from it with a lower rate: --training.learning_rate"
            )
        # The same data would give the same again, so that of this step is left out from now on.
        self.state.skipped.add(failed)
        for log in self._logs:
            log.rewind(self.state.done)
        return RolledBack(failed, self.state.done, self.state.rate_share)

    def _save(self) -> None:
        tensors = self.trainable.state_dict()
        progress = {**self.state.to_dict(), "evaluations": self.evaluations.to_dict()}
        self.world.on_rank_zero(lambda: self._checkpoints.save(self.state.done, Snapshot(tensors, progress)))

    def _restore(self) -> None:
        """Go back to the newest checkpoint, which only rank 0 can read."""
        found: list[Snapshot] = []

        def read() -> dict[str, Any]:
            found.append(self._checkpoints.newest())
            return dict(found[0].progress)

        progress = self.world.on_rank_zero(read)
        tensors = self.world.broadcast_tensors(found[0].tensors if found else {})
        self.state.restore(progress)
        self.evaluations.restore(progress["evaluations"])
        self._enter_phase()
        self.trainable.load_state_dict(tensors, done=self.state.done)


class _Phase:
    """What is learnt of a training while one phase lasts."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.detector, self.timer = LossSpikeDetector(), StepTimer()
        self.is_estimated = False
