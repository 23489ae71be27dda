"""The progress of reading text, as a bar on stderr: how much is done, how fast, and how long it will take.

    scoring   ━━━━━╺━━━━━━━━  42%   1,234,567 tokens  12,345 tokens/s 0:01:23 left

How much is done is known where the size of the input is: as a number of sentences, or as bytes of files. The bar fits
80 columns. It is quiet when asked to be, or when nobody is looking. Training has a display of its own.
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
    """Told how far the work is; this one keeps it to itself."""

    def advance(self, sentences: int, tokens: int) -> None:
        """So many more are done."""

    def read(self, size: int) -> None:
        """So many more bytes of the input were read."""

    def track(self, sentences: Iterable[Item]) -> Iterator[Item]:
        """Pass on the sentences that are read, often many before the first is done.

        By how far the input was read when a sentence came by, it is known how far the work is when that one is done.
        """
        return iter(sentences)


@contextmanager
def progress_bar(
    title: str, *, show: bool | None = None, total: int | None = None, total_bytes: int | None = None
) -> Iterator[Progress]:
    """Show how far the work is while a block runs; of `total` sentences, or of `total_bytes` of input, if known.

    `show=None` shows the bar only on a terminal.
    """
    if not (sys.stderr.isatty() if show is None else show):
        yield Progress()
        return
    # Imported here: rich takes a while, and most callers want no bar.
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
        self._tracked: deque[int] = deque()  # the bytes read before each sentence that is not done yet

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
        # What was never tracked is done when it is read.
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
        """How long it will take, or how long it has taken where that is not known."""

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
    """As a clock shows it.

    >>> _clock(83), _clock(3 * 86400)
    ('0:01:23', '72:00:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
