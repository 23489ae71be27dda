"""Text files as lines of UTF-8: a path, or `-` for standard input.

The first bytes determine the compression: none, gzip, xz, bzip2 or Zstandard.
"""

import bz2
import codecs
import gzip
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal, cast

from elmore.errors import InputError, MissingExtra
from elmore.files.os_errors import reading

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

DecodingErrors = Literal["strict", "replace"]
DEFAULT_ERRORS: DecodingErrors = "strict"


def read_lines(
    path: str | Path,
    *,
    errors: DecodingErrors = DEFAULT_ERRORS,
    keep_ends: bool = False,
    on_read: Callable[[int], None] | None = None,
) -> Iterator[str]:
    r"""Yield the lines of a file, without their ends unless `keep_ends` is true.

    A line ends with \n or \r\n only: other line ends of Unicode occur inside sentences of real text. NUL is an ordinary
    character. A byte order mark at the start is removed. Before each line, `on_read` receives the number of bytes of
    the file, compressed or not, that were read for the line.
    """
    name = display_name(path)
    with _errors_named(path), _opened(path) as (content, file):
        position = 0
        for number, raw in enumerate(content, start=1):
            if on_read is not None:
                on_read(file.tell() - position)
                position = file.tell()
            line = raw if number > 1 else _without_mark(raw, name)
            if line.endswith(b"\n") and not keep_ends:
                line = line[: -2 if line.endswith(b"\r\n") else -1]
            try:
                yield line.decode("utf-8", errors)
            except UnicodeDecodeError as error:
                column = len(line[: error.start].decode("utf-8")) + 1
                raise InputError(
                    f"{name}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x} at column {column}); "
                    "convert the file to UTF-8, or give --errors replace to commands that have this option"
                ) from None


def total_bytes(paths: Iterable[str | Path]) -> int | None:
    """The total size of files; None if one of them is a pipe or missing.

    >>> total_bytes(["-"]) is None
    True
    """
    files = [Path(path) for path in paths]
    return sum(file.stat().st_size for file in files) if all(file.is_file() for file in files) else None


COMPRESSION_SUFFIXES = (".gz", ".xz", ".bz2", ".zst")


def content_suffix(path: str | Path) -> str:
    """The suffix of the content, in small letters, without the suffix of the compression.

    >>> content_suffix("train.CSV.gz"), content_suffix("train.csv"), content_suffix("-")
    ('.csv', '.csv', '')
    """
    name = PurePath(path)
    return (name.with_suffix("") if name.suffix.lower() in COMPRESSION_SUFFIXES else name).suffix.lower()


def display_name(path: str | Path) -> str:
    """The name of an input file in messages."""
    return "standard input" if str(path) == "-" else str(path)


@contextmanager
def _errors_named(path: str | Path) -> Iterator[None]:
    """Raise an ElmoreError that names the file for any error while it is read and decompressed."""
    name = display_name(path)
    try:
        with reading(name, damage=(EOFError, lzma.LZMAError, zlib.error)):
            yield
    except MissingExtra as error:
        raise MissingExtra(f"{name}: {error}") from None


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[BufferedIOBase, BufferedIOBase]]:
    """The decompressed content of a file, and the stream of its stored bytes."""
    if str(path) != "-":
        with Path(path).open("rb") as file:
            yield decompress(file)
    elif sys.stdin is None:
        raise InputError("standard input is closed; name a file")
    else:
        yield decompress(cast(BufferedIOBase, sys.stdin.buffer))


_ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # the second starts a skippable frame
_BZIP2_MAGIC = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")  # with the block header, because text can begin with BZh


def decompress(stream: BufferedIOBase) -> tuple[BufferedIOBase, BufferedIOBase]:
    """The content of a stream, decompressed if its first bytes are a signature, and the stream of its stored bytes."""
    head = b""
    # A line from a pipe is delivered at once. No signature contains a line end.
    while len(head) < 10 and b"\n" not in head and (piece := stream.read1(10 - len(head))):
        head += piece
    # Standard input cannot be rewound.
    whole = BufferedReader(_PrefixedStream(head, stream), buffer_size=1 << 17)
    if head.startswith(b"\x1f\x8b\x08"):
        return gzip.GzipFile(fileobj=whole), whole
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(whole), whole
    if _BZIP2_MAGIC.match(head):
        return bz2.BZ2File(whole), whole
    if _ZSTD_MAGIC.match(head):
        return BufferedReader(_ZstdStream(whole), buffer_size=1 << 17), whole
    return whole, whole


class _PrefixedStream(RawIOBase):
    """A stream, with its first bytes, which were read already."""

    def __init__(self, head: bytes, rest: BufferedIOBase) -> None:
        self.head, self.rest = head, rest
        self.position = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        # read1, not read: a line from a pipe does not wait for the next one.
        chunk = self.head[: len(view)] or self.rest.read1(len(view))
        self.head = self.head[len(chunk) :]
        view[: len(chunk)] = chunk
        self.position += len(chunk)
        return len(chunk)


class _ZstdStream(RawIOBase):
    """The content of a Zstandard stream of one or more frames.

    zstandard's stream_reader reports no error for a truncated file.
    """

    CHUNK_SIZE = 1 << 12  # small, because a byte can decompress to some 32,000

    def __init__(self, compressed: BufferedIOBase) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtra("reading .zst files", library="zstandard", extra="zst") from None
        self.compressed = compressed
        self.decompressor, self.damage = zstandard.ZstdDecompressor(), zstandard.ZstdError
        self.frame = self.decompressor.decompressobj()
        self.is_inside_frame = False
        self.pending = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        while not self.pending:
            chunk = self.frame.unused_data or self.compressed.read1(self.CHUNK_SIZE)
            if not chunk and self.is_inside_frame:
                raise EOFError
            if not chunk:
                return 0
            if self.frame.eof:
                self.frame = self.decompressor.decompressobj()
            try:
                self.pending = memoryview(self.frame.decompress(chunk))
            except self.damage as error:
                raise zlib.error(str(error)) from None  # as for other compressions
            self.is_inside_frame = not self.frame.eof
        view = memoryview(buffer)
        size = min(len(view), len(self.pending))
        view[:size] = self.pending[:size]
        self.pending = self.pending[size:]
        return size


_OTHER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16: it begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def _without_mark(line: bytes, name: str) -> bytes:
    """The first line of a file without a byte order mark of UTF-8; InputError for marks of other encodings."""
    for mark, encoding in _OTHER_MARKS:
        if line.startswith(mark):
            raise InputError(f"{name}: is {encoding}; convert it to UTF-8, as with: iconv -f {encoding} -t UTF-8")
    return line.removeprefix(codecs.BOM_UTF8)
