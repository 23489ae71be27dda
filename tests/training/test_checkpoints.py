"""Checkpoints are whole or not there, and few; a damaged one costs no more than the way back to the one before."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from elmore.errors import InputWarning, NotFound
from elmore.training.checkpoints import PROGRESS, TENSORS, Snapshot, TrainingCheckpoints


def snapshot(value: float) -> Snapshot:
    tensors = {"model.weight": torch.full((5, 3), value).t(), "optimizer.0.0.step": torch.tensor(value)}
    return Snapshot(tensors, {"skipped": [3, 4], "recipe": {"training": {"rows": 2}}})


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def checkpoints(tmp_path: Path) -> TrainingCheckpoints:
    return TrainingCheckpoints(tmp_path / "checkpoints", keep=2)


def test_what_is_saved_comes_back(checkpoints):
    assert not checkpoints
    checkpoints.save(7, snapshot(0.25))
    assert checkpoints
    found = checkpoints.newest()
    assert found.progress == {"step": 7, "skipped": [3, 4], "recipe": {"training": {"rows": 2}}}
    assert found.tensors.keys() == snapshot(0).tensors.keys()
    for name, tensor in snapshot(0.25).tensors.items():
        assert torch.equal(found.tensors[name], tensor)


def test_a_checkpoint_is_safetensors_and_json_and_nothing_else(checkpoints):
    checkpoints.save(7, snapshot(0.25))
    folder = checkpoints.folder / "step-00000007"
    assert names(folder) == [PROGRESS, TENSORS]
    assert load_file(folder / TENSORS)["model.weight"].shape == (3, 5)
    assert json.loads((folder / PROGRESS).read_text())["step"] == 7


def test_the_newest_few_are_kept(checkpoints):
    for step in (0, 5, 10, 100_000_000):
        checkpoints.save(step, snapshot(step))
    assert names(checkpoints.folder) == ["step-00000010", "step-100000000"]
    assert checkpoints.newest().progress["step"] == 100_000_000


def test_files_of_others_are_neither_read_nor_removed(checkpoints):
    checkpoints.folder.mkdir()
    (checkpoints.folder / "step-by-step.txt").write_text("mine")
    for step in (1, 2, 3):
        checkpoints.save(step, snapshot(step))
    assert names(checkpoints.folder) == ["step-00000002", "step-00000003", "step-by-step.txt"]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def remove(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def overwrite(file: Path) -> None:
    file.write_bytes(b"[1, 2]")


@pytest.mark.parametrize("name", [TENSORS, PROGRESS])
@pytest.mark.parametrize("damage", [cut, remove, empty, overwrite])
def test_a_damaged_one_is_passed_over_for_the_one_before_with_a_word(checkpoints, name, damage):
    checkpoints.save(10, snapshot(1.0))
    checkpoints.save(20, snapshot(2.0))
    damage(checkpoints.folder / "step-00000020" / name)
    with pytest.warns(InputWarning, match="step-00000020: skipped, because it cannot be read"):
        found = checkpoints.newest()
    assert found.progress["step"] == 10
    assert found.tensors["optimizer.0.0.step"].item() == 1.0


def test_one_whose_progress_is_that_of_another_step_is_passed_over(checkpoints):
    for step in (10, 20):
        checkpoints.save(step, snapshot(step))
    # Whole and well-formed, but it does not belong to these tensors: a run would go on at the wrong place.
    other = (checkpoints.folder / "step-00000010" / PROGRESS).read_bytes()
    (checkpoints.folder / "step-00000020" / PROGRESS).write_bytes(other)
    with pytest.warns(InputWarning, match=r"step-00000020: skipped.*progress.json is not of step 20"):
        found = checkpoints.newest()
    assert found.progress["step"] == 10
    assert found.tensors["optimizer.0.0.step"].item() == 10.0


def test_after_a_damaged_one_the_good_ones_are_kept(tmp_path):
    checkpoints = TrainingCheckpoints(tmp_path, keep=1)
    checkpoints.save(20, snapshot(2.0))
    cut(tmp_path / "step-00000020" / TENSORS)
    checkpoints.save(15, snapshot(1.5))
    assert names(tmp_path) == ["step-00000015"]
    assert checkpoints.newest().progress["step"] == 15


def test_a_damaged_one_is_replaced_when_the_run_comes_there_again(checkpoints):
    for step in (10, 20):
        checkpoints.save(step, snapshot(step))
    cut(checkpoints.folder / "step-00000020" / TENSORS)
    checkpoints.save(20, snapshot(2.5))
    assert names(checkpoints.folder) == ["step-00000010", "step-00000020"]
    assert checkpoints.newest().tensors["optimizer.0.0.step"].item() == 2.5


def test_without_one_that_can_be_read_the_folder_is_named(checkpoints):
    with pytest.raises(NotFound, match="checkpoints: contains no usable checkpoint"):
        checkpoints.newest()


def test_what_was_read_does_not_hang_on_the_file(checkpoints):
    checkpoints.save(1, snapshot(1.0))
    found = checkpoints.newest()
    file = checkpoints.folder / "step-00000001" / TENSORS
    file.write_bytes(bytes(file.stat().st_size))
    assert (found.tensors["model.weight"] == 1.0).all()


def test_a_write_that_fails_leaves_the_last_one_and_no_trace(checkpoints, monkeypatch):
    checkpoints.save(1, snapshot(1.0))
    monkeypatch.setattr("elmore.training.checkpoints.write_tensors", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        checkpoints.save(2, snapshot(2.0))
    assert names(checkpoints.folder) == ["step-00000001"]
    assert checkpoints.newest().progress["step"] == 1


def test_what_a_killed_process_left_half_written_is_cleared_away(checkpoints):
    killed = (
        "import os, signal, sys, torch\n"
        "from pathlib import Path\n"
        "from elmore.training import checkpoints\n"
        "checkpoints.write_tensors = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "checkpoints.TrainingCheckpoints(Path(sys.argv[1])).save(2, checkpoints.Snapshot({}, {}))\n"
    )
    checkpoints.save(1, snapshot(1.0))
    subprocess.run([sys.executable, "-c", killed, str(checkpoints.folder)], check=False, timeout=120)
    assert len(names(checkpoints.folder)) == 2
    assert checkpoints.newest().progress["step"] == 1
    checkpoints.save(3, snapshot(3.0))
    assert names(checkpoints.folder) == ["step-00000001", "step-00000003"]


def test_a_disk_that_takes_no_more_is_told_in_a_sentence_and_the_last_one_stays(checkpoints):
    pytest.importorskip("resource", reason="the limit that stands for a full disk needs POSIX")
    too_large = (
        "import resource, sys, torch\n"
        "from pathlib import Path\n"
        "from elmore.errors import ElmoreError\n"
        "from elmore.training.checkpoints import TrainingCheckpoints, Snapshot\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try:\n"
        "    TrainingCheckpoints(Path(sys.argv[1])).save(2, Snapshot({'a': torch.zeros(100_000)}, {}))\n"
        "except ElmoreError as error:\n"
        "    print(error)\n"
    )
    checkpoints.save(1, snapshot(1.0))
    command = [sys.executable, "-c", too_large, str(checkpoints.folder)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert "step-00000002: cannot be written: File too large" in answer.stdout
    assert names(checkpoints.folder) == ["step-00000001"]
    assert checkpoints.newest().progress["step"] == 1
