"""A thread that writes while the caller computes the next items."""

from collections import deque
from collections.abc import Callable
from threading import Condition, Thread
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")

MAX_WAITING_BYTES = 2**26
WAKE_SECONDS = 0.5  # on Windows, Ctrl-C does not interrupt a longer wait


class WriterThread(Generic[T]):
    """Calls a function with one item after another, in order, in another thread.

    `put` blocks while more than `max_bytes` are unwritten; a single item may be larger. The block ends when all items
    are written. An error of the function is raised by the next `put`, or at the end of the block.

    >>> written = []
    >>> with WriterThread(written.append) as thread:
    ...     for number in range(3):
    ...         thread.put(number, size=8)
    >>> written
    [0, 1, 2]
    """

    def __init__(self, write: Callable[[T], object], *, max_bytes: int = MAX_WAITING_BYTES) -> None:
        self._write = write
        self._max_bytes = max_bytes
        self._items: deque[tuple[T, int]] = deque()
        self._unwritten_bytes = 0  # of the waiting items, and of the one that is being written
        self._is_closed = False
        self._error: BaseException | None = None
        self._changed = Condition()
        # A daemon: the end of the process does not wait for it.
        self._thread = Thread(target=self._run, name="elmore-writer", daemon=True)

    def put(self, item: T, *, size: int) -> None:
        """Queue an item of this many bytes."""
        with self._changed:
            while self._error is None and self._unwritten_bytes and self._unwritten_bytes + size > self._max_bytes:
                self._changed.wait(WAKE_SECONDS)
            if self._error is not None:
                raise self._error
            self._items.append((item, size))
            self._unwritten_bytes += size
            self._changed.notify_all()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        stopped: KeyboardInterrupt | None = None
        while self._thread.is_alive():
            try:
                self._thread.join(WAKE_SECONDS)
            except KeyboardInterrupt as again:
                # Drop the waiting items. The current write cannot be interrupted.
                self._items.clear()
                stopped = again
        if error is None and (problem := self._error or stopped) is not None:
            raise problem

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._items and not self._is_closed:
                    self._changed.wait()
                if not self._items:
                    return
                item, size = self._items.popleft()
            try:
                self._write(item)
            except BaseException as error:  # noqa: BLE001  # it is raised in the other thread
                with self._changed:
                    self._error = error
                    self._items.clear()
                    self._changed.notify_all()
                return
            del item  # its memory is free while this thread waits
            with self._changed:
                self._unwritten_bytes -= size
                self._changed.notify_all()
