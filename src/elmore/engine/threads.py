"""The number of threads that the native CPU kernels use.

The number belongs to the process. It never changes the threads of torch, OpenMP or BLAS, and they never change it.
Results do not depend on it.
"""

import operator
import os

from elmore.cpus import available_cpus
from elmore.errors import InputError

MAX_THREADS = 1024
VARIABLE = "ELMORE_THREADS"


class _Setting:
    """The number given to `set_threads`; None for the default."""

    threads: int | None = None


def set_threads(threads: int | None) -> None:
    """Set the number of threads for Elmore's native CPU kernels in this process.

    >>> import elmore
    >>> elmore.set_threads(2)
    >>> elmore.get_threads()
    2
    >>> elmore.set_threads(None)  # back to the default

    `None` restores the default: the environment variable `ELMORE_THREADS`, or else the number of CPUs that the
    process may use. Calls that already run in other Python threads keep the number with which they started.
    """
    _Setting.threads = None if threads is None else _checked(threads, "threads")


def get_threads() -> int:
    """Return the number of threads that the native CPU kernels use."""
    if _Setting.threads is not None:
        return _Setting.threads
    if text := os.environ.get(VARIABLE, "").strip():
        return _checked(int(text) if text.isascii() and text.isdigit() else text, VARIABLE)
    return min(available_cpus(), MAX_THREADS)


def _checked(threads: object, name: str) -> int:
    try:
        count = 0 if isinstance(threads, bool) else operator.index(threads)  # type: ignore[arg-type]
    except TypeError:
        count = 0
    if not 1 <= count <= MAX_THREADS:
        raise InputError(f"{name} is {threads!r}; it must be a whole number from 1 to {MAX_THREADS}")
    return count
