"""Locks between processes. The operating system frees a lock when its process ends, also after `kill -9`."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmore.errors import InputError, InputWarning
from elmore.files.os_errors import cannot_be_written

LOCK = ".lock"  # the usual name of a folder's lock file
FOREVER = -1.0


@contextmanager
def file_lock(path: Path, *, timeout: float = FOREVER, busy: str = "") -> Iterator[None]:
    """Hold the exclusive lock of a file in an existing folder. The file is created, and stays.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / LOCK
    >>> with file_lock(path), file_lock(path, timeout=0, busy="runs/ner: is in use"):
    ...     pass
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: runs/ner: is in use

    Waits up to `timeout` seconds for another holder, which may be another thread or iterator of this process, and then
    raises InputError with the text `busy`. Not reentrant.
    """
    # Imported here: most commands lock nothing.
    from filelock import FileLock, Timeout

    # An iterator of events may end in another thread than the one that started it.
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=timeout)
    except Timeout:
        raise InputError(busy or f"{path}: another process holds this lock; wait until it ends, or stop it") from None
    except NotImplementedError:
        # Raised by older versions of filelock. Newer versions create a lock file instead, and warn.
        warnings.warn(
            f"{path}: this file system has no locks; make sure that no other process writes to the folder",
            InputWarning,
            stacklevel=3,
        )
    except OSError as error:
        raise cannot_be_written(path, error) from error
    try:
        yield
    finally:
        lock.release()
