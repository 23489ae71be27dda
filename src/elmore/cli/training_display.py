"""The display of a training run on stderr, a progress bar on a terminal and lines elsewhere, and its graceful stop."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from elmore.training.events import Progressed, Started, duration
from elmore.training.run import Run


class TrainingDisplay:
    """Prints the events of a run."""

    def __init__(self, *, quiet: bool = False, bar: Any = None) -> None:
        self._quiet = quiet
        self._bar = bar  # of rich, on a terminal
        self._task: Any = None

    def show(self, event: object) -> None:
        """Print the event. Ignore a closed stderr."""
        try:
            if self._bar is None:
                self.print_line(str(event))
            elif isinstance(event, Progressed):
                # The remaining time first, because a narrow terminal cuts off the end.
                description = f"{duration(event.seconds_left)} left  {event.line}"
                self._bar.update(self._task, completed=event.step.number, description=description)
            else:
                if isinstance(event, Started) and not event.is_finished:
                    self._task = self._bar.add_task("", total=event.steps, completed=event.done)
                self.print_line(str(event))
        except BrokenPipeError:
            _discard_stderr()

    def print_line(self, text: str) -> None:
        """Print a line, above the progress bar if there is one."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr)  # the display prints


@contextmanager
def training_display(*, quiet: bool = False) -> Iterator[TrainingDisplay]:
    """A display whose progress bar disappears at the end.

    >>> with training_display(quiet=True) as display:
    ...     for event in ["Started", "Finished"]:
    ...         display.show(event)
    """
    if quiet or not sys.stderr.isatty():
        yield TrainingDisplay(quiet=quiet)
        return
    with progress_bars() as bar:
        yield TrainingDisplay(bar=bar)


@contextmanager
def progress_bars() -> Iterator[Any]:
    """Bars of rich on stderr: bar, count and description."""
    # Imported here: rich takes a while.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=10), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield bars


@contextmanager
def graceful_stop(run: Run[Any], print_line: Callable[[str], object]) -> Iterator[None]:
    """At the first Ctrl-C or SIGTERM, make the run save and end; a second signal ends the process as usual."""

    def stop(*_: object) -> None:
        restore()
        run.stop()
        print_line("stopping after a checkpoint; Ctrl-C again stops at once")

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        restore()


def _discard_stderr() -> None:
    """Discard all later output to stderr."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stderr.fileno())
    os.close(null)
