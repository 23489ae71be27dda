"""Zip and tar archives as containers: read in place, with a bound on what they may unpack to.

A folder that holds all files of an archive counts as the archive itself, so that names do not depend on how it was
packed. Archives inside archives are not opened.
"""

import bz2
import gzip
import io
import lzma
import posixpath
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar, cast

from elmore.errors import ElmoreError, FormatError, NotFound, error_context, shortened

# Weights hardly shrink when packed, so that far less than this is seen in honest archives.
_MAX_EXPANSION = 200  # times the size of the archive
_EXPANSION_ALLOWANCE = 64 << 20
_BOMB = f"would unpack to more than {_MAX_EXPANSION} times its size; that is no model"

T = TypeVar("T")


class ZipContainer:
    """The files in a zip archive."""

    def __init__(self, path: Path) -> None:
        self.archive = path
        self.where = str(path)
        with explain_unpacking_errors(self.where), error_context(path), zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if sum(member.file_size for member in members) > _max_unpacked_bytes(path):
                raise FormatError(_BOMB)
        self.members = _strip_common_folder({member.filename: member for member in members})

    def names(self) -> list[str]:
        return list(self.members)

    def read(self, name: str) -> bytes:
        member = lookup(self.members, name)
        # Python's zipfile unpacks the other methods without a bound, and nobody publishes models packed by them.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(f"{name}: packed by another method than deflate; unpack the archive first")
        if member.flag_bits & 1:
            raise FormatError(f"{name}: encrypted; unpack the archive with its password first")
        with explain_unpacking_errors(name), zipfile.ZipFile(self.archive) as archive:
            return archive.read(member)

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.read(name))

    def path(self, name: str) -> Path | None:
        lookup(self.members, name)
        return None


class TarContainer:
    """The files in a tar archive, compressed or not."""

    def __init__(self, path: Path) -> None:
        self.archive = path
        self.where = str(path)
        spans: dict[str, _Span] = {}
        with explain_unpacking_errors(self.where), error_context(path), _opened(path) as stream:
            guarded = _BoundedStream(stream, _max_unpacked_bytes(path))
            with tarfile.open(fileobj=cast(BinaryIO, guarded), mode="r:") as archive:
                for member in archive:
                    if member.isfile() and not member.issparse() and member.size >= 0:
                        spans[member.name] = _Span(member.offset_data, member.size)
        self.spans = _strip_common_folder(spans)

    def names(self) -> list[str]:
        return list(self.spans)

    def read(self, name: str) -> bytes:
        span = lookup(self.spans, name)
        with explain_unpacking_errors(name), _opened(self.archive) as stream:
            stream.seek(span.start)
            content = stream.read(span.size)
        if len(content) != span.size:
            raise FormatError(f"{name}: cut short after {len(content)} of {span.size} bytes; fetch the archive again")
        return content

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.read(name))

    def path(self, name: str) -> Path | None:
        lookup(self.spans, name)
        return None


def open_archive(path: Path) -> ZipContainer | TarContainer | None:
    """The archive at a path, known by its first bytes; None if it is none."""
    with explain_unpacking_errors(str(path)):
        with path.open("rb") as file:
            head = file.read(4)
        if head in (b"PK\3\4", b"PK\5\6"):
            archive = ZipContainer(path)
            # torch.save writes zip archives too; such a file is one thing, and for torch to read.
            return None if {"data.pkl", "version"} <= set(archive.names()) else archive
        with _opened(path) as stream:
            is_tar = stream.read(262).endswith(b"ustar")
        return TarContainer(path) if is_tar else None


@contextmanager
def explain_read_errors(name: str) -> Iterator[None]:
    """Say by the file's name if the system does not let it be read."""
    try:
        yield
    except NotFound:  # one of ours, and an OSError as well
        raise
    except FileNotFoundError:
        raise NotFound(f"{name}: no such file") from None
    except OSError as error:
        # What the unpackers find comes without a number of the operating system.
        why = f"cannot be read: {error.strerror}" if error.errno is not None else f"damaged ({error}); fetch it again"
        raise FormatError(f"{name}: {why}") from None


@contextmanager
def explain_unpacking_errors(name: str) -> Iterator[None]:
    """Say by the file's name whatever goes wrong while it is unpacked."""
    try:
        with explain_read_errors(name):
            yield
    except ElmoreError:
        raise
    except _DAMAGE as error:
        raise FormatError(f"{name}: damaged ({str(error)[:100] or type(error).__name__}); fetch it again") from None


# What zipfile, tarfile and the unpackers were seen to raise on damaged archives.
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    ArithmeticError,
    LookupError,
    NotImplementedError,
    RecursionError,
    struct.error,
)


def lookup(files: Mapping[str, T], name: str) -> T:
    """What is kept for this file; if nothing is, an error that says what there is."""
    if name not in files:
        raise NotFound(f"{name} is missing; there are {shortened(sorted(files)) or 'no files at all'}")
    return files[name]


class _Span(NamedTuple):
    start: int
    size: int


class _BoundedStream:
    """A stream that is read forwards, and not beyond its bound.

    tarfile asks for whatever an archive says, and can be led in a circle by one with sizes below zero.
    """

    def __init__(self, stream: BinaryIO, bound: int) -> None:
        self.stream, self.bound = stream, bound

    def read(self, size: int) -> bytes:
        self._check(self.stream.tell() + size)
        return self.stream.read(size)

    def seek(self, position: int) -> int:
        self._check(position)
        return self.stream.seek(position)

    def tell(self) -> int:
        return self.stream.tell()

    def _check(self, position: int) -> None:
        if position < self.stream.tell():
            raise FormatError("damaged: it leads back into itself")
        if position > self.bound:
            raise FormatError(_BOMB)


def _max_unpacked_bytes(path: Path) -> int:
    return _MAX_EXPANSION * path.stat().st_size + _EXPANSION_ALLOWANCE


_UNPACKERS: dict[bytes, Callable[[Path], object]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7": lzma.open,
    b"BZ": bz2.open,
}


def _opened(path: Path) -> BinaryIO:
    """The file's content, decompressed if its first bytes say that it is compressed."""
    with path.open("rb") as file:
        unpack = _UNPACKERS.get(file.read(2))
    return cast(BinaryIO, unpack(path)) if unpack else path.open("rb")


def _strip_common_folder(files: Mapping[str, T]) -> dict[str, T]:
    """Files by their names below the folder that holds them all; what macOS adds to archives is left out."""
    tidy = {posixpath.normpath(name.replace("\\", "/")): file for name, file in files.items()}
    real = [name for name in tidy if not name.startswith("__MACOSX/") and posixpath.basename(name)[:2] != "._"]
    folders = [posixpath.dirname("/" + name.lstrip("/")) for name in real]
    common = posixpath.commonpath(folders) if folders else "/"
    return {posixpath.relpath("/" + name.lstrip("/"), common): tidy[name] for name in real}
