"""Errors of the operating system as messages: which file, what went wrong, and what to do."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from elmore.errors import ElmoreError, InputError, NotFound


@contextmanager
def reading(
    path: str | Path, *, error: type[ElmoreError] = InputError, damage: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raise an ElmoreError that names the file if reading it fails.

    If the OSError names another file, that one is named. `damage` lists the exceptions by which a library reports
    damaged content; an OSError without a number counts as damage too. A missing file is NotFound, any other failure is
    an `error`.

    >>> with reading("missing.txt"):
    ...     open("missing.txt")
    Traceback (most recent call last):
    ...
    elmore.errors.NotFound: missing.txt: no such file
    """
    failures: tuple[type[Exception], ...] = (OSError, *damage)
    try:
        yield
    except ElmoreError:
        raise
    except failures as problem:
        raise _cannot_be_read(_file_of(problem) or path, problem, error) from None


@contextmanager
def writing(path: str | Path, *, parts: tuple[Path, ...] = ()) -> Iterator[None]:
    """Raise an ElmoreError that names the file if writing it fails.

    `parts` are other files that are written for this one. OSErrors that name another file pass, and so does a closed
    pipe. Code inside that reads a file does so in `reading`, because some OSErrors contain no file name.

    >>> with writing("v.h5"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    ...
    elmore.errors.ElmoreError: v.h5: cannot be written: No space left on device; free some space, or write elsewhere
    """
    try:
        yield
    except (ElmoreError, BrokenPipeError):
        raise
    except OSError as error:
        if not _concerns(error, path, *parts):
            raise
        raise cannot_be_written(path, error) from error


def cannot_be_written(path: str | Path, error: OSError) -> ElmoreError:
    """The error for a file that cannot be written, with a remedy if there is one.

    >>> cannot_be_written("vectors.h5", OSError(errno.EROFS, "Read-only file system"))
    ElmoreError('vectors.h5: cannot be written: Read-only file system; choose a folder that you may write to')
    """
    remedy = f"; {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else ""
    return ElmoreError(f"{path}: cannot be written: {reason(error)}{remedy}")


def reason(error: OSError) -> str:
    """The cause in the words of the operating system, or of the library if the error has no number.

    >>> reason(OSError(errno.EACCES, "HDF5 says no")), reason(OSError("4096 requested and 0 written"))
    ('Permission denied', '4096 requested and 0 written')
    """
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__


def _cannot_be_read(path: object, problem: Exception, error: type[ElmoreError]) -> ElmoreError:
    if isinstance(problem, FileNotFoundError):
        return NotFound(f"{path}: no such file")
    if isinstance(problem, IsADirectoryError):
        return InputError(f"{path}: is a folder; name a file")
    if isinstance(problem, OSError) and problem.errno:
        return error(f"{path}: cannot be read: {reason(problem)}")
    if isinstance(problem, EOFError):
        return error(f"{path}: ends too soon; the file is cut short, fetch it again")
    return error(f"{path}: damaged ({str(problem)[:100] or type(problem).__name__}); fetch the file again")


def _concerns(error: OSError, *paths: str | Path) -> bool:
    """Whether the error is about one of these files or folders, or names no file at all."""
    name = _file_of(error)
    return name is None or any(name == str(path) or name.startswith(f"{path}{os.sep}") for path in paths)


def _file_of(error: Exception) -> str | None:
    """The file that an error names."""
    name = getattr(error, "filename", None)
    return os.fsdecode(name) if isinstance(name, str | bytes | os.PathLike) else None


_FREE_SPACE = "free some space, or write elsewhere"
_OTHER_FOLDER = "choose a folder that you may write to"
_REMEDIES = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EFBIG: "write to a file system that accepts larger files",
    errno.EACCES: _OTHER_FOLDER,
    errno.EPERM: _OTHER_FOLDER,
    errno.EROFS: _OTHER_FOLDER,
}
