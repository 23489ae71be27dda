"""Where a model's files lie: a folder, a zip or tar archive, or a few files named one by one.

Formats ask a container for names and bytes, so that any packaging of any format is read in place. Nothing is ever
unpacked to disk, so no name inside an archive can lead anywhere.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from elmore.display import join_names
from elmore.errors import FormatError, NotFound, error_context
from elmore.files.json_files import parse_json

T = TypeVar("T")


class Container(Protocol):
    """A set of named files."""

    where: str  # for messages

    def names(self) -> list[str]:
        """All files, by their name relative to the container, with forward slashes."""
        ...

    def read(self, name: str) -> bytes:
        """One file whole; an error that names it where it is missing or damaged."""
        ...

    def open(self, name: str) -> BinaryIO:
        """One file for reading and seeking."""
        ...

    def path(self, name: str) -> Path | None:
        """Where the file lies on disk, if it lies there as it is."""
        ...


def open_container(path: Path) -> Container:
    """Open whatever lies at a path; a file that is no archive is a container of one."""
    if path.is_dir():
        return folder(path)
    if not path.is_file():
        raise NotFound(f"{path}: no such file or folder")
    from elmore.formats.storage.archives import open_archive  # here, because folders need no tarfile and zipfile

    return open_archive(path) or FileContainer({path.name: path})


class FileContainer:
    """Files named one by one, wherever they lie.

    >>> FileContainer({"options.json": Path("a/options.json"), "weights.hdf5": Path("b/seqvec.hdf5")}).where
    'a/options.json and b/seqvec.hdf5'
    """

    def __init__(self, files: Mapping[str, Path], *, where: str | None = None) -> None:
        self.files = dict(files)
        self.where = " and ".join(path.as_posix() for path in self.files.values()) if where is None else where

    def names(self) -> list[str]:
        return list(self.files)

    def read(self, name: str) -> bytes:
        with explain_read_errors(name):
            return lookup(self.files, name).read_bytes()

    def open(self, name: str) -> BinaryIO:
        with explain_read_errors(name):
            return lookup(self.files, name).open("rb")

    def path(self, name: str) -> Path | None:
        return lookup(self.files, name)


def folder(path: Path) -> FileContainer:
    """The files in a folder and in its folders; what lies deeper belongs to no model."""
    with explain_read_errors(str(path)):
        entries = [path, *(entry for entry in path.iterdir() if entry.is_dir())]
        found = [file for entry in entries for file in entry.iterdir() if file.is_file()]
    return FileContainer({file.relative_to(path).as_posix(): file for file in sorted(found)}, where=str(path))


class OverlayContainer:
    """A container with further files laid over it: they come first, and replace those of the same name."""

    def __init__(self, below: Container, files: Mapping[str, Path]) -> None:
        self.below = below
        self.above = FileContainer(files)
        self.where = below.where

    def names(self) -> list[str]:
        return list(dict.fromkeys([*self.above.names(), *self.below.names()]))

    def read(self, name: str) -> bytes:
        return self._holding(name).read(name)

    def open(self, name: str) -> BinaryIO:
        return self._holding(name).open(name)

    def path(self, name: str) -> Path | None:
        return self._holding(name).path(name)

    def _holding(self, name: str) -> Container:
        return self.above if name in self.above.files else self.below


def read_json(container: Container, name: str) -> dict[str, Any]:
    """The object in a JSON file; FormatError, with the name of the file, if it contains anything else."""
    with error_context(name):
        return parse_json(container.read(name))


@contextmanager
def explain_read_errors(name: str) -> Iterator[None]:
    """Raise an ElmoreError with the file's name for an OSError while reading it."""
    try:
        yield
    except NotFound:  # one of ours, and an OSError as well
        raise
    except FileNotFoundError:
        raise NotFound(f"{name}: no such file") from None
    except OSError as error:
        # Errors of decompressors have no errno.
        why = f"cannot be read: {error.strerror}" if error.errno is not None else f"damaged ({error}); fetch it again"
        raise FormatError(f"{name}: {why}") from None


def lookup(files: Mapping[str, T], name: str) -> T:
    """The entry of a file; NotFound, with the names of the other files, if there is none."""
    if name not in files:
        raise NotFound(f"{name} is missing; there are {join_names(sorted(files)) or 'no files at all'}")
    return files[name]
