"""What a comparison looks like: on a terminal a bar for each training that runs, elsewhere plain lines, on stderr."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from elmore.tasks.comparison.events import (
    CellEvaluated,
    CellFailed,
    CellFinished,
    CellProgressed,
    CellStarted,
    Event,
    Planned,
    TextRead,
)
from elmore.training.display import TrainingDisplay
from elmore.training.events import duration


class ComparisonDisplay:
    """Shows the events of a comparison as they come."""

    def __init__(self, lines: TrainingDisplay, *, bars: Any = None, verbose: bool = False) -> None:
        self._lines, self._bars, self._verbose = lines, bars, verbose
        self._cells: dict[str, Any] = {}  # rich's number of each bar, by the cell's name
        self._whole: Any = None

    def show(self, event: Event) -> None:
        """Say what happened, and move the bars."""
        if self._bars is not None:
            self._move(event)
        of_the_bars = (CellProgressed, CellEvaluated, TextRead, CellStarted)
        if isinstance(event, CellProgressed) or (isinstance(event, CellEvaluated) and not self._verbose):
            return
        if self._bars is None or not isinstance(event, of_the_bars) or self._verbose:
            self._lines.show(event)

    def say(self, text: str) -> None:
        """A line for the user."""
        self._lines.say(text)

    def _move(self, event: Event) -> None:
        bars = self._bars
        if isinstance(event, Planned):
            self._whole = bars.add_task("trainings", total=event.cells, completed=event.done)
        elif isinstance(event, TextRead):
            bars.update(self._whole, description=str(event))
        elif isinstance(event, CellStarted):
            bars.update(self._whole, description="trainings")
            self._cells[str(event.cell)] = bars.add_task(str(event.cell), total=None)
        elif isinstance(event, CellEvaluated):
            bars.update(self._cells[str(event.cell)], description=str(event))
        elif isinstance(event, CellProgressed):
            progress = event.progress
            text = f"{event.cell}: at most {duration(progress.seconds_left)} left, epoch {progress.epoch:.1f}"
            number = self._cells[str(event.cell)]
            bars.update(number, total=progress.steps, completed=progress.step.number, description=text)
        elif isinstance(event, CellFinished | CellFailed):
            if (ended := self._cells.pop(str(event.cell), None)) is not None:
                bars.remove_task(ended)
            bars.advance(self._whole)


@contextmanager
def comparison_display(*, quiet: bool = False, verbose: bool = False) -> Iterator[ComparisonDisplay]:
    """A display for the time of a comparison; its bars are gone afterwards."""
    if quiet or not sys.stderr.isatty():
        yield ComparisonDisplay(TrainingDisplay(quiet=quiet), verbose=verbose)
        return
    # Imported here: rich takes a while.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=10), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield ComparisonDisplay(TrainingDisplay(bar=bars), bars=bars, verbose=verbose)
