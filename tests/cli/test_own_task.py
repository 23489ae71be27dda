"""The task that docs/own-task.md builds outside of Elmore is trained, resumed, evaluated, used and compared."""

import json
import random
import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.comparison.compare import compare
from elmore.tasks.comparison.events import RunFailed
from elmore.tasks.core.events import TaskFinished
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.trained_model import load
from elmore.tasks.core.training_run import train
from elmore.training.events import Evaluated
from small_runs import of_kind

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-task.md"
RECIPE = {
    "elmo.model": "tiny-random",
    "words.min_count": 1,
    "training.epochs": 6,
    "training.learning_rate": 0.02,
    "training.batch_size": 4,
}
VERBS = {"works": "employer", "lives": "home"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the page's module and data."""
    folder = tmp_path_factory.mktemp("own")
    [code] = re.findall(r"^`relations.py`:\n\n```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (folder / "relations.py").write_text(code)
    choose = random.Random(1).choice
    for name, number in (("train", 24), ("dev", 8), ("test", 8)):
        lines = []
        for _ in range(number):
            verb = choose(list(VERBS))
            tokens = [choose(["Anna", "Bob"]), verb, "in", choose(["Paris", "Rome"])]
            lines.append({"tokens": tokens, "subject": [0, 2], "object": [3, 4], "label": VERBS[verb]})
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


@pytest.fixture
def task(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    yield import_module("relations").RELATIONS
    sys.modules.pop("relations")


def test_own_task_is_trained_resumed_and_used(folder, task, tmp_path):
    files = {"train": folder / "train.jsonl", "dev": folder / "dev.jsonl"}
    events = train(task, tmp_path / "run", **files, recipe=RECIPE, device="cpu")
    for event in events:
        if isinstance(event, Evaluated):
            events.stop()
    assert not (tmp_path / "run" / "model").exists()
    *_, last = train(task, tmp_path / "run", **files, resume=True, device="cpu")
    assert isinstance(last, TaskFinished)
    with pytest.raises(InputError, match=r"the task 'relations' is not one of Elmore's .* module:OBJECT"):
        load(tmp_path / "run", device="cpu")
    model = load(tmp_path / "run", task="relations:RELATIONS", device="cpu")
    assert model.evaluate(folder / "test.jsonl").value > 90
    text = json.dumps({"tokens": ["Bob", "works", "in", "Rome"], "subject": [0, 2], "object": [3, 4]})
    assert str(model.predict([text])[0]) == "employer"


def test_own_task_is_compared(folder, task, tmp_path):
    files = {name: folder / f"{name}.jsonl" for name in ("train", "dev", "test")}
    events = list(compare(task, tmp_path, **files, recipe=RECIPE, seeds=1, jobs=0, device="cpu"))
    assert of_kind(RunFailed, events) == []
    _, with_elmo = events[-1].comparison.rows
    assert with_elmo.gains["test"].p is not None


def test_own_task_works_on_command_line(elmore, folder, task, tmp_path):
    options = [word for name, value in RECIPE.items() for word in (f"--{name}", value)]
    data = ["--train", folder / "train.jsonl", "--dev", folder / "dev.jsonl"]
    run = tmp_path / "run"
    assert elmore("train", "relations:RELATIONS", *data, *options, "-o", run, "--device", "cpu").code == 0
    ended = elmore("evaluate", run, folder / "test.jsonl", "--task", "relations:RELATIONS")
    assert (ended.code, ended.out.splitlines()[-1].split()[0]) == (0, "accuracy")
    assert "--task module:OBJECT" in elmore("evaluate", run, folder / "test.jsonl").err


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing", "there is no task 'nothing'"), ("no_such:X", "cannot be imported"), ("json:X", "has no object 'X'")],
)
def test_find_task_rejects_other_names(name, message):
    with pytest.raises(InputError, match=message):
        find_task(name)


def test_find_task_rejects_object_that_is_no_task():
    with pytest.raises(InputError, match="json:dumps is a function, not a Task object"):
        find_task("json:dumps")
