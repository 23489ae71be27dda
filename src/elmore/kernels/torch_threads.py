"""Keep torch's own threads out of the way of the native kernels' ones.

After an operation that it shared out, torch's OpenMP threads spin for milliseconds, in wait of the next one, and keep
the native kernels' threads from their cores. Around native kernels, what is left for torch are small operations and
copies: one thread does them as well.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class _Reserved(threading.local):
    """How many threads the native kernels may use in this Python thread, while torch has one."""

    count: int | None = None


_reserved = _Reserved()


def native_threads() -> int:
    """As many as torch has, or had before it was put on one."""
    return _reserved.count or torch.get_num_threads()


@contextmanager
def torch_on_one_thread() -> Iterator[None]:
    """Leave all threads but one to the native kernels.

    >>> before = torch.get_num_threads()
    >>> with torch_on_one_thread():
    ...     torch.get_num_threads(), native_threads() == before
    (1, True)
    """
    threads = torch.get_num_threads()
    if threads == 1 or _reserved.count is not None:
        yield
        return
    _reserved.count = threads
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _reserved.count = None
