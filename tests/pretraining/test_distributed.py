"""What the processes of one training tell each other, and how they end."""

import json
import socket
import subprocess
import sys

import pytest
import torch

from cpu_environment import ON_THE_CPU
from elmore.errors import InputError
from elmore.pretraining.distributed import (
    is_restarted,
    joined_process_group,
    world_from_environment,
)
from elmore.training.trainable import Snapshot, World


def test_one_process_is_a_team_of_its_own(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined_process_group(torch.device("cpu")) as world:
        assert (world.rank, world.size, world.is_rank_zero) == (0, 1, True)
        assert world.all_gather(torch.ones(2, 3), dim=1).shape == (2, 3)
        assert world.all_reduce_mean(torch.tensor([2.0])).item() == 2.0
        assert (world.any(True), world.any(False)) == (True, False)
        assert world.on_rank_zero(lambda: "done") == "done"
        snapshot = Snapshot({"a": torch.ones(1)}, {"step": 3})
        assert world.load_snapshot(lambda: snapshot) == snapshot


def test_one_process_is_told_its_own_errors():
    def failing() -> None:
        raise InputError("no such thing")

    with pytest.raises(InputError, match="no such thing"):
        World().on_rank_zero(failing)


TALK = """
import json, torch
from elmore.training.trainable import Snapshot
from elmore.pretraining.distributed import joined_process_group

with joined_process_group(torch.device("cpu")) as world:
    own = torch.full((1, 2), float(world.rank))
    tensors = {"weights": torch.arange(3.0), "step": torch.tensor(7)} if world.is_rank_zero else {}
    told = {
        "gathered": world.all_gather(own, dim=1).tolist(),
        "mean": world.all_reduce_mean(own).tolist(),
        "any": [world.any(world.rank == 1), world.any(False)],
        "on_rank_zero": world.on_rank_zero(lambda: {"step": 3, "from": world.rank}),
        "broadcast": {name: tensor.tolist() for name, tensor in world.broadcast_tensors(tensors).items()},
    }
    snapshot = world.load_snapshot(lambda: Snapshot(tensors, {"step": 7, "from": world.rank}))
    told["snapshot"] = {name: tensor.tolist() for name, tensor in snapshot.tensors.items()} | dict(snapshot.progress)
print(json.dumps(told))
"""
FAIL = """
import sys, torch
from elmore.errors import ElmoreError, InputError
from elmore.pretraining.distributed import joined_process_group

def fail():
    raise InputError("the disk is full")

try:
    with joined_process_group(torch.device("cpu")) as world:
        world.on_rank_zero(fail)
except ElmoreError as error:
    sys.exit(f"told: {error}")
"""
DIE = """
import os, sys, torch
from elmore.errors import ElmoreError
from elmore.pretraining.distributed import joined_process_group

try:
    with joined_process_group(torch.device("cpu")) as world:
        if world.rank == 1:
            os._exit(9)
        world.all_reduce_mean(torch.ones(1))
except ElmoreError as error:
    sys.exit(f"told: {error}")
"""
THREADS = """
import json, time, torch
from contextlib import suppress
from pathlib import Path
from torch.nn.parallel import DistributedDataParallel
from elmore.pretraining.distributed import joined_process_group

def threads():
    names = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # one that has just ended
            names.append((task / "comm").read_text())
    return sum(name.startswith("pt_gloo") for name in names)

def train():
    DistributedDataParallel(torch.nn.Linear(2, 2))(torch.ones(1, 2)).sum().backward()

with joined_process_group(torch.device("cpu")):
    train()
    told = {"inside": threads()}
# The system lists a thread that has ended for a moment longer.
for _ in range(100):
    told["outside"] = threads()
    if not told["outside"]:
        break
    time.sleep(0.05)
print(json.dumps(told))
"""


def two_processes(program: str) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**ON_THE_CPU, **meeting, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        told = [process.communicate(timeout=60) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, *words) for process, words in zip(processes, told, strict=True)]


def test_two_processes_tell_each_other_all_they_need():
    for code, out, err in two_processes(TALK):
        assert code == 0, err
        assert json.loads(out) == {
            "gathered": [[0.0, 0.0, 1.0, 1.0]],
            "mean": [[0.5, 0.5]],
            "any": [True, False],
            "on_rank_zero": {"step": 3, "from": 0},
            "broadcast": {"weights": [0.0, 1.0, 2.0], "step": 7},
            "snapshot": {"weights": [0.0, 1.0, 2.0], "step": 7, "from": 0},
        }


def test_what_fails_for_rank_zero_ends_all_and_only_rank_zero_speaks():
    first, other = two_processes(FAIL)
    assert (first[0], "told: the disk is full" in first[2]) == (1, True)
    assert (other[0], "told" in other[2], "Traceback" in other[2]) == (1, False, False)


def test_who_loses_another_process_ends_with_a_word_instead_of_waiting():
    survivor, dead = two_processes(DIE)
    assert dead[0] == 9
    assert survivor[0] == 1
    assert "told: process 0 ends, because another process has ended" in survivor[2]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the names of threads")
def test_who_leaves_the_others_leaves_no_thread_that_could_abort_the_end_of_python():
    for code, out, err in two_processes(THREADS):
        assert code == 0, err
        told = json.loads(out)
        if not told["inside"]:
            pytest.skip(f"the threads of torch {torch.__version__} have no names of their own")
        assert told["outside"] == 0


def test_the_launcher_says_which_process_this_is(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    world = world_from_environment()
    assert (world.rank, world.size, world.is_rank_zero) == (1, 3, False)
    monkeypatch.delenv("WORLD_SIZE")
    assert (world_from_environment().rank, world_from_environment().size) == (0, 1)


def test_a_launcher_says_when_it_starts_a_command_again(monkeypatch):
    for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    assert not is_restarted()
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert not is_restarted()
    monkeypatch.setenv("SLURM_RESTART_COUNT", "2")
    assert is_restarted()
