"""Elmo in training on several processes: gradients as those of one process that reads the whole batch.

This file is also the program that each process runs.
"""

import copy
import gc
import importlib
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from elmore import Elmo

# As many words for each of the two processes: a mean over all is then the mean of their means.
SENTENCES = [
    ["I", "took", "a", "bow", "."],
    ["Me", "too"],
    ["He", "was", "wielding", "a", "bow"],
    ["And", "arrow"],
]


class Task(nn.Module):
    """A little model with ELMo at its bottom."""

    def __init__(self, *, unfrozen: bool) -> None:
        super().__init__()
        self.elmo = Elmo.from_pretrained("tiny-random", mixes=2, dropout=0.0, requires_grad=unfrozen)
        self.head = nn.Linear(2 * self.elmo.dim, 3)
        nn.init.constant_(self.head.weight, 0.1)
        nn.init.zeros_(self.head.bias)

    def forward(self, sentences: list[list[str]]) -> torch.Tensor:
        (first, second), mask = self.elmo(sentences)
        return self.head(torch.cat([first, second.square()], dim=-1))[mask].square().mean()


def gradients(task: nn.Module) -> dict[str, np.ndarray]:
    return {name: parameter.grad.numpy() for name, parameter in task.named_parameters() if parameter.grad is not None}


def work(rank: int, port: str, unfrozen: bool, folder: Path) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    # Before there is a group, which its functions would keep as a default argument; see `pretraining.distributed`.
    importlib.import_module("torch.distributed.nn.functional")
    distributed.init_process_group("gloo", rank=rank, world_size=2)
    task = DistributedDataParallel(Task(unfrozen=unfrozen))
    for _ in range(2):  # a second step meets all that the first one left
        task.zero_grad()
        task(SENTENCES[2 * rank : 2 * rank + 2]).backward()
    np.savez(folder / f"rank{rank}.npz", **gradients(task.module))
    # The wrapped model refers to itself, and would keep the group's threads alive until the very end of the process,
    # where they bring it down: "terminate called without an active exception".
    del task
    gc.collect()
    distributed.destroy_process_group()


@pytest.mark.parametrize("unfrozen", [False, True])
def test_two_processes_have_the_gradients_of_one(tmp_path: Path, unfrozen: bool) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    on_the_cpu = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    processes = [
        subprocess.Popen([sys.executable, __file__, str(rank), port, str(int(unfrozen)), str(tmp_path)], env=on_the_cpu)
        for rank in range(2)
    ]
    assert [process.wait(timeout=600) for process in processes] == [0, 0]
    alone = Task(unfrozen=unfrozen)
    alone(SENTENCES).backward()
    expected = gradients(alone)
    assert any(name.startswith("elmo.network.") for name in expected) == unfrozen
    assert {"elmo.mixes.0.scalars", "elmo.mixes.1.gamma", "head.weight"} <= expected.keys()
    for rank in range(2):
        found = np.load(tmp_path / f"rank{rank}.npz")
        assert set(found) == set(expected)
        for name, gradient in expected.items():
            np.testing.assert_allclose(found[name], gradient, atol=1e-6 + 1e-4 * np.abs(gradient).max(), err_msg=name)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda elmo: pickle.loads(pickle.dumps(elmo)), nn.DataParallel])
def test_a_copied_or_wrapped_elmo_reads_the_same(copied, monkeypatch) -> None:
    # DataParallel would move the module to the first GPU it sees.
    monkeypatch.setattr(sys.modules[nn.DataParallel.__module__], "_get_available_device_type", lambda: None)
    elmo = Elmo.from_pretrained("tiny-random", mixes=2, dropout=0.0)
    expected = elmo(SENTENCES)
    twin = copied(elmo)
    for ours, theirs in zip(twin(SENTENCES).mixed, expected.mixed, strict=True):
        assert torch.equal(ours, theirs)


def test_a_copy_has_weights_of_its_own() -> None:
    elmo = Elmo.from_pretrained("tiny-random", dropout=0.0)
    twin = copy.deepcopy(elmo)
    with torch.no_grad():
        for parameter in twin.network.parameters():
            parameter.zero_()
        twin.mixes[0].gamma.zero_()
    assert elmo(SENTENCES).mixed[0].abs().max() > 0
    assert not any(array.any() for array in twin.model.checkpoint.tensors.values())


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2], bool(int(sys.argv[3])), Path(sys.argv[4]))
