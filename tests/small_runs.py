"""A corpus of made-up sentences, and the smallest training run that has every part of a large one."""

import random
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from cpu_environment import ON_THE_CPU
from elmore.corpus.corpus import Corpus
from elmore.corpus.prepare import prepare
from elmore.model import Model
from elmore.pretraining.pretrain import pretrain
from elmore.pretraining.recipe import Recipe
from elmore.recipe import apply_overrides, read_recipe
from elmore.training.events import RunEvent
from elmore.training.log import read_log
from elmore.training.run import Run

FIELDS = {
    "model.vector_dim": "8",
    "model.cell_dim": "16",
    "model.characters.embedding_dim": "4",
    "model.characters.filters": "[[1, 4], [2, 8]]",
    "training.batch_size": "4",
    "training.window": "5",
    "training.negatives": "8",
    "training.warmup_steps": "2",
}
# Always on the CPU: several processes would not find a GPU each.
OPTIONS = [
    "--recipe",
    "tiny",
    "--device",
    "cpu",
    *(word for name, value in FIELDS.items() for word in (f"--{name}", value)),
]

# What a program needs so that its sums are the same on every run, and nothing of a launcher around the tests.
LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
ENVIRONMENT = {name: value for name, value in ON_THE_CPU.items() if name not in LAUNCHER} | {
    "OMP_NUM_THREADS": "1",
    "ELMORE_THREADS": "1",
}


def small_corpus(folder: Path, *, seed: int = 1, documents: int = 20, vocabulary: Path | None = None) -> Corpus:
    choose = random.Random(seed).choice
    who, does = ["cat", "dog", "man", "woman", "bird", "child"], ["sees", "likes", "hears", "finds"]
    how, where = ["old", "small", "red", "big", "quiet"], ["house", "river", "tree", "road"]
    lines = []
    for _ in range(documents):
        for _ in range(12):
            subject, thing = (f"{choose(how)} {choose(who)}" for _ in range(2))
            lines.append(f"the {subject} {choose(does)} a {thing} near the {choose(where)} .")
        lines.append("")
    text = folder.with_suffix(".txt")
    text.write_text("\n".join(lines))
    return prepare([text], folder, input_format="tokenized", heldout=0.1, workers=1, vocabulary=vocabulary)


def small_recipe(**changes: object) -> Recipe:
    """As in `small_recipe(**{"training.steps": 20})`."""
    return apply_overrides(read_recipe("tiny", Recipe), FIELDS | {name: str(value) for name, value in changes.items()})


def small_run(
    corpus: Corpus,
    folder: Path,
    recipe: Recipe | None = None,
    *,
    init: Model | None = None,
    resume: bool = False,
    **settings: object,
) -> Run[RunEvent]:
    """A run on the CPU that logs every step; one that goes on needs neither recipe nor model."""
    chosen = {} if resume else {"log_every": 1, "checkpoint_every": 5}
    return pretrain(corpus, folder, recipe, init=init, resume=resume, settings=chosen | settings, device="cpu")


def of_kind(kind: type, events: Iterable[RunEvent]) -> list:
    return [event for event in events if isinstance(event, kind)]


def losses(run: Path) -> dict[int, float]:
    """The logged losses by step; a step that was logged twice is a mistake."""
    entries = [entry for entry in read_log(run / "log.jsonl") if "loss" in entry]
    found = {entry["step"]: entry["loss"] for entry in entries}
    assert len(found) == len(entries)
    return found


def elmore_command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "elmore", *map(str, arguments)]


def torchrun_command(processes: int, *arguments: object, restarts: int = 0) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return [*launcher, "--max-restarts", str(restarts), "-m", "elmore", *map(str, arguments)]


def ended(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)


def assert_same_weights(one: Model, other: Model) -> None:
    """The fingerprint also covers the text style, which not every format stores."""
    arrays, others = one.checkpoint.float_arrays(), other.checkpoint.float_arrays()
    assert arrays.keys() == others.keys()
    assert all(np.array_equal(array, others[name]) for name, array in arrays.items())
    assert one.config == other.config
