"""The log of a run for TensorBoard."""

import sys

import pytest

from elmore.errors import MissingExtra
from elmore.pretraining.tensorboard import TensorBoardLog


def test_write_adds_numbers_and_rewind_removes_later_ones(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoardLog(tmp_path / "board")
    board.rewind(-1)
    for step in range(1, 6):
        board.write(step=step, loss=1.0, sampled_perplexities={"forward": 2.0, "backward": 3.0})
    board.rewind(3)
    board.write(step=4, loss=9.0)
    board.close()
    found = EventAccumulator(str(tmp_path / "board")).Reload()
    assert [(event.step, event.value) for event in found.Scalars("loss")] == [(1, 1), (2, 1), (3, 1), (4, 9)]
    assert {"sampled_perplexities/forward", "sampled_perplexities/backward"} <= set(found.Tags()["scalars"])


def test_missing_tensorboard_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"elmore\[tensorboard\]"):
        TensorBoardLog(tmp_path / "board")
