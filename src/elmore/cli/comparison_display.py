"""Display of a comparison on stderr: on a terminal a progress bar for each run, elsewhere plain lines."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from elmore.cli.training_display import TrainingDisplay, progress_bars
from elmore.tasks.comparison.events import (
    Event,
    Planned,
    RunEvaluated,
    RunFailed,
    RunFinished,
    RunProgressed,
    RunStarted,
    TextEncoded,
)
from elmore.training.events import duration


class ComparisonDisplay:
    """Shows the events of a comparison."""

    def __init__(self, lines: TrainingDisplay, *, bars: Any = None, verbose: bool = False) -> None:
        self._lines, self._bars, self._verbose = lines, bars, verbose
        self._bar_ids: dict[str, Any] = {}  # rich's task id of each bar, by the run's name
        self._whole: Any = None

    def show(self, event: Event) -> None:
        """Print the event, and update the bars."""
        if self._bars is not None:
            self._move(event)
        shown_by_bars = (RunProgressed, RunEvaluated, TextEncoded, RunStarted)
        if isinstance(event, RunProgressed) or (isinstance(event, RunEvaluated) and not self._verbose):
            return
        if self._bars is None or not isinstance(event, shown_by_bars) or self._verbose:
            self._lines.show(event)

    def print_line(self, text: str) -> None:
        """A line for the user."""
        self._lines.print_line(text)

    def _move(self, event: Event) -> None:
        bars = self._bars
        if isinstance(event, Planned):
            self._whole = bars.add_task("runs", total=event.runs, completed=event.done)
        elif isinstance(event, TextEncoded):
            bars.update(self._whole, description=str(event))
        elif isinstance(event, RunStarted):
            bars.update(self._whole, description="runs")
            self._bar_ids[str(event.run)] = bars.add_task(str(event.run), total=None)
        elif isinstance(event, RunEvaluated):
            bars.update(self._bar_ids[str(event.run)], description=str(event))
        elif isinstance(event, RunProgressed):
            progress = event.progress
            text = f"{event.run}: at most {duration(progress.seconds_left)} left, epoch {progress.epoch:.1f}"
            number = self._bar_ids[str(event.run)]
            bars.update(number, total=progress.steps, completed=progress.step.number, description=text)
        elif isinstance(event, RunFinished | RunFailed):
            if (ended := self._bar_ids.pop(str(event.run), None)) is not None:
                bars.remove_task(ended)
            bars.advance(self._whole)


@contextmanager
def comparison_display(*, quiet: bool = False, verbose: bool = False) -> Iterator[ComparisonDisplay]:
    """A display for the duration of a comparison. Its bars are removed at the end."""
    if quiet or not sys.stderr.isatty():
        yield ComparisonDisplay(TrainingDisplay(quiet=quiet), verbose=verbose)
        return
    with progress_bars() as bars:
        yield ComparisonDisplay(TrainingDisplay(bar=bars), bars=bars, verbose=verbose)
