"""What a training looks like: a bar on a terminal, plain lines elsewhere, both on stderr."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from elmore.training.events import Progressed, Started, duration


class TrainingDisplay:
    """Shows the events of any training as they come."""

    def __init__(self, *, quiet: bool = False, bar: Any = None) -> None:
        self._quiet = quiet
        self._bar = bar  # rich's, on a terminal
        self._task: Any = None

    def show(self, event: object) -> None:
        """Say what happened; that nobody listens any more is no reason to end a training."""
        try:
            if self._bar is None:
                self.say(str(event))
            elif isinstance(event, Progressed):
                # What is left first: a narrow terminal cuts the end off.
                description = f"{duration(event.seconds_left)} left  {event.line}"
                self._bar.update(self._task, completed=event.step.number, description=description)
            else:
                if isinstance(event, Started) and not event.is_finished:
                    self._task = self._bar.add_task("", total=event.steps, completed=event.done)
                self.say(str(event))
        except BrokenPipeError:
            _silence()

    def say(self, text: str) -> None:
        """A line for the user, above the bar if there is one."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr)  # noqa: T201  # this is the place that prints


@contextmanager
def training_display(*, quiet: bool = False) -> Iterator[TrainingDisplay]:
    """A display for the time of a training; its bar is gone afterwards.

    >>> with training_display(quiet=True) as display:
    ...     for event in ["Started", "Finished"]:
    ...         display.show(event)
    """
    if quiet or not sys.stderr.isatty():
        yield TrainingDisplay(quiet=quiet)
        return
    # Imported here: rich takes a while.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=10), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield TrainingDisplay(bar=bar)


def _silence() -> None:
    """Let everything that is still to be said go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)
