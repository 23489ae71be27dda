"""Open any text file and read it line by line as UTF-8.

Plain, gzip, xz, bzip2 or Zstandard, known by its first bytes; a path, or `-` for standard input.
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
    r"""Give the lines of a file one by one, without their ends unless these are to be kept.

    A line ends with \n or \r\n and with nothing else: the many other characters that Unicode calls line ends stand
    inside sentences in real text. NUL is a character like any other; a byte order mark at the start is dropped.
    Before each line `on_read` is told how many more bytes of the file, as it lies there, were read for it.
    """
    name = display_name(path)
    with _errors_named(path), _opened(path) as (stream, packed):
        position = 0
        for number, raw in enumerate(stream, start=1):
            if on_read is not None:
                on_read(packed.tell() - position)
                position = packed.tell()
            line = raw if number > 1 else _without_mark(raw, name)
            if line.endswith(b"\n") and not keep_ends:
                line = line[: -2 if line.endswith(b"\r\n") else -1]
            try:
                yield line.decode("utf-8", errors)
            except UnicodeDecodeError as error:
                column = len(line[: error.start].decode("utf-8")) + 1
                raise InputError(
                    f"{name}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x} at column {column}); "
                    "convert the file to UTF-8, or read on with --errors replace, which commands for raw text have"
                ) from None


def total_bytes(paths: Iterable[str | Path]) -> int | None:
    """How large these files are together, as they lie there; None if one of them is a pipe, or missing.

    >>> total_bytes(["-"]) is None
    True
    """
    files = [Path(path) for path in paths]
    return sum(file.stat().st_size for file in files) if all(file.is_file() for file in files) else None


PACKED_SUFFIXES = (".gz", ".xz", ".bz2", ".zst")


def content_suffix(path: str | Path) -> str:
    """The suffix that tells what is in a file, in small letters, without the one that tells how it is packed.

    >>> content_suffix("train.CSV.gz"), content_suffix("train.csv"), content_suffix("-")
    ('.csv', '.csv', '')
    """
    name = PurePath(path)
    return (name.with_suffix("") if name.suffix.lower() in PACKED_SUFFIXES else name).suffix.lower()


def display_name(path: str | Path) -> str:
    """What messages call a file that is read."""
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
    """The content of a file, unpacked, and the stream from which it is unpacked."""
    if str(path) != "-":
        with Path(path).open("rb") as file:
            yield _unpacked(file)
    elif sys.stdin is None:
        raise InputError("standard input: there is none here; name a file")
    else:
        yield _unpacked(cast(BufferedIOBase, sys.stdin.buffer))


_ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # the second opens a skippable frame
_BZIP2_MAGIC = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")  # so long because text may well begin with BZh


def _unpacked(stream: BufferedIOBase) -> tuple[BufferedIOBase, BufferedIOBase]:
    """The stream, decompressed if its first bytes say that it is compressed, and as it was before."""
    head = b""
    # A line that arrives through a pipe is not held back until there is more; no signature contains a line end.
    while len(head) < 10 and b"\n" not in head and (piece := stream.read1(10 - len(head))):
        head += piece
    # Standard input cannot be rewound, so the head is put in front again.
    whole = BufferedReader(_Rejoined(head, stream), buffer_size=1 << 17)
    if head.startswith(b"\x1f\x8b\x08"):
        return gzip.GzipFile(fileobj=whole), whole
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(whole), whole
    if _BZIP2_MAGIC.match(head):
        return bz2.BZ2File(whole), whole
    if _ZSTD_MAGIC.match(head):
        return BufferedReader(_Unzstd(whole), buffer_size=1 << 17), whole
    return whole, whole


class _Rejoined(RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, rest: BufferedIOBase) -> None:
        self.head, self.rest = head, rest
        self.given = 0

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.given

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        # read1, not read: a line from a pipe does not wait for the next one.
        piece = self.head[: len(view)] or self.rest.read1(len(view))
        self.head = self.head[len(piece) :]
        view[: len(piece)] = piece
        self.given += len(piece)
        return len(piece)


class _Unzstd(RawIOBase):
    """The content of a Zstandard stream of one or more frames.

    Not zstandard's own stream_reader: at the end of a file that is cut short it stops without a word.
    """

    # A byte may unpack to some 32,000, so little is unpacked at a time.
    PIECE = 1 << 12

    def __init__(self, packed: BufferedIOBase) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtra("reading .zst files", library="zstandard", extra="zst") from None
        self.packed = packed
        self.unpacker, self.damage = zstandard.ZstdDecompressor(), zstandard.ZstdError
        self.frame = self.unpacker.decompressobj()
        self.inside = False  # a frame that has begun and not ended
        self.waiting = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        while not self.waiting:
            piece = self.frame.unused_data or self.packed.read1(self.PIECE)
            if not piece and self.inside:
                raise EOFError
            if not piece:
                return 0
            if self.frame.eof:
                self.frame = self.unpacker.decompressobj()
            try:
                self.waiting = memoryview(self.frame.decompress(piece))
            except self.damage as error:
                raise zlib.error(str(error)) from None  # damage is damage, whoever finds it
            self.inside = not self.frame.eof
        view = memoryview(buffer)
        size = min(len(view), len(self.waiting))
        view[:size] = self.waiting[:size]
        self.waiting = self.waiting[size:]
        return size


_FOREIGN_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


def _without_mark(line: bytes, name: str) -> bytes:
    """The first line of a file without UTF-8's byte order mark; the marks of other encodings are refused."""
    for mark, encoding in _FOREIGN_MARKS:
        if line.startswith(mark):
            raise InputError(f"{name}: is {encoding}; convert it to UTF-8, as with: iconv -f {encoding} -t UTF-8")
    return line.removeprefix(codecs.BOM_UTF8)
