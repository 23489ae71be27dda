"""One progress bar, on stderr; quiet when asked, or when nobody is looking."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Protocol


class Progress(Protocol):
    """Something that can be told how far the work is."""

    def advance(self, sentences: int, tokens: int) -> None: ...


class _Silent:
    def advance(self, sentences: int, tokens: int) -> None:
        pass


@contextmanager
def progress_bar(title: str, *, show: bool | None = None, total: int | None = None) -> Iterator[Progress]:
    """Count sentences and tokens while a block runs, and show tokens a second.

    `show=None` shows the bar only on a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield _Silent()
        return
    # Imported here: rich takes a while, and most callers want no bar.
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(
            "{task.completed:,.0f} sentences, {task.fields[tokens]:,} tokens, {task.fields[speed]:,.0f} tokens/s"
        ),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total, tokens=0, speed=0.0)
        started, seen = monotonic(), 0

        class Counting:
            def advance(self, sentences: int, tokens: int) -> None:
                nonlocal seen
                seen += tokens
                speed = seen / max(monotonic() - started, 1e-9)
                bar.update(task, advance=sentences, tokens=seen, speed=speed)

        yield Counting()
