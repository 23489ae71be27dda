"""Where torch is not installed, what requires it is one sentence with the install command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpu_environment import ON_THE_CPU
from elmore.errors import MissingExtra, requires_torch

FOLDER = Path(__file__).with_name("without_torch")
INSTALL = "requires torch. Install it with: pip install 'elmore[torch]'"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python without torch."""
    environment = {**ON_THE_CPU, "PYTHONPATH": os.pathsep.join([str(FOLDER), *filter(None, sys.path)])}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_simulation_hides_torch() -> None:
    ended = python("-c", "import importlib.util, elmore; print(importlib.util.find_spec('torch')); import torch.nn")
    assert (ended.returncode, ended.stdout) == (1, "None\n")
    assert ended.stderr.endswith("ModuleNotFoundError: No module named 'torch'\n")


DATA = ["--train", "a.conll", "--dev", "a.conll"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "ner", *DATA, "-o", "tagger"],
        ["pretrain", "prepared", "-o", "run"],
        ["predict", "pos", "text.txt"],
        ["compare", "ner", *DATA, "--test", "a.conll", "-o", "comparison"],
        ["evaluate", "pos", "a.conll"],
        ["info", "pos"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_command_that_requires_torch_prints_install_command(arguments: list[str], tmp_path: Path) -> None:
    ended = python("-m", "elmore", *arguments)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"elmore: elmore {arguments[0]} {INSTALL}\n"
    ended = python("-m", "elmore", arguments[0], "--help")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    "name",
    [
        "Elmo",
        "LayerMix",
        "pretrain",
        "tasks.TASKS",
        "tasks.train",
        "tasks.load",
        "tasks.compare",
        "tasks.TrainedModel",
        "compat.allennlp.Elmo",
        "compat.allennlp.ElmoTokenEmbedder",
        "compat.allennlp.ScalarMix",
        "compat.allennlp._ElmoBiLm",
        "compat.allennlp._ElmoCharacterEncoder",
    ],
)
def test_name_that_requires_torch_raises_missing_extra(name: str) -> None:
    module, _, last = f"elmore.{name}".rpartition(".")
    code = f"""
import {module}
from elmore import MissingExtra
try:
    from {module} import {last}
except MissingExtra as error:
    print(error)
try:
    {module}.{last}
except MissingExtra as error:
    print(error)
"""
    ended = python("-c", code)
    assert ended.stdout == 2 * f"elmore.{name} {INSTALL}\n", ended.stderr


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("Embedder.from_pretrained('tiny-random').encode_tensors(['a'])", "encode_tensors"),
        ("Embedder.from_pretrained('tiny-random', device='cuda')", "the device 'cuda'"),
        ("Embedder.from_pretrained('tiny-random').to('cuda:1')", "the device 'cuda:1'"),
        ("perplexity('A cat.', device='mps')", "the device 'mps'"),
        ("batch_to_ids([['a']])", "batch_to_ids"),
        ("embedder.batch_to_embeddings([['a']])", "ElmoEmbedder.batch_to_embeddings"),
        ("embedder.elmo_bilm.cuda()", "the device 'cuda'"),
    ],
)
def test_call_that_requires_torch_raises_missing_extra(call: str, what: str, tmp_path: Path) -> None:
    code = f"""
from elmore import Embedder, MissingExtra, load, perplexity
from elmore.compat.allennlp import ElmoEmbedder, batch_to_ids
from elmore.model import save
save(load("tiny-random"), {str(tmp_path / "pair")!r}, format="hdf5")
embedder = ElmoEmbedder({str(tmp_path / "pair/options.json")!r}, {str(tmp_path / "pair/weights.hdf5")!r})
try:
    {call}
except MissingExtra as error:
    print(error)
"""
    ended = python("-c", code)
    assert ended.stdout == f"{what} {INSTALL}\n", ended.stderr


def test_package_lists_its_names_without_torch() -> None:
    ended = python("-c", "import elmore, elmore.tasks; print(len(dir(elmore)) > 10, elmore.errors.NotFound.__name__)")
    assert (ended.stdout, ended.stderr) == ("True NotFound\n", "")


def test_requires_torch_passes_other_missing_modules() -> None:
    with pytest.raises(ModuleNotFoundError, match="numpyx") as caught, requires_torch("this"):
        import numpyx  # noqa: F401
    assert not isinstance(caught.value, MissingExtra)
    with pytest.raises(ModuleNotFoundError, match="torchvision") as caught, requires_torch("this"):
        raise ModuleNotFoundError("No module named 'torchvision'", name="torchvision")
    assert not isinstance(caught.value, MissingExtra)
