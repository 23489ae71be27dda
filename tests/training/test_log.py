"""The log keeps one object a line, and only what the run still stands by."""

import json
import math
import os
import sys
from pathlib import Path

import pytest

from elmore.errors import ElmoreError, MissingExtra
from elmore.training.log import JsonLog, read_log
from elmore.training.loss_curve import plot_log


@pytest.fixture
def log(tmp_path):
    log = JsonLog(tmp_path / "log.jsonl")
    yield log
    log.close()


def test_every_entry_is_on_disk_as_soon_as_it_is_written(log):
    log.write(step=1, loss=2.5)
    assert read_log(log.path) == [{"step": 1, "loss": 2.5}]


def test_numbers_that_json_has_no_word_for_become_null(log):
    log.write(step=1, loss=math.nan, heldout_each={"forward": math.nan, "backward": 2.0}, heldout=math.inf)
    found = json.loads(log.path.read_text())
    assert found == {"step": 1, "loss": None, "heldout_each": {"forward": None, "backward": 2.0}, "heldout": None}


def test_what_came_after_a_step_is_forgotten_when_the_run_goes_back_to_it(log):
    for step in range(5):
        log.write(step=step, loss=1.0)
    log.rewind(2)
    log.write(step=3, loss=7.0)
    assert [(entry["step"], entry["loss"]) for entry in read_log(log.path)] == [(0, 1), (1, 1), (2, 1), (3, 7)]
    log.rewind(-1)
    assert read_log(log.path) == []


def test_a_last_line_that_was_cut_short_is_left_out(log):
    log.write(step=1, loss=1.0)
    with log.path.open("a") as file:
        file.write('{"step": 2, "lo')
    assert [entry["step"] for entry in read_log(log.path)] == [1]
    log.rewind(1)
    log.write(step=2, loss=1.0)
    assert [entry["step"] for entry in read_log(log.path)] == [1, 2]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
def test_a_full_disk_is_told_in_a_sentence():
    log = JsonLog(Path("/dev/full"))
    with pytest.raises(ElmoreError, match="/dev/full: cannot be written: No space left on device; free some "):
        log.write(step=1, loss=1.0)
    log.close()


def test_the_picture_shows_losses_and_heldout_scores_under_their_names(log, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    for step in range(1, 4):
        log.write(step=step, tokens=step * 100, loss=3.0 / step)
    log.write(step=3, tokens=300, metric="entity F1", heldout=0.8, heldout_each={"precision": 0.7, "recall": 0.93})
    drawn = []
    draw = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), draw(self, *a, **k)))
    plot_log(log.path, tmp_path / "loss.png")
    plot_log(log.path, tmp_path / "logarithmic.png", loss_name="training loss (sampled)", score_scale="log")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    axes = [[(one.get_ylabel(), one.get_yscale()) for one in figure.axes] for figure in drawn]
    assert axes == [
        [("training loss", "linear"), ("entity F1", "linear")],
        [("training loss (sampled)", "linear"), ("entity F1", "log")],
    ]
    assert [line.get_ydata().tolist() for one in drawn[0].axes for line in one.lines] == [[3.0, 1.5, 1.0], [0.8]]


def test_without_matplotlib_the_picture_names_what_is_missing(log, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"elmore\[plots\]"):
        plot_log(log.path, tmp_path / "loss.png")
