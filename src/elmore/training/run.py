"""The run object that `pretrain`, `train` and `compare` return: an iterator of events that can be stopped."""

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator
from threading import Event
from typing import Generic, TypeVar

from elmore.errors import InputError, InputWarning

E = TypeVar("E")


class Run(Iterator[E], Generic[E]):
    """Work that starts with the first event: iterate over the run, or call `run()`.

    >>> def count(stop_requested):
    ...     number = 0
    ...     while not stop_requested():
    ...         yield (number := number + 1)
    >>> run = Run(count)
    >>> for event in run:
    ...     if event == 3:
    ...         run.stop()
    >>> event
    3
    """

    _is_used = True  # for __del__, if __init__ fails

    def __init__(self, make: Callable[[Callable[[], bool]], Iterator[E]]) -> None:
        # `make` gets no reference to this object: in a reference cycle unfinished events would hold their lock.
        self._stop_requested = Event()
        self._events = _generator(make(self._stop_requested.is_set))
        self._is_used = False

    def __next__(self) -> E:
        self._is_used = True
        return next(self._events)

    def run(self) -> E:
        """Do all the work, and return the last event: the summary, or `Stopped` after a call of `stop`."""
        last = deque(self, maxlen=1)
        if not last:
            raise InputError("this run has ended before; start another one")
        return last[0]

    def stop(self) -> None:
        """Save and end soon; may be called at any time, for example by a signal handler."""
        self._stop_requested.set()

    def close(self) -> None:
        """End without saving, and free the resources of the work, such as the lock of a run folder.

        `break` in a `for` loop over `train(...)` does the same.
        """
        self._is_used = True
        self._events.close()

    def __del__(self) -> None:
        if not self._is_used:
            warnings.warn(
                "a run was created and never started: iterate over its events, or call run()",
                InputWarning,
                stacklevel=2,
            )


def _generator(events: Iterator[E]) -> Generator[E]:
    yield from events
