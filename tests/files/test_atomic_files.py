"""A file or a folder is written whole or not at all."""

import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from elmore.errors import ElmoreError, InputError, NotFound
from elmore.files import atomic_files
from elmore.files.atomic_files import atomic_write, atomic_write_folder


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    target = tmp_path / "vectors.h5"
    with atomic_write(target) as unfinished:
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
        with pytest.raises(type(stop)), atomic_write(target) as unfinished:
            write_half(unfinished, then=stop)
    assert target.read_text() == "old"
    assert names_in(tmp_path) == ["vectors.h5"]


def test_a_new_file_has_the_permissions_any_new_file_has(tmp_path):
    (tmp_path / "any").touch()
    with atomic_write(tmp_path / "ours"):
        pass
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_file_is_written_through_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "file")
    with atomic_write(tmp_path / "link") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "disk" / "file").read_text() == "new"


def test_names_as_long_as_the_file_system_takes_can_be_written(tmp_path):
    target = tmp_path / ("ü" * 120 + ".txt")
    with atomic_write(target) as unfinished:
        unfinished.write_text("new")
    assert target.read_text() == "new"


@pytest.mark.parametrize("write", [atomic_write, atomic_write_folder])
def test_a_missing_parent_is_said_before_any_work_as_it_was_given(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound, match=r"^new/a: the folder new does not exist; create it first$"), write("new/a"):
        pytest.fail("the work began")


def test_a_folder_or_a_device_is_no_place_for_a_file(tmp_path):
    with pytest.raises(InputError, match="is a folder; name a file"), atomic_write(tmp_path):
        pytest.fail("the work began")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a plain file"), atomic_write(tmp_path / "pipe"):
        pytest.fail("the work began")


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path):
    said = pytest.raises(ElmoreError, match=r"v\.h5: cannot be written: No space left on device; free some space")
    with said, atomic_write(tmp_path / "v.h5") as unfinished:
        write_half(unfinished, then=OSError(errno.ENOSPC, "No space left on device"))
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(("write", "method"), [(atomic_write, "touch"), (atomic_write_folder, "mkdir")])
def test_a_place_that_may_not_be_written_is_a_sentence(tmp_path, monkeypatch, write, method):
    def refused(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, method, refused)
    said = pytest.raises(
        ElmoreError, match="cannot be written: Permission denied; choose a folder that you may write to"
    )
    with said, write(tmp_path / "vectors"):
        pytest.fail("the work began")


def test_system_errors_about_other_files_pass_as_they_are(tmp_path):
    with pytest.raises(PermissionError), atomic_write(tmp_path / "v.h5"):
        raise PermissionError(errno.EACCES, "Permission denied", "/somewhere/else")
    assert names_in(tmp_path) == []


def test_a_folder_appears_only_when_it_is_whole(tmp_path):
    target = tmp_path / "model"
    with atomic_write_folder(target) as unfinished:
        (unfinished / "deep").mkdir()
        (unfinished / "deep" / "weights").write_text("new")
        assert not target.exists()
    assert (target / "deep" / "weights").read_text() == "new"
    assert names_in(tmp_path) == ["model"]


@pytest.fixture(params=["in one step", "by renames"])
def either_exchange(request, monkeypatch):
    """With renameat2 where the system has it, and without."""
    if request.param == "by renames":
        monkeypatch.setattr(atomic_files, "_exchange_at_once", lambda *_: False)


@pytest.mark.usefixtures("either_exchange")
def test_an_old_folder_is_replaced_as_one_and_stands_after_an_error(tmp_path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "weights").write_text("old")
    (target / "card").write_text("old")
    with pytest.raises(KeyError), atomic_write_folder(target, replaces=["weights", "card"]) as unfinished:
        write_half(unfinished / "weights", then=KeyError())
    assert names_in(target) == ["card", "weights"]
    with atomic_write_folder(target, replaces=["weights", "card"]) as unfinished:
        (unfinished / "weights").write_text("new")
    assert names_in(target) == ["weights"]
    assert (target / "weights").read_text() == "new"
    assert names_in(tmp_path) == ["model"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has renameat2")
def test_exchange_at_once_swaps_folders_and_fails_without_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert atomic_files._exchange_at_once(tmp_path / "a", tmp_path / "b")
    assert [(tmp_path / name / "file").read_text() for name in ("a", "b")] == ["b", "a"]
    assert not atomic_files._exchange_at_once(tmp_path / "a", tmp_path / "c")
    assert names_in(tmp_path) == ["a", "b"]


def test_an_old_folder_comes_back_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    target = tmp_path / "model"
    target.mkdir()
    (target / "weights").write_text("old")
    rename = Path.rename

    def failing(source: Path, to: Path) -> Path:
        if source.name.startswith(".part-"):
            raise OSError(errno.EIO, "Input/output error", str(source))
        return rename(source, to)

    monkeypatch.setattr(atomic_files, "_exchange_at_once", lambda *_: False)
    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ElmoreError, match="Input/output error"), atomic_write_folder(target, replaces=["weights"]):
        pass
    assert (target / "weights").read_text() == "old"
    assert names_in(tmp_path) == ["model"]


