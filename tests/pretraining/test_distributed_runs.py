"""Several processes train the model that one would, and outlive the death of any of them."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from elmore import load
from elmore.errors import InputError
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.training.run_folder import RunFolder
from small_runs import (
    ENVIRONMENT,
    OPTIONS,
    elmore_command,
    ended,
    losses,
    small_recipe,
    small_run,
    torchrun_command,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals")
STEPS = 12
RECIPE = small_recipe(**{"training.steps": STEPS})
SETTINGS = ["--log-every", "1", "--checkpoint-every", "5"]


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    """The run of one process."""
    folder = tmp_path_factory.mktemp("runs") / "alone"
    list(small_run(corpus, folder, RECIPE))
    return folder


@pytest.fixture(scope="module")
def together(corpus, tmp_path_factory):
    """The same run of two."""
    folder = tmp_path_factory.mktemp("runs") / "together"
    command = torchrun_command(2, "pretrain", corpus.path, "-o", folder, *OPTIONS, "--steps", STEPS, *SETTINGS)
    found = ended(command)
    assert found.returncode == 0, found.stderr
    return folder, found


def test_two_processes_with_half_the_rows_have_the_losses_of_one(alone, together):
    one, two = losses(alone), losses(together[0])
    assert list(one) == list(two) == list(range(1, STEPS + 1))
    np.testing.assert_allclose(list(two.values()), list(one.values()), rtol=0, atol=1e-5)


def test_two_processes_make_the_model_of_one(alone, together):
    one, two = (load(folder / "model").checkpoint.tensors for folder in (alone, together[0]))
    for name, tensor in one.items():
        np.testing.assert_allclose(two[name], tensor, atol=1e-4, err_msg=name)


def test_one_process_speaks_for_all(together):
    told = together[1].stderr
    assert told.count("distinct words") == told.count("wrote") == 1
    assert "epochs, in 2 processes" in told


def test_the_shards_are_everything_and_never_overlap(corpus):
    plan = WindowPlan(batch_size=4, length=5)
    whole = Windows(corpus.train, corpus.classes, plan)[3]
    shards = [Windows(corpus.train, corpus.classes, plan, rank=rank, processes=2)[3] for rank in range(2)]
    read = [shard.types[shard.inputs] for shard in shards]
    np.testing.assert_array_equal(np.concatenate(read, axis=2), whole.types[whole.inputs])
    np.testing.assert_array_equal(np.concatenate([s.targets for s in shards], axis=2), whole.targets)


def test_two_processes_can_go_on_where_one_was_stopped(corpus, alone, tmp_path):
    folder = stopped_at_10(alone, tmp_path / "run")
    found = ended(torchrun_command(2, "pretrain", corpus.path, "--resume", folder, "--device", "cpu"))
    assert found.returncode == 0, found.stderr
    assert "resumed after step 10" in found.stderr
    np.testing.assert_allclose(list(losses(folder).values()), list(losses(alone).values()), atol=1e-5)


def test_one_process_can_go_on_where_two_were_stopped(corpus, alone, together, tmp_path):
    folder = stopped_at_10(together[0], tmp_path / "run")
    _, started, *_ = small_run(corpus, folder, resume=True)
    assert started.done == 10
    np.testing.assert_allclose(list(losses(folder).values()), list(losses(alone).values()), atol=1e-5)


def stopped_at_10(run: Path, copy: Path) -> Path:
    shutil.copytree(run, copy)
    shutil.rmtree(copy / "checkpoints" / f"step-{STEPS:08d}")
    return copy


def test_what_is_wrong_for_one_ends_all_with_one_message(corpus, alone):
    found = ended(torchrun_command(2, "pretrain", corpus.path, "-o", alone, *OPTIONS))
    assert found.returncode != 0
    assert found.stderr.count("contains a run; resume it with --resume") == 1
    # Torchrun adds its own account of the matter.
    assert "Traceback" not in found.stderr.split("torch/distributed/elastic")[0]


def test_two_processes_in_folder_in_use_end_with_one_message(corpus, tmp_path):
    command = torchrun_command(2, "pretrain", corpus.path, "-o", tmp_path / "run", *OPTIONS)
    with RunFolder(tmp_path / "run").locked():
        found = ended(command)
    assert found.returncode != 0
    assert found.stderr.count("another training run uses this folder") == 1
    assert not (tmp_path / "run").exists()


def test_two_processes_lock_their_folder(corpus, tmp_path):
    folder = tmp_path / "run"
    command = torchrun_command(2, "pretrain", corpus.path, "-o", folder, *OPTIONS, "--training.steps", "100000")
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL, start_new_session=True) as launched:
        try:
            _wait_for(folder / "log.jsonl", launched)
            with pytest.raises(InputError, match="another training run uses this folder"):
                next(small_run(corpus, folder, resume=True))
        finally:
            os.killpg(launched.pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_killed_worker_is_started_again_and_goes_on_from_the_last_checkpoint(corpus, tmp_path):
    arguments = ("pretrain", corpus.path, *OPTIONS, "--steps", 200, "--log-every", 1, "--checkpoint-every", 20)
    folder = tmp_path / "run"
    with (tmp_path / "told").open("w") as told:
        launched = subprocess.Popen(
            torchrun_command(2, *arguments, "-o", folder, restarts=2),
            env=ENVIRONMENT,
            stderr=told,
            start_new_session=True,
        )
    try:
        _wait_for(folder / "checkpoints" / "step-00000040", launched)
        victim = _workers(launched.pid)[1]
        os.kill(victim, signal.SIGKILL)
        assert launched.wait(timeout=120) == 0, (tmp_path / "told").read_text()
    finally:
        if launched.poll() is None:
            os.killpg(launched.pid, signal.SIGKILL)
    assert "resumed after step" in (tmp_path / "told").read_text()
    found = ended(elmore_command(*arguments, "-o", tmp_path / "whole"))
    assert found.returncode == 0, found.stderr
    one, two = losses(tmp_path / "whole"), losses(folder)
    assert list(one) == list(two) == list(range(1, 201))
    # Sums in another order drift apart over so many steps, but not by more than this.
    np.testing.assert_allclose(list(two.values()), list(one.values()), atol=1e-3)


def _wait_for(path: Path, process: subprocess.Popen) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)


def _workers(launcher: int) -> list[int]:
    """The processes that torchrun has started, in the order of their ranks."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children")
    if not children.exists():
        pytest.skip("the system does not tell the children of a process")
    ranked = {}
    for child in children.read_text().split():
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        ranked |= {int(entry[5:]): int(child) for entry in environment if entry.startswith(b"RANK=")}
    return [ranked[rank] for rank in sorted(ranked)]
