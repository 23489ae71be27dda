"""Zip and tar archives as containers: read in place, with a limit on their unpacked size.

If one folder contains all files of an archive, names are relative to this folder. Archives inside archives are not
opened.
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

from elmore.errors import ElmoreError, FormatError, error_context
from elmore.formats.storage.container import explain_read_errors, lookup

# Weights hardly shrink when they are compressed, so real archives expand far less.
_MAX_EXPANSION = 200  # times the size of the archive
_EXPANSION_ALLOWANCE = 64 << 20
_BOMB = f"would expand to more than {_MAX_EXPANSION} times its size, which no model does"

_MAX_CACHED_FILE, _MAX_CACHED_BYTES = 1 << 20, 32 << 20  # of the files of a tar archive

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
        # Python's zipfile unpacks other methods without a limit. Published models do not use them.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FormatError(f"{name}: compressed by another method than deflate; unpack the archive first")
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
    """The files in a tar archive, compressed or not.

    Each read of a compressed archive decompresses it from its start, so small files are cached when it is listed.
    """

    def __init__(self, path: Path) -> None:
        self.archive = path
        self.where = str(path)
        with explain_unpacking_errors(self.where), error_context(path), _opened(path) as stream:
            members = _tar_members(_BoundedStream(stream, _max_unpacked_bytes(path)))
        self.members = _strip_common_folder(members)

    def names(self) -> list[str]:
        return list(self.members)

    def read(self, name: str) -> bytes:
        start, size, content = lookup(self.members, name)
        if content is None:
            with explain_unpacking_errors(name), _opened(self.archive) as stream:
                stream.seek(start)
                content = stream.read(size)
        if len(content) != size:
            raise FormatError(f"{name}: cut short after {len(content)} of {size} bytes; download the archive again")
        return content

    def open(self, name: str) -> BinaryIO:
        return io.BytesIO(self.read(name))

    def path(self, name: str) -> Path | None:
        lookup(self.members, name)
        return None


def open_archive(path: Path) -> ZipContainer | TarContainer | None:
    """The archive at a path, detected by its first bytes; None for other files."""
    with explain_unpacking_errors(str(path)):
        with path.open("rb") as file:
            head = file.read(4)
        if head in (b"PK\3\4", b"PK\5\6"):
            archive = ZipContainer(path)
            # torch.save writes zip archives too, which torch_files reads as one file.
            return None if {"data.pkl", "version"} <= set(archive.names()) else archive
        with _opened(path) as stream:
            is_tar = stream.read(262).endswith(b"ustar")
        return TarContainer(path) if is_tar else None


@contextmanager
def explain_unpacking_errors(name: str) -> Iterator[None]:
    """Raise an ElmoreError with the file's name for any error while decompressing it."""
    try:
        with explain_read_errors(name):
            yield
    except ElmoreError:
        raise
    except _DAMAGE as error:
        raise FormatError(f"{name}: damaged ({str(error)[:100] or type(error).__name__}); fetch it again") from None


# Exceptions of zipfile, tarfile and the decompressors in tests with damaged archives.
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


class _Member(NamedTuple):
    """A file in a tar archive."""

    start: int  # in the decompressed archive
    size: int
    content: bytes | None  # of a small file


class _BoundedStream:
    """A stream that is read forwards, up to a limit.

    tarfile reads the sizes in an archive unchecked, and negative sizes could make it read in a circle.
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
            raise FormatError("damaged: a member begins before the end of the previous one")
        if position > self.bound:
            raise FormatError(_BOMB)


def _tar_members(stream: _BoundedStream) -> dict[str, _Member]:
    """The regular files of a tar archive, with the content of small ones."""
    members: dict[str, _Member] = {}
    cached = 0
    with tarfile.open(fileobj=cast(BinaryIO, stream), mode="r:") as archive:
        for member in archive:
            if not member.isfile() or member.issparse() or member.size < 0:
                continue
            content = None
            if member.size <= _MAX_CACHED_FILE and cached + member.size <= _MAX_CACHED_BYTES:
                stream.seek(member.offset_data)
                content = stream.read(member.size)
                cached += member.size
            members[member.name] = _Member(member.offset_data, member.size, content)
    return members


def _max_unpacked_bytes(path: Path) -> int:
    return _MAX_EXPANSION * path.stat().st_size + _EXPANSION_ALLOWANCE


_UNPACKERS: dict[bytes, Callable[[Path], object]] = {
    b"\x1f\x8b": gzip.open,
    b"\xfd7": lzma.open,
    b"BZ": bz2.open,
}


def _opened(path: Path) -> BinaryIO:
    """Open a file, with decompression if its first bytes are those of a compressed file."""
    with path.open("rb") as file:
        unpack = _UNPACKERS.get(file.read(2))
    return cast(BinaryIO, unpack(path)) if unpack else path.open("rb")


def _strip_common_folder(files: Mapping[str, T]) -> dict[str, T]:
    """Files by their names below their common folder, without the files that macOS adds to archives."""
    tidy = {posixpath.normpath(name.replace("\\", "/")): file for name, file in files.items()}
    real = [name for name in tidy if not name.startswith("__MACOSX/") and posixpath.basename(name)[:2] != "._"]
    folders = [posixpath.dirname("/" + name.lstrip("/")) for name in real]
    common = posixpath.commonpath(folders) if folders else "/"
    return {posixpath.relpath("/" + name.lstrip("/"), common): tidy[name] for name in real}
