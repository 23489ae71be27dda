"""Run a part of a test with another number of native threads."""

from collections.abc import Iterator
from contextlib import contextmanager

from elmore.engine.threads import get_threads, set_threads


@contextmanager
def using_threads(threads: int) -> Iterator[None]:
    before = get_threads()
    set_threads(threads)
    try:
        yield
    finally:
        set_threads(before)
