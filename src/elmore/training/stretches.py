"""The steps between two pauses of a run: made, watched, timed and told."""

import time
from collections.abc import Generator, Iterator

import torch

from elmore.training.distributed import World
from elmore.training.events import Estimated, Progressed
from elmore.training.loss_spikes import LossSpikeDetector
from elmore.training.progress_reports import ProgressReports
from elmore.training.run_state import RunState
from elmore.training.step_timer import StepTimer
from elmore.training.trainable import Step, Trainable


class Phase:
    """What is learnt of a training while one phase lasts: how its losses scatter, and how long its steps take."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.detector, self.timer = LossSpikeDetector(), StepTimer()
        self.is_estimated = False


class Stretches:
    """Trains stretch by stretch, none of which crosses from one phase to the next."""

    def __init__(self, trainable: Trainable, state: RunState, reports: ProgressReports, world: World) -> None:
        self.trainable, self.state, self.reports, self.world = trainable, state, reports, world
        self.phase = Phase(self._phase_end())

    def enter_phase(self) -> None:
        """Begin to measure anew where the run has come to another phase, or gone back to one."""
        if self._phase_end() != self.phase.end:
            self.phase = Phase(self._phase_end())

    def longest(self) -> int:
        """The step that the next stretch may go up to."""
        return min(self.phase.end, self.state.done + self.phase.timer.steps_to_next_pause())

    def train(self, until: int) -> Generator[Progressed | Estimated, None, int | None]:
        """Train up to a step; return the number of the first one that went wrong, if any."""
        state = self.state
        first, seconds_before = state.done, state.seconds
        self.reports.measure_from(first)
        began = time.monotonic()
        for own in self.trainable.train(first, until, skipped=state.skipped, rate_share=state.rate_share):
            step = self._mean_over_processes(own)
            if self._went_wrong(step):
                return step.number
            now = time.monotonic()
            state.seconds += now - began
            progress = self.reports.after(step, now - began)
            began = now
            if progress is not None:
                yield progress
                # What the caller did with it is no part of the training.
                began = time.monotonic()
        state.done = until
        # All processes take the pauses of rank 0.
        seconds = self.world.on_rank_zero(lambda: state.seconds - seconds_before)
        self.phase.timer.add(steps=until - first, seconds=seconds)
        yield from self._estimate_once()
        self.enter_phase()
        return None

    def _estimate_once(self) -> Iterator[Estimated]:
        phase, done = self.phase, self.state.done
        if phase.timer.can_estimate and not phase.is_estimated and done < phase.end:
            phase.is_estimated = True
            yield self.reports.estimate(done, phase.end, seconds_per_step=phase.timer.seconds_per_step)

    def _mean_over_processes(self, own: Step) -> Step:
        *losses, norm = self.world.all_reduce_mean(torch.tensor([*own.losses, own.gradient_norm])).tolist()
        return own._replace(losses=tuple(losses), gradient_norm=norm)

    def _went_wrong(self, step: Step) -> bool:
        if not step.finite:
            return True
        if not self.trainable.loss_may_leap and self.phase.detector.is_spike(step.losses):
            # Unlike a lone infinity, a leap comes of steps that are too long.
            self.state.rate_share /= 2
            return True
        return False

    def _phase_end(self) -> int:
        ends = self.trainable.phase_ends
        return next((end for end in ends if end > self.state.done), ends[-1])
