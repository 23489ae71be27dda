"""Any text file opens, and a file is written whole or not at all."""

import bz2
import errno
import gzip
import io
import lzma
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import ElmoreError, InputError, MissingExtra, NotFound
from elmore.files import cache_folder, read_lines, writing, writing_folder


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
    with pytest.raises(MissingExtra, match=r"pip install 'elmore\[zst\]'"):
        next(read_lines(path))


def test_lines_are_given_while_the_pipe_is_still_open(monkeypatch):
    reading, writing_end = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as pipe, os.fdopen(writing_end, "wb") as other_end:
        monkeypatch.setattr(sys, "stdin", pipe)
        other_end.write(b"first line of many\n")
        other_end.flush()
        assert next(read_lines("-")) == "first line of many"


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    target = tmp_path / "vectors.h5"
    with writing(target) as unfinished:
        assert unfinished.parent == tmp_path
        assert unfinished.suffix == ".h5"
        unfinished.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert names_in(tmp_path) == ["vectors.h5"]


def test_after_an_error_the_old_file_stands_and_nothing_else(tmp_path):
    target = tmp_path / "vectors.h5"
    target.write_text("old")
    for stop in (KeyError("x"), KeyboardInterrupt(), InputError("y")):
        with pytest.raises(type(stop)), writing(target) as unfinished:
            write_half(unfinished, then=stop)
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["vectors.h5"]


def test_a_new_file_has_the_permissions_any_new_file_has(tmp_path):
    (tmp_path / "any").touch()
    with writing(tmp_path / "ours"):
        pass
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_file_is_written_through_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "file")
    with writing(tmp_path / "link") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / "file").read_text() == "new"


def test_names_as_long_as_the_file_system_takes_can_be_written(tmp_path):
    target = tmp_path / ("ü" * 120 + ".txt")
    with writing(target) as unfinished:
        unfinished.write_text("new")
    assert target.read_text() == "new"


@pytest.mark.parametrize("write", [writing, writing_folder])
def test_a_missing_parent_is_said_before_any_work(tmp_path, write):
    with pytest.raises(NotFound, match=r"nowhere does not exist; make it first"), write(tmp_path / "nowhere" / "a"):
        pytest.fail("the work began")


def test_a_folder_or_a_device_is_no_place_for_a_file(tmp_path):
    with pytest.raises(InputError, match="is a folder; name a file"), writing(tmp_path):
        pytest.fail("the work began")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a plain file"), writing(tmp_path / "pipe"):
        pytest.fail("the work began")


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path):
    said = pytest.raises(ElmoreError, match=r"v\.h5: cannot be written: No space left on device; free some space")
    with said, writing(tmp_path / "v.h5") as unfinished:
        write_half(unfinished, then=OSError(errno.ENOSPC, "No space left on device"))
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(("write", "method"), [(writing, "touch"), (writing_folder, "mkdir")])
def test_a_place_that_may_not_be_written_is_a_sentence(tmp_path, monkeypatch, write, method):
    def refused(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, method, refused)
    said = pytest.raises(ElmoreError, match="cannot be written: Permission denied; choose a place you may write to")
    with said, write(tmp_path / "vectors"):
        pytest.fail("the work began")


def test_system_errors_about_other_files_pass_as_they_are(tmp_path):
    with pytest.raises(PermissionError), writing(tmp_path / "v.h5"):
        raise PermissionError(errno.EACCES, "Permission denied", "/somewhere/else")
    assert names_in(tmp_path) == []


def test_a_folder_appears_only_when_it_is_whole(tmp_path):
    target = tmp_path / "model"
    with writing_folder(target) as unfinished:
        (unfinished / "deep").mkdir()
        (unfinished / "deep" / "weights").write_text("new")
        assert not target.exists()
    assert (target / "deep" / "weights").read_text() == "new"
    assert names_in(tmp_path) == ["model"]


def test_an_old_folder_is_replaced_as_one_and_stands_after_an_error(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "weights").write_text("old")
    (target / "card").write_text("old")
    with pytest.raises(KeyError), writing_folder(target, replaces=["weights", "card"]) as unfinished:
        write_half(unfinished / "weights", then=KeyError())
    assert names_in(target) == ["card", "weights"]
    with writing_folder(target, replaces=["weights", "card"]) as unfinished:
        (unfinished / "weights").write_text("new")
    assert names_in(target) == ["weights"]
    assert (target / "weights").read_text() == "new"
    assert names_in(tmp_path) == ["model"]


def test_an_old_folder_comes_back_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    target = tmp_path / "model"
    target.mkdir()
    (target / "weights").write_text("old")
    rename = Path.rename

    def failing(source: Path, to: Path) -> Path:
        if source.name.startswith(".part-"):
            raise OSError(errno.EIO, "Input/output error", str(source))
        return rename(source, to)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ElmoreError, match="Input/output error"), writing_folder(target, replaces=["weights"]):
        pass
    assert (target / "weights").read_text() == "old"
    assert names_in(tmp_path) == ["model"]


def test_a_folder_that_cannot_be_moved_is_a_sentence(tmp_path, monkeypatch):
    target = tmp_path / "mounted"
    target.mkdir()
    monkeypatch.setattr(Path, "rename", refuse(OSError(errno.EBUSY, "Device or resource busy", str(target))))
    with (
        pytest.raises(ElmoreError, match="mounted: cannot be written: Device or resource busy"),
        writing_folder(target),
    ):
        pass
    assert names_in(tmp_path) == ["mounted"]


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    said = pytest.raises(InputError, match=r"holds thesis\.tex, which would be lost")
    with said, writing_folder(tmp_path, replaces=["weights"]):
        pytest.fail("the work began")
    with pytest.raises(InputError, match="is a file; name a folder"), writing_folder(tmp_path / "thesis.tex"):
        pytest.fail("the work began")
    assert names_in(tmp_path) == ["thesis.tex"]


def test_the_cache_lies_where_the_user_or_the_system_says(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ELMORE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_folder() == tmp_path / ".cache" / "elmore"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "elmore"
    monkeypatch.setenv("ELMORE_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"


def refuse(error: OSError) -> Callable[..., None]:
    def refusing(*_: object, **__: object) -> None:
        raise error

    return refusing


def write_half(path: Path, *, then: BaseException) -> None:
    path.write_text("half")
    raise then


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())