def test_a_folder_that_cannot_be_moved_is_a_sentence(tmp_path, monkeypatch):
    target = tmp_path / "mounted"
    target.mkdir()
    monkeypatch.setattr(atomic_files, "_exchange_at_once", lambda *_: False)
    monkeypatch.setattr(Path, "rename", refuse(OSError(errno.EBUSY, "Device or resource busy", str(target))))
    with (
        pytest.raises(ElmoreError, match="mounted: cannot be written: Device or resource busy"),
        atomic_write_folder(target),
    ):
        pass
    assert names_in(tmp_path) == ["mounted"]


def test_restore_folder_changes_nothing_without_a_backup(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / ".old-12345678-other").mkdir()
    for name in ("model", "other"):
        atomic_files.restore_folder(tmp_path / name)
    assert names_in(tmp_path) == [".old-12345678-other", "model"]


@pytest.mark.usefixtures("either_exchange")
def test_atomic_write_folder_rejects_files_added_while_it_writes(tmp_path):
    target = tmp_path / "model"
    said = pytest.raises(InputError, match=r"holds thesis\.tex, which would be lost")
    with said, atomic_write_folder(target, replaces=["weights"]):
        target.mkdir()
        (target / "thesis.tex").write_text("years of work")
    assert names_in(target) == ["thesis.tex"]
    assert names_in(tmp_path) == ["model"]


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o444])
def test_atomic_write_preserves_permissions_of_replaced_file(tmp_path, mode):
    target = tmp_path / "private"
    target.write_text("old")
    target.chmod(mode)
    with atomic_write(target) as unfinished:
        assert mode_of(unfinished) == mode | 0o600  # private from the start, and writable
        unfinished.write_text("new")
    assert mode_of(target) == mode
    assert target.read_text() == "new"


@pytest.mark.usefixtures("either_exchange")
def test_atomic_write_folder_preserves_permissions_of_replaced_folder(tmp_path):
    target = tmp_path / "private"
    (target / "deep").mkdir(parents=True)
    (target / "deep" / "weights").write_text("old")
    modes = {target: 0o2770, target / "deep": 0o500, target / "deep" / "weights": 0o640}
    for path, mode in modes.items():
        path.chmod(mode)
    with atomic_write_folder(target, replaces=["deep"]) as unfinished:
        assert mode_of(unfinished) == 0o2770
        (unfinished / "deep").mkdir()
        (unfinished / "deep" / "weights").write_text("new")
    assert {path: mode_of(path) for path in modes} == modes
    assert (target / "deep" / "weights").read_text() == "new"


def test_a_folder_that_cannot_be_opened_can_be_written_to(tmp_path, monkeypatch):
    opened = os.open

    def refused(path: Path, flags: int, *others: int) -> int:
        if path == tmp_path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *others)

    monkeypatch.setattr(os, "open", refused)
    with atomic_write(tmp_path / "file") as unfinished:
        unfinished.write_text("new")
    assert (tmp_path / "file").read_text() == "new"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EIO, "Input/output error"), "v: cannot be written: Input/output error"),
        (OSError("4096 requested and 0 written"), "v: cannot be written: 4096 requested and 0 written"),
    ],
)
@pytest.mark.parametrize("write", [atomic_write, atomic_write_folder])
def test_an_error_without_a_file_name_names_the_file(tmp_path, write, error, said):
    with pytest.raises(ElmoreError, match=f"{said}$"), write(tmp_path / "v"):
        raise error


def test_a_closed_pipe_while_writing_is_not_an_error_of_the_file(tmp_path):
    with pytest.raises(BrokenPipeError), atomic_write(tmp_path / "v"):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_full_disk_elsewhere_is_not_an_error_of_the_file(tmp_path):
    with pytest.raises(OSError, match="/tmp/other"), atomic_write(tmp_path / "v"):
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/other")


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    said = pytest.raises(InputError, match=r"holds thesis\.tex, which would be lost")
    with said, atomic_write_folder(tmp_path, replaces=["weights"]):
        pytest.fail("the work began")
    with pytest.raises(InputError, match="is a file; name a folder"), atomic_write_folder(tmp_path / "thesis.tex"):
        pytest.fail("the work began")
    assert names_in(tmp_path) == ["thesis.tex"]


def refuse(error: OSError) -> Callable[..., None]:
    def refusing(*_: object, **__: object) -> None:
        raise error

    return refusing


def write_half(path: Path, *, then: BaseException) -> None:
    path.write_text("half")
    raise then


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
