"""Task models that somebody's hand, a full disk or a cut transfer has damaged: what is wrong is told, and where."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import small_senses
from small_tasks import train_small, write_data


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def names(place):
    """A model of names, and data of its task."""
    file = write_data(place)["ner"]
    train_small("ner", place / "ner", file, training__epochs=1)
    return place / "ner" / "model", file


@pytest.fixture(scope="module")
def senses(place):
    """A model of word senses, and data of its task."""
    file = small_senses.write_wsd(place, "uses", small_senses.SENTENCES)
    small_senses.train_small("wsd", place / "wsd", file, task__sense_index=str(small_senses.write_index(place)))
    return place / "wsd" / "model", file


def edited(*fields: str, to: Any) -> Callable[[Path], None]:
    """Put a value into task.json, at a field of a field."""

    def edit(model: Path) -> None:
        values = json.loads((model / "task.json").read_text())
        table = values
        for field in fields[:-1]:
            table = table[field]
        table[fields[-1]] = to
        (model / "task.json").write_text(json.dumps(values))

    return edit


def with_tensor(name: str, tensor: torch.Tensor) -> Callable[[Path], None]:
    def edit(model: Path) -> None:
        save_file({**load_file(model / "model.safetensors"), name: tensor}, model / "model.safetensors")

    return edit


def without_tensors(model: Path) -> None:
    save_file({}, model / "model.safetensors")


def another_word(model: Path) -> None:
    with (model / "words.txt").open("a") as words:
        words.write("word\n")


# What is done to a model, and what is said behind its name, by `elmore info` too.
SEEN_BY_ALL = [
    (lambda model: (model / "task.json").write_text('{"task": "ner"}'), "task.json: labels is missing"),
    (edited("labels", to={}), "task.json: labels.kinds is missing; a model of ner requires it"),
    (edited("labels", "kinds", to=[]), "task.json: labels.kinds is empty; a model of ner requires at least one label"),
    (edited("labels", "kinds", to="PER"), "task.json: labels.kinds is 'PER'; it must be a list, each of it a string"),
    (edited("labels", "kinds", to=["PER", 3]), "task.json: labels.kinds is ['PER', 3]; it must be a list, each"),
    (edited("task", to="names"), "task.json: the task 'names' is not one"),
    (edited("recipe", "task", "hidden", to=[-1]), "task.json: recipe.task.hidden is [-1]; it must be a list"),
    (edited("recipe", "elmo", to=3), "task.json: recipe.elmo is 3; it must be a table of fields"),
    (edited("elmo", to=None), "task.json: elmo, the reference to the biLM, is missing, but recipe.elmo.where is input"),
    (
        edited("recipe", "elmo", "where", to="none"),
        "task.json: elmo, the reference to the biLM, is given, but recipe.elmo.where is none",
    ),
    (edited("vector_dim", to=-1), "task.json: vector_dim is -1; it must be a whole number, at least 0"),
    (edited("mixes", "input", to={"weights": [1]}), "task.json: mixes.input.gamma is missing"),
    (edited("scores", to={"dev F1": None}), "task.json: scores is {'dev F1': None}; it must be a table, each of it"),
    (edited("training", "examples", to="many"), "task.json: training.examples is 'many'; it must be a whole number"),
    (lambda model: (model / "task.json").write_text("[" * 200_000), "task.json: not JSON: maximum recursion depth"),
    (lambda model: (model / "words.txt").unlink(), "words.txt is missing"),
    (lambda model: (model / "words.txt").write_bytes(b"\xff\n"), "words.txt: is not UTF-8"),
    (another_word, "task.json: learnt_words is 15, but words.txt has 16 words"),
]
# What is seen when the model is put together.
SEEN_WHEN_LOADED = [
    (edited("elmo", "dim", to=7), "task.json: elmo.dim is 7, but tiny-random has 32"),
    (edited("labels", "kinds", to=["LOC", ""]), "'B-' is not a tag of spans"),
    (
        edited("recipe", "task", "hidden", to=[10**12]),
        "the model of this recipe does not fit into the memory",
    ),
    (with_tensor("extra", torch.zeros(2)), "model.safetensors: contains extra, which task.json does not have"),
    (without_tensors, "model.safetensors: lacks embedder.characters.characters.weight, "),
    (
        with_tensor("embedder.words.learnt", torch.zeros(2, 2)),
        "model.safetensors: embedder.words.learnt has shape (2, 2); task.json requires (16, 50)",
    ),
]


def errors_of(elmore, model: Path, file: Path, commands: list[str]) -> dict[str, str]:
    """What each command says of a model that it cannot use."""
    told = {}
    for command in commands:
        ended = elmore(command, model, *([] if command == "info" else [file, "--device", "cpu"]))
        assert (ended.code, ended.out) == (1, "")
        told[command] = ended.err
    return told


@pytest.mark.parametrize(
    ("damage", "told", "commands"),
    [(*case, ["evaluate", "predict", "info"]) for case in SEEN_BY_ALL]
    + [(*case, ["evaluate", "predict"]) for case in SEEN_WHEN_LOADED],
    ids=[told for _, told in SEEN_BY_ALL + SEEN_WHEN_LOADED],
)
def test_a_damaged_model_is_named_with_the_file_and_the_field(damage, told, commands, names, elmore, tmp_path):
    model, file = names
    shutil.copytree(model, tmp_path / "model")
    damage(tmp_path / "model")
    for command, error in errors_of(elmore, tmp_path / "model", file, commands).items():
        assert error.startswith(f"elmore: {tmp_path / 'model'}: {told}"), command
        assert error.count("\n") == 1


def test_senses_that_are_no_lists_of_keys_are_named(senses, elmore, tmp_path):
    model, file = senses
    shutil.copytree(model, tmp_path / "model")
    edited("labels", "senses", "NOUN", to=["bow"])(tmp_path / "model")
    (told,) = set(errors_of(elmore, tmp_path / "model", file, ["evaluate", "predict", "info"]).values())
    assert "model: task.json: labels.senses is {'NOUN': ['bow'], " in told
