"""Events that come one by one, from work that can be asked to save and end."""

import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Generic, Protocol, TypeVar

E = TypeVar("E")


class Stoppable(Protocol):
    """Something that ends soon after it is asked to."""

    def stop(self) -> None: ...


class StoppableEvents(Iterator[E], Generic[E]):
    """An iterator of events; nothing happens before the first is asked for.

    >>> def count(stop_asked):
    ...     number = 0
    ...     while not stop_asked():
    ...         yield (number := number + 1)
    >>> events = StoppableEvents(count)
    >>> for event in events:
    ...     if event == 3:
    ...         events.stop()
    >>> event
    3
    """

    def __init__(self, make: Callable[[Callable[[], bool]], Iterator[E]]) -> None:
        # `make` gets no reference to this object: in a reference cycle unfinished events would keep their lock.
        self._stop_asked = Event()
        self._events = _generated(make(self._stop_asked.is_set))

    def __next__(self) -> E:
        return next(self._events)

    def stop(self) -> None:
        """Have the work save what it has and end soon; may be called at any time, as by a signal."""
        self._stop_asked.set()

    def close(self) -> None:
        """End without saving, and free the resources of the work, such as the lock of a run folder.

        `break` in a `for` loop over `train(...)` does the same.
        """
        self._events.close()


def _generated(events: Iterator[E]) -> Generator[E]:
    yield from events


@contextmanager
def graceful_stop(work: Stoppable, say: Callable[[str], object]) -> Iterator[None]:
    """At the first Ctrl-C have the work save and end; at the second it ends as it is."""

    def ask(*_: object) -> None:
        signal.signal(signal.SIGINT, usual)
        work.stop()
        say("stopping, after saving; Ctrl-C again stops at once")

    usual = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
