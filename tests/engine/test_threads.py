"""The number of native threads: its default, its setting, and that torch's is another one."""

import os
import subprocess
import sys

import pytest

import elmore
from elmore.engine import threads
from elmore.errors import InputError


@pytest.fixture(autouse=True)
def default(monkeypatch):
    """No setting, and no variable."""
    before = threads._Setting.threads
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    threads.set_threads(None)
    yield
    threads._Setting.threads = before


def test_set_threads_overrides_variable(monkeypatch) -> None:
    monkeypatch.setenv(threads.VARIABLE, "3")
    assert elmore.get_threads() == 3
    elmore.set_threads(5)
    assert elmore.get_threads() == 5
    elmore.set_threads(None)
    assert elmore.get_threads() == 3


@pytest.mark.parametrize("wrong", [0, -1, 1025, 2.0, "2", True, 2**70])
def test_set_threads_rejects_wrong_number(wrong) -> None:
    with pytest.raises(InputError, match=r"threads is .*; it must be a whole number from 1 to 1024"):
        threads.set_threads(wrong)


@pytest.mark.parametrize("wrong", ["0", "many", "-2", "1.5", "²", "99999999999999999999"])
def test_get_threads_rejects_wrong_variable(monkeypatch, wrong: str) -> None:
    monkeypatch.setenv(threads.VARIABLE, wrong)
    with pytest.raises(InputError, match=r"ELMORE_THREADS is .*; it must be a whole number from 1 to 1024"):
        threads.get_threads()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_default_is_cpus_of_affinity() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert threads.get_threads() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_set_threads_does_not_import_torch() -> None:
    program = "import sys, elmore; elmore.set_threads(2); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_elmore_calls_leave_threads_of_torch_unchanged() -> None:
    program = """
import torch
torch.set_num_threads(2)
from elmore import Elmo, Embedder, perplexity, set_threads
set_threads(3)
Embedder.from_pretrained("tiny-random").encode("I took a bow.")
Elmo.from_pretrained("tiny-random", device="cpu")(["I took a bow."])
perplexity("I took a bow.", model="elmore-en")
elmo = Elmo.from_pretrained("tiny-random", device="cpu", requires_grad=True)
elmo(["I took a bow."]).mixed[0].sum().backward()
assert torch.get_num_threads() == 2, torch.get_num_threads()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
