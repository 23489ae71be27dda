"""The files of a model: a folder, a zip or tar archive, or a few files with their paths.

Formats read names and bytes from a container, so every format can be read from every packaging. Nothing is ever
unpacked to disk, so no name inside an archive is used as a path.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from elmore.display import join_names
from elmore.errors import FormatError, InputError, NotFound, error_context
from elmore.files.json_files import parse_json
from elmore.text.vocabulary import Vocabulary

T = TypeVar("T")


class Container(Protocol):
    """A set of named files."""

    where: str  # for messages

    def names(self) -> list[str]:
        """The names of all files, relative to the container, with forward slashes."""
        ...

    def read(self, name: str) -> bytes:
        """The content of a file; an ElmoreError with its name if it is missing or damaged."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading and seeking."""
        ...

    def path(self, name: str) -> Path | None:
        """The path of the file, or None if the file is inside an archive."""
        ...


def open_container(path: Path) -> Container:
    """Open a folder, an archive, or any other file as a container of one file."""
    if path.is_dir():
        return folder(path)
    if not path.is_file():
        raise NotFound(f"{path}: no such file or folder")
    from elmore.formats.storage.archives import open_archive  # imported here, because folders need no zipfile

    return open_archive(path) or FileContainer({path.name: path})


class FileContainer:
    """Files with their paths, which may be in different folders.

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
    """The files in a folder and in its folders. Models have no deeper folders."""
    with explain_read_errors(str(path)):
        entries = [path, *(entry for entry in path.iterdir() if entry.is_dir())]
        files = [file for entry in entries for file in entry.iterdir() if file.is_file()]
    return FileContainer({file.relative_to(path).as_posix(): file for file in sorted(files)}, where=str(path))


class OverlayContainer:
    """A container with additional files, which come first and replace files of the same name."""

    def __init__(self, below: Container, files: Mapping[str, Path]) -> None:
        self.below = below
        self.above = FileContainer(files)
        self.where = below.where

    def names(self) -> list[str]:
        return list(dict.fromkeys([*self.above.names(), *self.below.names()]))

    def read(self, name: str) -> bytes:
        return self._container_of(name).read(name)

    def open(self, name: str) -> BinaryIO:
        return self._container_of(name).open(name)

    def path(self, name: str) -> Path | None:
        return self._container_of(name).path(name)

    def _container_of(self, name: str) -> Container:
        return self.above if name in self.above.files else self.below


def read_json(container: Container, name: str) -> dict[str, Any]:
    """The object in a JSON file; FormatError, with the name of the file, if it contains anything else."""
    with error_context(name):
        return parse_json(container.read(name))


def read_vocabulary(container: Container, name: str) -> Vocabulary:
    """The vocabulary in a file of the published layout; FormatError, with the name of the file, if it is damaged."""
    content = container.read(name)
    try:
        return Vocabulary.decode(content)
    except InputError as error:
        raise FormatError(f"{name}: {error}") from None


def matching_files(container: Container, patterns: Sequence[str]) -> list[str]:
    """The files that match the first pattern with any match; files in inner folders never match.

    >>> matching_files(FileContainer({"vocab_old.txt": Path("a")}), ["vocab.txt", "vocab*.txt"])
    ['vocab_old.txt']
    """
    for pattern in patterns:
        if names := [name for name in container.names() if "/" not in name and fnmatchcase(name, pattern)]:
            return names
    return []


def matching_file(container: Container, patterns: Sequence[str]) -> str:
    """The one file that matches the first pattern with any match; FormatError if there is none, or are several."""
    names = matching_files(container, patterns)
    if not names:
        others = join_names(container.names())
        raise FormatError(f"{patterns[0]} is missing; there are {others or 'no files at all'}")
    if len(names) > 1:
        raise FormatError(
            f"{join_names(names)} could all be the file usually called {patterns[0]}; leave only one here, or name "
            "the files one by one: load(options_file=…, weight_file=…, vocabulary=…)"
        )
    return names[0]


@contextmanager
def explain_read_errors(name: str) -> Iterator[None]:
    """Raise an ElmoreError with the file's name for an OSError while reading it."""
    try:
        yield
    except NotFound:  # raised by Elmore, and a subclass of OSError
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
