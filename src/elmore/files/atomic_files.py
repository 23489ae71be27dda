"""Write a file or a folder whole or not at all.

The content is written under a hidden temporary name in the same folder, put on disk, and renamed at the end. A crash
at any point leaves the old version or the new one.
"""

import os
import secrets
import shutil
import stat
import sys
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmore.display import join_names
from elmore.errors import InputError
from elmore.files.os_errors import cannot_be_written as cannot_be_written  # noqa: PLC0414  # spool.py imports it here
from elmore.files.os_errors import writing
from elmore.files.output_paths import check_parent_folder


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end, it replaces the target in one step.

    The temporary path has the target's suffix and is an empty file at first. A file that is replaced passes its
    permissions on.

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
    check_parent_folder(path)
    temporary = _temporary_name(target)
    with writing(path, parts=(temporary, target)):
        try:
            temporary.touch(exist_ok=False)
            # Before the first byte, because the content may be private.
            _copy_mode(target, temporary, add=stat.S_IRUSR | stat.S_IWUSR)
            yield temporary
            _flush(temporary, mode_of=target)
            temporary.replace(target)
            _flush(target.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_write_folder(path: str | Path, *, replaces: Collection[str] = ()) -> Iterator[Path]:
    """Yield an empty temporary folder to write to; at the end, it replaces the target in one step.

    An existing folder is replaced only if all its entries are named in `replaces`, so that no other file is deleted.
    The folder and its files pass their permissions on.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"{path}: is a file; name a folder to write")
    check_parent_folder(path)
    temporary, backup = _temporary_name(target), _backup_name(target)
    with writing(path, parts=(temporary, target, backup)):
        restore_folder(target)
        _check_replaceable(path, target, replaces)
        try:
            temporary.mkdir()
            _copy_mode(target, temporary, add=stat.S_IRWXU)
            yield temporary
            for folder, _, files in os.walk(temporary, topdown=False):
                old = target / Path(folder).relative_to(temporary)
                for file in files:
                    _flush(Path(folder, file), mode_of=old / file)
                _flush(Path(folder), mode_of=old)
            # Again, because writing takes long.
            _check_replaceable(path, target, replaces)
            if target.exists():
                shutil.rmtree(backup, ignore_errors=True)
                _exchange(temporary, target, backup)
            else:
                temporary.rename(target)
            _flush(target.parent)
        finally:
            # The unfinished folder, or the old one.
            shutil.rmtree(temporary, ignore_errors=True)


def restore_folder(path: str | Path) -> None:
    """Give a folder its name back if a crash interrupted the renames that were to replace it.

    This is needed only where the system cannot exchange two names in one step.
    """
    # Not an error: a name that no folder can have, a loop of links, or a missing permission to rename.
    with suppress(OSError, ValueError, RuntimeError):
        target = Path(path).resolve()
        if not target.exists() and (backup := _backup_name(target)).is_dir():
            backup.rename(target)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, and put their names on disk."""
    with writing(path, parts=(path, *path.parents)):
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            _flush(folder.parent)


def replace_file(source: Path, path: str | Path) -> None:
    """Put a finished file on disk, and give it its final name in one step."""
    target = Path(path).resolve()
    with writing(path, parts=(source, target)):
        _flush(source)
        if target.exists():
            _copy_mode(target, source)
        if source.stat().st_dev == target.parent.stat().st_dev:
            source.replace(target)
            _flush(target.parent)
            return
        # The final name is a link to another disk.
        with atomic_write(path) as unfinished:
            shutil.copyfile(source, unfinished)
        source.unlink()


def _temporary_name(target: Path) -> Path:
    """An unused hidden name in the same folder, with the same suffix, cut to the length that file systems accept."""
    return target.with_name(f".part-{secrets.token_hex(4)}-{target.name[-50:]}")


def _backup_name(target: Path) -> Path:
    """The hidden name of the old folder between two renames, the same in every process."""
    return target.with_name(f".old-{zlib.crc32(os.fsencode(target.name)):08x}-{target.name[-50:]}")


def _check_replaceable(path: str | Path, target: Path, replaces: Collection[str]) -> None:
    if target.exists() and (others := sorted({entry.name for entry in target.iterdir()} - set(replaces))):
        raise InputError(f"{path}: holds {join_names(others)}, which would be lost; choose a new or an empty folder")


def _copy_mode(source: Path, target: Path, *, add: int = 0) -> None:
    if source.exists():
        target.chmod(stat.S_IMODE(source.stat().st_mode) | add)


def _flush(path: Path, *, mode_of: Path | None = None) -> None:
    """Put a file or a folder on disk, so that a later rename does not take effect before the content is there.

    The file first gets the permissions of `mode_of` if that exists.
    """
    if not path.is_dir():
        with path.open("rb+") as file:
            if mode_of is not None:
                _copy_mode(mode_of, path)
            os.fsync(file.fileno())
        return
    if mode_of is not None:
        _copy_mode(mode_of, path)
    if os.name == "posix":
        # Some folders cannot be opened, and some network file systems cannot sync a folder.
        with suppress(OSError):
            number = os.open(path, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)


def _exchange(temporary: Path, target: Path, backup: Path) -> None:
    """Exchange the names of two folders, in one step if the system can."""
    if _exchange_at_once(temporary, target):
        return
    target.rename(backup)
    try:
        temporary.rename(target)
    except BaseException:
        # Another process that reads the folder may have restored it.
        with suppress(FileNotFoundError):
            backup.rename(target)
        raise
    backup.rename(temporary)


def _exchange_at_once(first: Path, second: Path) -> bool:
    """Exchange two names by Linux's renameat2; False if the system or the file system does not have it."""
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (OSError, AttributeError):
        return False
    current_folder, rename_exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    status: int = renameat2(
        current_folder, os.fsencode(first), current_folder, os.fsencode(second), ctypes.c_uint(rename_exchange)
    )
    return status == 0
