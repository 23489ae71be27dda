"""An Embedder in the child of a fork, where the parent's threads are missing."""

import os
import subprocess
import sys

import pytest
import torch

from cpu_environment import ON_THE_CPU
from elmore import devices
from elmore.errors import InputError

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

# Many words, so that torch shares the work among its threads.
PROGRAM = """
import multiprocessing, sys, warnings
import numpy as np
import torch
from elmore import Embedder

warnings.simplefilter("ignore")  # Python's own about threads and forks
torch.set_num_threads(4)
sentences = [[f"word{i}" for i in range(j, j + 30)] for j in range(64)]
model = Embedder.from_pretrained("tiny-random")
expected = np.concatenate(model.encode(sentences))

def work(answers):
    ours = model if sys.argv[1] == "parents" else Embedder.from_pretrained("tiny-random")
    answers.put(np.abs(np.concatenate(ours.encode(sentences)) - expected).max())

fork = multiprocessing.get_context("fork")
answers = fork.Queue()
child = fork.Process(target=work, args=(answers,), daemon=True)
child.start()
print(answers.get(timeout=60) < 1e-5)
"""


@pytest.mark.parametrize("whose", ["parents", "own"])
def test_an_embedder_works_in_a_forked_process(whose: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, whose], env=ON_THE_CPU, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.stdout == "True\n", ended.stderr


def test_a_gpu_in_a_forked_process_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_PROCESS", os.getpid() + 1)
    with pytest.raises(InputError, match=r"a forked process cannot use cuda:0; .*spawn"):
        devices.allow_forked_process(torch.device("cuda:0"))
    monkeypatch.undo()
    devices.allow_forked_process(torch.device("cuda:0"))
