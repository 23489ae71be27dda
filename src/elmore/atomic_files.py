"""Write a file or a folder whole or not at all.

The work is done under a hidden temporary name beside the target, put on disk, and renamed at the end, so that nobody
ever meets half a file.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmore.errors import ElmoreError, InputError, shortened
from elmore.output_paths import check_folder_of


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Write a file whole or not at all: fill the path this gives, and it takes its name at the end.

    The path given ends like the one asked for, and is an empty file until the block fills it.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> with atomic_write(target) as unfinished:
    ...     _ = unfinished.write_text("0.5 0.25")
    ...     target.exists()
    False
    >>> target.read_text()
    '0.5 0.25'
    """
    # Through a symbolic link, as any program that writes in place would.
    target = Path(path).resolve()
    if target.is_dir():
        raise InputError(f"{path}: is a folder; name a file to write")
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: is not a plain file, and only a plain file can be written whole or not at all")
    check_folder_of(path)
    temporary = _beside(target, "part")
    with _explained(path, temporary, target):
        try:
            temporary.touch(exist_ok=False)
            yield temporary
            _flush(temporary)
            temporary.replace(target)
            _flush(target.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_write_folder(path: str | Path, *, replaces: Collection[str] = ()) -> Iterator[Path]:
    """Write a folder whole or not at all: fill the empty folder this gives, and it takes its name at the end.

    A folder that is there already is replaced as one, but only if all it holds is named in `replaces`: nobody's other
    files are deleted. Between two renames the old folder has a hidden name beside the new one.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"{path}: is a file; name a folder to write")
    check_folder_of(path)
    temporary, aside = _beside(target, "part"), _beside(target, "old")
    with _explained(path, temporary, target):
        if target.exists() and (others := sorted({entry.name for entry in target.iterdir()} - set(replaces))):
            raise InputError(f"{path}: holds {shortened(others)}, which would be lost; choose a new or an empty folder")
        try:
            temporary.mkdir()
            yield temporary
            for folder, _, files in os.walk(temporary):
                for file in files:
                    _flush(Path(folder, file))
                _flush(Path(folder))
            _rename_folder(temporary, target, aside)
            _flush(target.parent)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing; what is put on disk inside of it can then be found again."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        _flush(folder.parent)


def _beside(target: Path, kind: str) -> Path:
    """A name nobody has, in the same folder, with the same ending; long names are cut to what file systems take."""
    return target.with_name(f".{kind}-{secrets.token_hex(4)}-{target.name[-50:]}")


def _flush(path: Path) -> None:
    """Have the system put a file or a folder on disk, so that a rename cannot outlive what it names."""
    if not path.is_dir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    elif os.name == "posix":
        number = os.open(path, os.O_RDONLY)
        try:
            # Some network file systems cannot do this for a folder, and lose nothing by it.
            with suppress(OSError):
                os.fsync(number)
        finally:
            os.close(number)


def _rename_folder(temporary: Path, target: Path, aside: Path) -> None:
    if not target.exists():
        temporary.rename(target)
        return
    target.rename(aside)
    try:
        temporary.rename(target)
    except BaseException:
        aside.rename(target)
        raise


def cannot_be_written(path: str | Path, error: OSError) -> ElmoreError:
    """The system's refusal to write here as a sentence, with what can be done about it.

    >>> cannot_be_written("vectors.h5", OSError(errno.ENOSPC, "No space left on device"))
    ElmoreError('vectors.h5: cannot be written: No space left on device; free some space, or write elsewhere')
    """
    # In the system's words, for libraries have their own.
    reason = os.strerror(error.errno) if error.errno else str(error)
    remedy = f"; {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else ""
    return ElmoreError(f"{path}: cannot be written: {reason}{remedy}")


_REMEDIES = {
    errno.ENOSPC: "free some space, or write elsewhere",
    errno.EDQUOT: "free some space, or write elsewhere",
    errno.EFBIG: "write to a file system that takes larger files",
    errno.EACCES: "choose a place you may write to",
    errno.EPERM: "choose a place you may write to",
    errno.EROFS: "choose a place you may write to",
}


@contextmanager
def _explained(path: str | Path, temporary: Path, target: Path) -> Iterator[None]:
    """Turn the system's refusal to write here into a sentence; errors about anything else pass as they are."""
    try:
        yield
    except ElmoreError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
        ours = str(error.filename or "").startswith((str(temporary), str(target)))
        if not (full or ours):
            raise
        raise cannot_be_written(path, error) from error
