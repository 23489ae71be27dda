"""A handful of sentences with names, and the smallest comparison on them that has every part of a large one."""

import json
import random
from pathlib import Path
from typing import Any

from elmore.tasks.comparison.compare import compare
from elmore.tasks.comparison.events import Event
from elmore.training.run import Run

RECIPE = {
    "elmo.model": "tiny-random",
    "task.hidden": [8],
    "task.dropout": 0.1,
    "words.dim": 8,
    "words.character_filters": 4,
    "training.epochs": 4,
    "training.batch_size": 8,
    "training.learning_rate": 0.03,
}
OPTIONS = [word for name, value in RECIPE.items() for word in (f"--{name}", str(value))]


def write_names(path: Path, *, sentences: int, seed: int) -> Path:
    """CoNLL columns of made-up sentences, in which the words tell what is a name."""
    choose = random.Random(seed).choice
    lines = []
    for _ in range(sentences):
        who, where = choose(["Anna", "Bob", "Clara", "David"]), choose(["Paris", "Rome", "Oslo", "Cairo"])
        lines += [f"{who} B-PER", f"{choose(['went', 'flew'])} O", "to O", f"{where} B-LOC", ". O", ""]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_data(folder: Path) -> dict[str, Path]:
    """Files to train, to choose and to test by; of the last there are two."""
    sizes = {"train": 24, "dev": 8, "test": 10, "other": 6}
    return {
        name: write_names(folder / f"{name}.conll", sentences=size, seed=seed)
        for seed, (name, size) in enumerate(sizes.items())
    }


def small_compare(data: dict[str, Path], folder: Path, **changes: Any) -> Run[Event]:
    """Compare in this process, on the CPU, with one seed, unless told otherwise."""
    options = {"recipe": RECIPE, "seeds": 1, "jobs": 0, "device": "cpu", "test": [data["test"], data["other"]]}
    return compare("ner", folder, **{"train": data["train"], "dev": data["dev"], **options, **changes})


def results(folder: Path) -> list[dict[str, Any]]:
    """What the trainings gave, in the order of their names, without how long they took."""
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for line in lines:
        assert line.pop("seconds") > 0
    return sorted(lines, key=lambda line: (line["variant"], line["fraction"], line["seed"]))
