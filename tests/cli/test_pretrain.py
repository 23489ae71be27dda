"""`elmore pretrain`, as a program of its own: killed, interrupted, out of space, unheard; and what it refuses."""

import csv
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elmore import open_vectors
from small_runs import ENVIRONMENT, OPTIONS, elmore_command, ended, losses, small_corpus, small_recipe, small_run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")

STEPS = 120


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """The losses of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    list(small_run(corpus, folder, small_recipe(**{"training.steps": STEPS}), checkpoint_every=1000))
    return losses(folder)


# Whoever runs the tests in the background has them ignore Ctrl-C, and with them all that they start.
LAUNCHER = """
import os, resource, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
if largest := int(sys.argv[1]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
os.execv(sys.argv[2], sys.argv[2:])
"""


@contextmanager
def begun(corpus, folder: Path, *options: object, largest_file: int = 0) -> Iterator[subprocess.Popen]:
    """A run as a program of its own, which does not outlive the block; it may not take for ever either."""
    arguments = (*OPTIONS, "--steps", STEPS, "--log-every", 1, "--checkpoint-every", 7, *options)
    command = elmore_command("pretrain", corpus.path, "-o", folder, *arguments)
    launched = [sys.executable, "-c", LAUNCHER, str(largest_file), *command]
    with subprocess.Popen(launched, env=ENVIRONMENT, text=True, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_step(number: int, folder: Path, process: subprocess.Popen) -> None:
    until = time.monotonic() + 120
    while not (folder / "log.jsonl").exists() or len(losses(folder)) < number:
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.002)


def gone_on(corpus, folder: Path) -> subprocess.CompletedProcess[str]:
    return ended(
        elmore_command("pretrain", corpus.path, "--resume", folder, "--checkpoint-every", 1000, "--device", "cpu")
    )


def test_command_is_stored_without_the_query_of_an_address(monkeypatch, elmore, corpus, tmp_path):
    """The card of the model contains the command that trained it."""
    from elmore.pretraining import pretrain

    asked = {}
    monkeypatch.setattr(pretrain, "pretrain", lambda *_, **options: asked.update(options) or iter(()))
    monkeypatch.setattr(sys, "argv", ["elmore", "pretrain", "--init=https://example.org/elmo.zip?sig=SECRET"])
    elmore("pretrain", corpus.path, "-o", tmp_path / "run", "--init", "https://example.org/elmo.zip?sig=SECRET")
    assert asked["command"] == "elmore pretrain '--init=https://example.org/elmo.zip?…'"


def test_killed_at_any_moment_it_goes_on_with_the_same_losses(corpus, whole, tmp_path):
    moment = random.randrange(1, STEPS - 20)
    with begun(corpus, tmp_path / "run") as process:
        wait_for_step(moment, tmp_path / "run", process)
        time.sleep(random.random() * 0.02)
        process.kill()
    assert process.returncode == -signal.SIGKILL, "it was too quick to be killed"
    # With --checkpoint-every 1000, so other pauses than before.
    found = gone_on(corpus, tmp_path / "run")
    assert found.returncode == 0, found.stderr
    assert losses(tmp_path / "run") == whole
    assert (tmp_path / "run" / "loss.png").read_bytes().startswith(b"\x89PNG")
    commands = json.loads((tmp_path / "run" / "model" / "card.json").read_text())["extra"]["training"]["commands"]
    assert ["--resume" in command for command in commands] == [False, True]


def test_pretrain_in_folder_of_unfinished_run_is_rejected_until_it_is_killed(corpus, tmp_path):
    folder = tmp_path / "run"
    with begun(corpus, folder, "--steps", 1_000_000) as process:
        wait_for_step(3, folder, process)
        second = gone_on(corpus, folder)
        assert (second.returncode, second.stderr.count("\n")) == (1, 1)
        assert second.stderr.startswith(f"elmore: {folder}: another training run uses this folder; wait until it ends")
        wait_for_step(max(losses(folder)) + 1, folder, process)  # the first run goes on
        process.kill()
        process.wait(timeout=60)
    next(small_run(corpus, folder, resume=True))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_pretrain_saves_and_prints_resume_command(corpus, tmp_path, number):
    folder = tmp_path / "run"
    with begun(corpus, folder, "--training.steps", "100000") as process:
        wait_for_step(3, folder, process)
        process.send_signal(number)
        told = process.communicate(timeout=120)[1]
    assert process.returncode == 130
    last = max(losses(folder))
    assert told.splitlines()[-1] == (
        f"stopped and saved after step {last:,}; "
        f"to resume it: elmore pretrain {corpus.path} --device cpu --resume {folder}"
    )
    assert (folder / "checkpoints" / f"step-{last:08d}").is_dir()
    assert "Traceback" not in told


def test_a_full_disk_ends_it_with_a_clear_error_and_a_usable_checkpoint(corpus, tmp_path):
    # Enough for the first checkpoint, but not for one with the optimizers' memory.
    with begun(corpus, tmp_path / "run", largest_file=60_000) as process:
        told = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    *_, remedy, error = told.splitlines()
    assert error.startswith(f"elmore: {tmp_path / 'run' / 'checkpoints' / 'step-'}")
    assert "cannot be written: File too large" in error
    assert remedy.endswith(f": elmore pretrain {corpus.path} --device cpu --resume {tmp_path / 'run'}")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["step-00000000"]
    assert "Traceback" not in told


def test_a_training_goes_on_when_nobody_listens_any_more(corpus, tmp_path):
    with begun(corpus, tmp_path / "run") as process:
        process.stderr.readline()
        process.stderr.close()
        assert process.wait(timeout=60) == 0
    assert len(losses(tmp_path / "run")) == STEPS
    assert (tmp_path / "run" / "model" / "model.safetensors").exists()


# From here on inside the test's own process.


@pytest.fixture
def finished(corpus, tmp_path):
    """A folder with a run that is finished."""
    recipe = small_recipe(**{"training.steps": 3})
    list(small_run(corpus, tmp_path / "finished", recipe))
    return tmp_path / "finished"


def pretrained(elmore, corpus, *arguments: object):
    return elmore("pretrain", corpus.path, "--device", "cpu", *arguments, "--log-every", 1)


def test_it_shows_the_run_from_first_to_last(elmore, corpus, tmp_path):
    run = tmp_path / "run"
    ended = pretrained(elmore, corpus, "-o", run, *OPTIONS, "--steps", 3, "--hdf5", "--tensorboard", "--seed", 5)
    assert (ended.code, ended.out) == (0, "")
    lines = ended.err.splitlines()
    assert lines[0] == "2,508 tokens, 23 distinct words, 0.0% of tokens are <UNK>"
    assert lines[1:3] == ["6,416 parameters, and 234 in the softmax", "3 steps, 0.02 epochs"]
    assert [line.split("  ")[0] for line in lines[3:6]] == ["step 1/3", "step 2/3", "step 3/3"]
    assert all(word in lines[3] for word in ("epoch 0.01", "loss ", "sampled perplexities ", "tokens/s", " left"))
    assert re.fullmatch(r"step 3  held-out perplexity by the full softmax: \S+ \(forward \S+, backward \S+\)", lines[6])
    assert lines[7:] == [f"wrote {run / 'model'} and {run / 'hdf5'}"]
    assert json.loads((run / "recipe.json").read_text())["training"]["seed"] == 5
    assert all(
        (run / name).exists()
        for name in ("log.jsonl", "loss.png", "hdf5/options.json", "hdf5/weights.hdf5", "tensorboard", "run.json")
    )


def test_a_model_of_words_is_asked_for_by_a_flag(elmore, corpus, tmp_path):
    assert pretrained(elmore, corpus, "-o", tmp_path / "run", *OPTIONS, "--steps", 2, "--words", "-q").code == 0
    model = json.loads((tmp_path / "run" / "recipe.json").read_text())["model"]
    assert (model["characters"], model["vocab_size"], model["word_embedding_dim"]) == (None, 26, 8)


@pytest.mark.parametrize(("direction", "other"), [("forward", "backward"), ("backward", "forward")])
def test_a_model_that_reads_one_way_is_asked_for_by_a_field_and_used_like_any(
    elmore, corpus, tmp_path, direction, other
):
    ended = pretrained(elmore, corpus, "-o", tmp_path / "run", *OPTIONS, "--steps", 2, "--model.directions", direction)
    assert ended.code == 0, ended.err
    assert re.search(rf"held-out perplexity by the full softmax: (\S+) \({direction} \1\)", ended.err)
    *entries, last = map(json.loads, (tmp_path / "run" / "log.jsonl").read_text().splitlines())
    assert [list(entry["sampled_perplexities"]) for entry in entries] == [[direction]] * 2
    model = tmp_path / "run" / "model"
    facts = json.loads((model / "card.json").read_text())["extra"]["training"]
    assert facts["heldout_perplexity"]["each"] == last["heldout_each"] == {direction: pytest.approx(last["heldout"])}

    assert f"vector size  8 ({direction} only)" in elmore("info", model).out
    told = dict(
        line.split(maxsplit=1) for line in elmore("perplexity", "-m", model, corpus.path / "heldout").out.splitlines()
    )
    assert told[direction] == told["mean"]
    assert told[other] == "none: the model has one direction"
    (tmp_path / "text").write_text("the old cat sees a big dog\n")
    rows = list(
        csv.DictReader(elmore("surprisal", "-m", model, tmp_path / "text").out.splitlines(), dialect="excel-tab")
    )
    assert all(float(row[direction]) > 0 and row[other] == row["both"] == "" for row in rows)
    found = json.loads(elmore("substitutes", "-m", model, "the old [cat] sees", "--top", 3, "--json").out)
    assert (len(found[direction]), found[other], found["both"]) == (3, None, None)
    vectors = tmp_path / "vectors.npz"
    assert elmore("embed", tmp_path / "text", "-o", vectors, "--model", model, "--layers", "all").code == 0
    assert open_vectors(vectors)[0].shape == (3, 7, 8)


def test_fine_tuning_begins_from_a_model_and_tells_before_and_after(elmore, corpus, finished, tmp_path):
    options = ("--init", finished / "model", "--steps", 2, "--training.negatives", 0)
    ended = pretrained(elmore, corpus, "-o", tmp_path / "tuned", *options)
    assert ended.code == 0, ended.err
    assert "step 0  held-out perplexity by the full softmax, before fine-tuning: " in ended.err
    assert "before fine-tuning, " in ended.err.splitlines()[-2]
    assert json.loads((tmp_path / "tuned" / "recipe.json").read_text())["training"]["learning_rate"] == 0.0005
    again = pretrained(elmore, corpus, "--resume", tmp_path / "tuned")
    assert again.code == 0, again.err
    assert "the run is finished after 2 steps; its model is written again" in again.err


def test_a_finished_run_can_be_made_longer(elmore, corpus, finished):
    ended = pretrained(elmore, corpus, "--resume", finished, "--steps", 5, "--training.learning_rate", 0.001)
    assert "resumed after step 3" in ended.err
    assert list(losses(finished)) == [1, 2, 3, 4, 5]
    assert json.loads((finished / "recipe.json").read_text())["training"]["learning_rate"] == 0.001


def test_a_corpus_that_is_not_the_one_it_read_is_refused(elmore, finished, tmp_path):
    other = small_corpus(tmp_path / "other", documents=5)
    ended = pretrained(elmore, other, "--resume", finished)
    assert ended.code == 1
    assert "is not the corpus of this run (train.bin had 10,9" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either -o RUN"),
        (["-o", "{finished}", "--resume", "{finished}"], "give either -o RUN"),
        (["-o", "{finished}"], "contains a run; resume it with --resume"),
        (["--resume", "{new}"], "contains no run to resume; start one with -o"),
        (["--resume", "{finished}", "--recipe", "tiny"], "a resumed run has its recipe"),
        (
            ["--resume", "{finished}", "--training.batch_size", "8"],
            "training.batch_size cannot be changed in a resumed run",
        ),
        (["--resume", "{finished}", "--seed", "8"], "training.seed cannot be changed in a resumed run"),
        (
            ["-o", "{new}", "--init", "{finished}/model", "--model.cell_dim", "4"],
            "the model of --init determines the shape",
        ),
        (["-o", "{new}", "--init", "nowhere"], "nowhere"),
        (["-o", "{new}", "--training.row", "8"], "unknown field training.row"),
        (["-o", "{new}", "--recipe", "huge"], "recipes that come with Elmore: "),
        (["-o", "{new}", "--device", "abacus"], "the device 'abacus' cannot be used here"),
        (["-o", "{new}", "--training.batch_size", "100000", "--training.negatives", "0"], "too few for 100000 rows"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line_and_nothing_is_written(
    elmore, corpus, finished, tmp_path, arguments, message
):
    places = {"finished": finished, "new": tmp_path / "new"}
    ended = pretrained(elmore, corpus, *(argument.format(**places) for argument in arguments))
    assert ended.code == 1
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "new").exists()


def test_a_command_that_a_launcher_starts_again_goes_on(elmore, corpus, finished, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    ended = pretrained(elmore, corpus, "-o", finished, *OPTIONS)
    assert ended.code == 0
    assert "the run is finished after 3 steps" in ended.err


def test_tensorboard_is_missed_before_any_work(elmore, corpus, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    ended = pretrained(elmore, corpus, "-o", tmp_path / "new", *OPTIONS, "--tensorboard")
    assert ended.code == 1
    assert "pip install 'elmore[tensorboard]'" in ended.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["settings.json", "log.jsonl", "model/config.json"])
def test_a_run_writes_over_nothing_that_is_there(elmore, corpus, tmp_path, name):
    kept = tmp_path / "run" / name
    kept.parent.mkdir(parents=True)
    kept.write_text("years of work")
    ended = pretrained(elmore, corpus, "-o", tmp_path / "run", "--steps", 1)
    assert ended.code == 1
    assert f"contains {name.split('/')[0]}, and a run would replace it; choose another folder" in ended.err
    assert kept.read_text() == "years of work"


def test_a_run_may_begin_beside_a_log_of_its_scheduler(elmore, corpus, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "slurm-1.out").write_text("queued")
    assert pretrained(elmore, corpus, "-o", tmp_path / "run", "--steps", 1).code == 0


def test_no_steps_at_all_are_not_taken_for_none_given(elmore, corpus, tmp_path) -> None:
    ended = elmore("pretrain", corpus.path, "-o", tmp_path / "run", *OPTIONS, "--steps", 0)
    assert ended.code == 2
    assert "--steps" in ended.err
    assert not (tmp_path / "run").exists()
