"""An Embedder in a forked child, where the threads of the parent are missing."""

import os
import subprocess
import sys

import pytest

from cpu_environment import ON_THE_CPU

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

# Many words, so that several threads work. torch is in use too, as in many programs.
PROGRAM = """
import multiprocessing, sys, warnings
import numpy as np
import torch
from elmore import Embedder, set_threads

warnings.simplefilter("ignore")  # Python warns about threads and forks
torch.set_num_threads(4)
set_threads(4)
sentences = [[f"word{i}" for i in range(j, j + 30)] for j in range(64)]
model = Embedder.from_pretrained("tiny-random")
expected = np.concatenate(model.encode(sentences))

def work(answers):
    ours = model if sys.argv[1] == "parent" else Embedder.from_pretrained("tiny-random")
    answers.put(np.abs(np.concatenate(ours.encode(sentences)) - expected).max())

fork = multiprocessing.get_context("fork")
answers = fork.Queue()
child = fork.Process(target=work, args=(answers,), daemon=True)
child.start()
print(answers.get(timeout=60) < 1e-5)
"""


@pytest.mark.parametrize("owner", ["parent", "child"])
def test_embedder_works_in_a_forked_process(owner: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, owner], env=ON_THE_CPU, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.stdout == "True\n", ended.stderr
