"""A progress bar on standard error for work on text: the part that is done, the speed, and the remaining time.

    scoring   ━━━━━╺━━━━━━━━  42%   1,234,567 tokens  12,345 tokens/s 0:01:23 left

The part that is done is shown if the size of the input is known, in sentences or in bytes of files. The bar fits 80
columns. By default it is shown only on a terminal. Training runs have another display.
"""

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import Task, TaskID

Item = TypeVar("Item")

TITLE_WIDTH = 9  # of "embedding" and "preparing"
BAR_WIDTH = 14


class Progress:
    """Receives the progress of the work, and shows nothing."""

    def advance(self, sentences: int, tokens: int) -> None:
        """Add sentences and tokens that are finished."""

    def read(self, size: int) -> None:
        """Add bytes of the input that were read."""

    def track(self, sentences: Iterable[Item]) -> Iterator[Item]:
        """Yield the sentences, and remember how many bytes had been read when each was produced.

        Many sentences are read before the first is finished. When a sentence is finished, progress is its number.
        """
        return iter(sentences)


@contextmanager
def progress_bar(
    title: str, *, show: bool | None = None, total: int | None = None, total_bytes: int | None = None
) -> Iterator[Progress]:
    """Show a bar while the block runs. The size of the work is `total` sentences or `total_bytes` of input, if known.

    `show=None` shows the bar only on a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield Progress()
        return
    # Imported here, because most callers show no bar.
    from rich.console import Console

    with _bar(Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total or total_bytes, tokens=0, speed=0.0)
        yield _ShownProgress(bar, task, by_bytes=total is None)


class _ShownProgress(Progress):
    def __init__(self, bar: "RichProgress", task: "TaskID", *, by_bytes: bool) -> None:
        self._bar, self._task, self._by_bytes = bar, task, by_bytes
        self._started = monotonic()
        self._sentences = self._tokens = 0
        self._bytes_read = self._bytes_done = 0
        self._tracked: deque[int] = deque()  # the bytes read before each unfinished sentence

    def advance(self, sentences: int, tokens: int) -> None:
        self._sentences += sentences
        self._tokens += tokens
        for _ in range(min(sentences, len(self._tracked))):
            self._bytes_done = self._tracked.popleft()
        self._update()

    def read(self, size: int) -> None:
        self._bytes_read += size

    def track(self, sentences: Iterable[Item]) -> Iterator[Item]:
        for sentence in sentences:
            self._tracked.append(self._bytes_read)
            yield sentence

    def _update(self) -> None:
        # Without tracked sentences, bytes that are read count as done.
        bytes_done = self._bytes_done if self._tracked or self._bytes_done else self._bytes_read
        self._bar.update(
            self._task,
            completed=bytes_done if self._by_bytes else self._sentences,
            tokens=self._tokens,
            speed=self._tokens / max(monotonic() - self._started, 1e-9),
        )


def _bar(console: "Console") -> "RichProgress":
    from rich.progress import BarColumn, ProgressColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as RichProgress
    from rich.text import Text

    class TimeColumn(ProgressColumn):
        """The remaining time, or the elapsed time if the size of the work is unknown."""

        def render(self, task: "Task") -> Text:
            left = None if task.finished else task.time_remaining
            return Text(_clock(task.elapsed or 0.0) if left is None else f"{_clock(left)} left")

    return RichProgress(
        TextColumn(f"{{task.description:<{TITLE_WIDTH}}}"),
        BarColumn(bar_width=BAR_WIDTH),
        TaskProgressColumn(text_format_no_percentage="    "),
        TextColumn("{task.fields[tokens]:>11,} tokens"),
        TextColumn("{task.fields[speed]:>7,.0f} tokens/s"),
        TimeColumn(),
        console=console,
    )


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _clock(83), _clock(3 * 86400)
    ('0:01:23', '72:00:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
