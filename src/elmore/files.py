"""Open any text file, and write whole or not at all.

Reading: plain, gzip, xz, bzip2 or Zstandard, a path or `-` for standard input, line by line as UTF-8. Writing: the work
is done under a hidden temporary name beside the target and renamed at the end, so that nobody ever meets half a file.
"""

import bz2
import codecs
import errno
import gzip
import lzma
import os
import re
import secrets
import shutil
import sys
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from elmore.errors import ElmoreError, InputError, MissingExtra, NotFound, shortened

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

DecodingErrors = Literal["strict", "replace"]


def read_lines(path: str | Path, *, errors: DecodingErrors = "strict") -> Iterator[str]:
    r"""Give the lines of a file one by one, without their ends.

    A line ends with \n or \r\n and with nothing else: the many other characters that Unicode calls line ends stand
    inside sentences in real text. NUL is a character like any other; a byte order mark at the start is dropped.
    """
    name = name_of(path)
    with _damage_explained(name), _opened(path) as stream:
        for number, raw in enumerate(stream, start=1):
            line = raw if number > 1 else _without_mark(raw, name)
            if line.endswith(b"\n"):
                line = line[: -2 if line.endswith(b"\r\n") else -1]
            try:
                yield line.decode("utf-8", errors)
            except UnicodeDecodeError as error:
                column = len(line[: error.start].decode("utf-8")) + 1
                raise InputError(
                    f"{name}, line {number}: not UTF-8 (byte 0x{line[error.start]:02x} at column {column}); "
                    "convert the file to UTF-8, or read on with --errors replace"
                ) from None


def name_of(path: str | Path) -> str:
    """What messages call a file that is read."""
    return "standard input" if str(path) == "-" else str(path)


@contextmanager
def writing(path: str | Path) -> Iterator[Path]:
    """Write a file whole or not at all: fill the path this gives, and it takes its name at the end.

    The path given ends like the one asked for, and is an empty file until the block fills it.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "vectors.txt"
    >>> with writing(target) as unfinished:
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
    _check_parent(target, path)
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
def writing_folder(path: str | Path, *, replaces: Collection[str] = ()) -> Iterator[Path]:
    """Write a folder whole or not at all: fill the empty folder this gives, and it takes its name at the end.

    A folder that is there already is replaced as one, but only if all it holds is named in `replaces`: nobody's other
    files are deleted. Between two renames the old folder has a hidden name beside the new one.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"{path}: is a file; name a folder to write")
    _check_parent(target, path)
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


def cache_folder() -> Path:
    """Where downloads are kept: $ELMORE_CACHE, else `elmore` where the system has its caches. It may not exist yet."""
    if chosen := os.environ.get("ELMORE_CACHE"):
        return Path(chosen).expanduser()
    # A relative XDG_CACHE_HOME is to be ignored, says the specification.
    if (shared := Path(os.environ.get("XDG_CACHE_HOME", ""))).is_absolute():
        return shared / "elmore"
    try:
        home = Path.home()
    except RuntimeError:
        raise InputError("there is no home folder to keep downloads in; set ELMORE_CACHE to a folder") from None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "elmore"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "elmore" / "Cache"
    return home / ".cache" / "elmore"


# Reading


@contextmanager
def _damage_explained(name: str) -> Iterator[None]:
    """Say by the file's name whatever goes wrong while it is read."""
    try:
        yield
    except ElmoreError:
        raise
    except FileNotFoundError:
        raise NotFound(f"{name}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{name}: is a folder; name a file") from None
    except EOFError:
        raise InputError(f"{name}: the compressed data end too soon; the file is cut short, fetch it again") from None
    except (OSError, lzma.LZMAError, zlib.error) as error:
        # What the unpackers find comes without a number of the operating system.
        if getattr(error, "errno", None) is None:
            raise InputError(f"{name}: the compressed data are damaged ({error}); fetch the file again") from None
        raise InputError(f"{name}: cannot be read: {cast(OSError, error).strerror}") from None


@contextmanager
def _opened(path: str | Path) -> Iterator[BufferedIOBase]:
    if str(path) != "-":
        with Path(path).open("rb") as file:
            yield _unpacked(file)
    elif sys.stdin is None:
        raise InputError("standard input: there is none here; name a file")
    else:
        yield _unpacked(cast(BufferedIOBase, sys.stdin.buffer))


_ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # the second opens a skippable frame
_BZIP2_MAGIC = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")  # so long because text may well begin with BZh


def _unpacked(stream: BufferedIOBase) -> BufferedIOBase:
    """The stream, decompressed if its first bytes say that it is compressed, whatever its name says."""
    head = stream.read(10)
    # Standard input cannot be wound back, so the head is put in front again.
    whole = BufferedReader(_Rejoined(head, stream), buffer_size=1 << 17)
    if head.startswith(b"\x1f\x8b\x08"):
        return gzip.GzipFile(fileobj=whole)
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMAFile(whole)
    if _BZIP2_MAGIC.match(head):
        return bz2.BZ2File(whole)
    if _ZSTD_MAGIC.match(head):
        return BufferedReader(_Unzstd(whole), buffer_size=1 << 17)
    return whole


class _Rejoined(RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, rest: BufferedIOBase) -> None:
        self.head, self.rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer)
        # read1, not read: a line that somebody pipes in now is not kept waiting for the next.
        piece = self.head[: len(view)] or self.rest.read1(len(view))
        self.head = self.head[len(piece) :]
        view[: len(piece)] = piece
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
            piece = self.frame.unused_data or self.packed.read(self.PIECE)
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


# Writing


def _check_parent(target: Path, path: str | Path) -> None:
    if not target.parent.is_dir():
        raise NotFound(f"{path}: the folder {target.parent} does not exist; make it first")


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
        remedy = f"; {_REMEDIES[error.errno]}" if error.errno in _REMEDIES else ""
        raise ElmoreError(f"{path}: cannot be written: {error.strerror or error}{remedy}") from error
