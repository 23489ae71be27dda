from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.training.run_folder import RunFolder, StoredRun


def test_locked_run_folder_rejects_second_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with (
        folder.locked(),
        pytest.raises(InputError, match=r"/run: another training run uses this folder"),
        folder.locked(),
    ):
        pytest.fail("two runs held the folder")
    with folder.locked():
        pass


def test_locked_run_folder_without_output_leaves_no_folder(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "runs" / "ner").locked():
        assert (tmp_path / "runs" / "ner").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_locked_run_folder_keeps_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with RunFolder(tmp_path).locked():
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_locked_run_folder_keeps_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        folder.write(StoredRun({"steps": 3}, {}, {}))
    assert folder.read().recipe == {"steps": 3}
