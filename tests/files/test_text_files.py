"""Any text file opens."""

import bz2
import errno
import gzip
import io
import lzma
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError, MissingExtra, NotFound
from elmore.files.text_files import read_lines, total_bytes


def zst(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    return bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zst,
}
packed_any_way = pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS.keys())


@pytest.fixture
def file(tmp_path: Path) -> Callable[[bytes], Path]:
    def made(content: bytes) -> Path:
        path = tmp_path / "text.txt"  # the name never says how it is packed
        path.write_bytes(content)
        return path

    return made


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def given_on_stdin(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return given_on_stdin


@packed_any_way
def test_lines_come_out_of_any_packing_whatever_the_name(file, pack):
    assert list(read_lines(file(pack("eins\nzwei ü\n".encode())))) == ["eins", "zwei ü"]


@packed_any_way
def test_lines_come_out_of_standard_input_in_any_packing(stdin, pack):
    stdin(pack(b"one\ntwo"))
    assert list(read_lines("-")) == ["one", "two"]


@packed_any_way
def test_two_packed_files_joined_are_read_as_one(file, pack):
    assert list(read_lines(file(pack(b"one\n") + pack(b"two\n")))) == ["one", "two"]


@packed_any_way
def test_a_file_larger_than_every_buffer_is_read_whole(file, pack):
    lines = [f"line {number} " + "x" * (number % 300) for number in range(5_000)] + ["long " * 100_000]
    assert list(read_lines(file(pack("\n".join(lines).encode())))) == lines


@given(lines=st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), min_size=1))
def test_what_is_written_as_lines_is_read_as_the_same_lines(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("lines") / "text.txt"
    ends = ["\r\n" if line.endswith("\r") or number % 2 else "\n" for number, line in enumerate(lines)]
    path.write_bytes("".join(line + end for line, end in zip(lines, ends, strict=True)).encode())
    first = lines[0].removeprefix("\ufeff")
    assert list(read_lines(path)) == [first, *lines[1:]]


def test_only_newlines_end_a_line(file):
    content = "a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\rh\0i\nnext\r\n"
    assert list(read_lines(file(content.encode()))) == ["a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\rh\0i", "next"]


def test_lines_can_keep_their_ends(file):
    lines = ["one\r\n", "\n", "two\rthree\n", "four"]
    assert list(read_lines(file("\ufeff{}{}{}{}".format(*lines).encode()), keep_ends=True)) == lines


def test_a_last_line_without_an_end_counts_and_blank_lines_stay(file):
    assert list(read_lines(file(b"\n\na"))) == ["", "", "a"]


@packed_any_way
def test_an_empty_file_has_no_lines(file, pack):
    assert list(read_lines(file(pack(b"")))) == []


def test_a_byte_order_mark_is_dropped_at_the_start_only(file):
    assert list(read_lines(file("\ufeffa\n\ufeffb\n".encode()))) == ["a", "\ufeffb"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_other_encodings_are_named(file, encoding):
    with pytest.raises(InputError, match=rf"text\.txt: is {encoding.upper()}; convert it to UTF-8"):
        list(read_lines(file("hello\n".encode(encoding)), errors="replace"))


def test_bytes_that_are_not_utf8_are_found_by_line_and_column(file):
    path = file("fine\nü\n".encode() + "aü".encode() + b"\xff\n")
    with pytest.raises(InputError, match=r"text\.txt, line 3: not UTF-8 \(byte 0xff at column 3\).*--errors replace"):
        list(read_lines(path))
    assert list(read_lines(path, errors="replace")) == ["fine", "ü", "aü\ufffd"]


@pytest.mark.parametrize("pack", list(PACKERS.values())[1:], ids=list(PACKERS)[1:])
def test_a_packed_file_cut_anywhere_is_an_error(file, pack):
    whole = pack(b"".join(b"line %d\n" % number for number in range(50)))
    for size in range(10, len(whole)):
        with pytest.raises(InputError, match="cut short"):
            list(read_lines(file(whole[:size])))


@pytest.mark.parametrize("pack", list(PACKERS.values())[1:], ids=list(PACKERS)[1:])
def test_a_damaged_packed_file_gives_its_lines_or_an_error(file, pack):
    lines = [f"line {number}" for number in range(50)]
    whole = pack("\n".join(lines).encode())
    damaged = 0
    for place in range(10, len(whole)):
        path = file(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            # A few bytes, such as gzip's note of the time, carry nothing of the text.
            assert list(read_lines(path)) == lines
        except InputError:
            damaged += 1
    assert damaged > 0.9 * (len(whole) - 10)


def test_a_missing_file_a_folder_and_a_closed_door_are_said_plainly(tmp_path, monkeypatch):
    with pytest.raises(NotFound, match="nowhere: no such file"):
        next(read_lines(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="is a folder; name a file"):
        next(read_lines(tmp_path))
    monkeypatch.setattr(Path, "open", refuse(PermissionError(errno.EACCES, "Permission denied")))
    with pytest.raises(InputError, match="secret: cannot be read: Permission denied"):
        next(read_lines(tmp_path / "secret"))


def test_a_missing_zstandard_is_answered_with_the_install_command(file, monkeypatch):
    path = file(b"\x28\xb5\x2f\xfd and so on")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtra, match=r"text\.txt: reading .*pip install 'elmore\[zst\]'"):
        next(read_lines(path))


@contextmanager
def open_pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Standard input as a pipe; the function writes to it. The pipe must not be waited for: after a while it closes."""
    reading_end, writing_end = os.pipe()
    with os.fdopen(reading_end, encoding="utf-8") as pipe, os.fdopen(writing_end, "wb", buffering=0) as other_end:
        monkeypatch.setattr(sys, "stdin", pipe)
        limit = threading.Timer(20, other_end.close)
        limit.start()
        yield other_end.write
        assert not other_end.closed, "the reader waited for more than the first line"
        limit.cancel()


@pytest.mark.parametrize("line", ["", "Hi", "B", "BZh9", "first line of many", "x" * 300_000])
def test_read_lines_yields_line_while_pipe_is_open(monkeypatch, line):
    with open_pipe(monkeypatch) as write:
        writer = threading.Thread(target=write, args=[f"{line}\n".encode()])
        writer.start()
        assert next(read_lines("-")) == line
        writer.join()


@packed_any_way
def test_read_lines_recognizes_compression_in_single_bytes(monkeypatch, pack):
    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(min(size or 1, 1))

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Slow(pack(b"one\ntwo\n"))))
    assert list(read_lines("-")) == ["one", "two"]


def test_read_lines_yields_zstandard_block_while_pipe_is_open(monkeypatch):
    zstandard = pytest.importorskip("zstandard")
    packer = zstandard.ZstdCompressor().compressobj()
    with open_pipe(monkeypatch) as write:
        write(packer.compress(b"one\n") + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        assert next(read_lines("-")) == "one"


def refuse(error: OSError) -> Callable[..., None]:
    def refusing(*_: object, **__: object) -> None:
        raise error

    return refusing


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress, zst])
def test_while_a_file_is_read_it_is_told_how_much_of_it_was(tmp_path: Path, pack) -> None:
    lines = [f"{number} {random.Random(number).random()}" for number in range(100_000)]
    path = tmp_path / "text"
    path.write_bytes(pack("\n".join(lines).encode()))
    told: list[int] = []
    assert list(read_lines(path, on_read=told.append)) == lines
    assert len(told) == len(lines)
    assert sum(told) == path.stat().st_size == total_bytes([path])
    if pack is bz2.compress:  # which packs 900 kB at a time, and cannot unpack less
        return
    # Not all at once: after half of the lines, which are a little shorter, half of it and what is read ahead: most by
    # gzip, which since Python 3.12 takes 128 KiB at a time.
    size = path.stat().st_size
    assert 0.49 * size < sum(told[:50_000]) <= size / 2 + 2**17


def test_the_size_of_a_pipe_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("12345")
    assert total_bytes([tmp_path / "text", tmp_path / "text"]) == 10
    assert total_bytes([tmp_path / "text", "-"]) is None
    assert total_bytes([tmp_path / "none"]) is None
