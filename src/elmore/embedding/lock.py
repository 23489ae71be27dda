"""One process at a time: a lock that the system lets go of when its holder dies, however it dies."""

import errno
import sys
from pathlib import Path
from typing import IO

from elmore.errors import InputError


def lock(path: Path, *, what: str) -> IO[bytes]:
    """Take the lock, and keep it until the file given back is closed; if another holds it, an error that names `what`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "lock"
    >>> held = lock(path, what="vectors.h5.partial")
    >>> lock(path, what="vectors.h5.partial")
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: vectors.h5.partial: another process is at work on it; let it finish, or stop it first
    >>> held.close()
    """
    file = path.open("ab")
    try:
        _lock_file(file)
    except OSError as error:
        # Some network file systems have no locks; nothing can be known there, and most people run one job.
        if error.errno not in _TAKEN:
            return file
        file.close()
        raise InputError(f"{what}: another process is at work on it; let it finish, or stop it first") from None
    return file


_TAKEN = (errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK)

# A file with the pid of its holder would do on any system, but outlives a holder that is killed.
if sys.platform == "win32":
    import msvcrt

    def _lock_file(file: IO[bytes]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock_file(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
