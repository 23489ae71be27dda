"""Task models are found by path, or by name where they come with Elmore; half the space costs them next to nothing."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from elmore import load as load_bilm
from elmore import sources
from elmore.errors import FormatError, InputWarning, NotFound
from elmore.files.atomic_files import _backup_name
from elmore.tasks.core import model_folder
from elmore.tasks.core.model_folder import (
    WEIGHTS,
    find_task_model,
    in_half_precision,
    names_task_model,
    read_task_model,
    shipped_names,
    write_task_model,
)
from elmore.tasks.core.trained_model import load, stored_model
from elmore.tasks.inputs.bilm import bilm_reference
from small_tasks import train_small, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))["pos"]


@pytest.fixture(scope="module")
def run(data, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_small("pos", folder, data)
    return folder


@pytest.fixture
def shipped(run, tmp_path, monkeypatch) -> Path:
    """A package with the tagger of that run inside, and an empty folder to work in."""
    monkeypatch.setattr(model_folder, "_SHIPPED", tmp_path / "task_models")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_task_model(in_half_precision(read_task_model(run)), tmp_path / "task_models")
    (tmp_path / "task_models").rename(tmp_path / "pos")
    (tmp_path / "task_models").mkdir()
    (tmp_path / "task_models" / "LICENSE.md").write_text("free")
    return (tmp_path / "pos").rename(tmp_path / "task_models" / "pos")


def test_a_model_that_comes_with_elmore_is_found_by_its_name(shipped, data):
    assert shipped_names() == ["pos"]
    assert find_task_model("pos") == shipped
    assert names_task_model("pos")
    tagger = load("pos", device="cpu")
    assert tagger.evaluate(data).value == 100
    [result] = tagger.predict(["Mary slept."])
    assert list(zip(result.tokens, result.tags, result.offsets, strict=True)) == [
        ("Mary", "PROPN", (0, 4)),
        ("slept", "VERB", (5, 10)),
        (".", "PUNCT", (10, 11)),
    ]


def test_a_folder_wins_over_a_name_and_that_is_said(shipped, run):
    shutil.copytree(run, "pos")
    with pytest.warns(InputWarning, match=r"the folder pos is used.* write \./pos"):
        assert find_task_model("pos") == Path("pos")
    # Nothing is ambiguous about these.
    for path in ("./pos", "pos/", Path("pos")):
        assert find_task_model(path) == Path("pos")


def test_a_folder_whose_training_has_not_ended_is_never_passed_over(shipped):
    Path("pos").mkdir()
    with pytest.raises(
        NotFound, match=r"^pos: has no task.json; a task model is .*; the model pos shipped with Elmore is in"
    ):
        load("pos")
    assert not names_task_model("pos")


@pytest.mark.parametrize("name", ["./pos", "pos/", "../pos", "../task_models", "task_models/pos", ".", "", Path("pos")])
def test_only_the_name_itself_means_the_model_inside(shipped, name):
    assert not names_task_model(name)
    with pytest.raises(NotFound):
        find_task_model(name)


def test_what_is_not_there_is_told_with_what_is(shipped):
    with pytest.raises(NotFound, match=r"^po: no such folder, .* \(pos\); did you mean pos\?$"):
        load("po")
    with pytest.raises(NotFound, match=r"^ner: no such folder, .* \(pos\); train a model: elmore train ner$"):
        load("ner")
    with pytest.raises(NotFound, match=r"^tagger/: no such folder, .*; give the folder of a trained task model$"):
        load("tagger/")
    Path("file").touch()
    with pytest.raises(NotFound, match=r"^file: is a file, not a folder; a task model is a folder"):
        load("file")


def test_no_name_means_both_a_task_model_and_a_bilm():
    assert set(shipped_names()) & {*sources.list_models()} == set()


def test_a_task_model_is_no_bilm_and_that_is_said(run):
    for path in (run, run / "model"):
        with pytest.raises(FormatError, match=r": is a task model, not a biLM; use elmore predict or elmore"):
            load_bilm(path)


def test_a_task_model_is_stored_without_the_query_of_an_address(run):
    assembled = load(run, device="cpu").assembled
    options = replace(assembled.recipe.elmo, model="https://example.org/elmo.zip?sig=SECRET")
    assembled = replace(assembled, recipe=replace(assembled.recipe, elmo=options))
    card = stored_model(assembled, scores={}, training={}).card
    assert card.recipe["elmo"]["model"] == "https://example.org/elmo.zip?…"
    assert bilm_reference(load_bilm("tiny-random"), options.model).name == "https://example.org/elmo.zip?…"


def test_half_precision_takes_half_the_space_and_keeps_what_the_model_says(run, tmp_path):
    stored = read_task_model(run)
    write_task_model(in_half_precision(stored), tmp_path / "half")
    whole, half = ((folder / WEIGHTS).stat().st_size for folder in (run / "model", tmp_path / "half"))
    assert half < 0.6 * whole
    again = read_task_model(tmp_path / "half")
    assert again.card == stored.card
    for name, array in stored.arrays.items():
        assert again.arrays[name].dtype == np.float32
        # Eleven bits of a number are kept, but of vectors and biases all.
        np.testing.assert_allclose(again.arrays[name], array, rtol=2**-11 if array.ndim > 1 else 0, atol=1e-7)
    texts = ["Mary doesn't like New York.", "They met Ann."]
    assert load(tmp_path / "half", device="cpu").predict(texts) == load(run, device="cpu").predict(texts)


def test_numbers_that_float16_cannot_hold_are_refused(run):
    stored = read_task_model(run)
    name, array = next((name, array) for name, array in stored.arrays.items() if array.ndim > 1)
    with pytest.raises(FormatError, match="contains numbers that are too large for float16; store"):
        in_half_precision(replace(stored, arrays={**stored.arrays, name: array + 1e6}))


def test_a_card_says_data_and_license(run, tmp_path):
    stored = read_task_model(run)
    card = replace(stored.card, license="CC BY-SA 4.0", data="Four sentences, by nobody.")
    write_task_model(replace(stored, card=card), tmp_path / "model")
    assert json.loads((tmp_path / "model" / "task.json").read_text())["license"] == "CC BY-SA 4.0"
    assert load(tmp_path / "model", device="cpu").card.data == "Four sentences, by nobody."


def test_a_bilm_that_has_gone_is_told_with_what_to_do(run, tmp_path):
    stored = read_task_model(run)
    gone = replace(stored.card, elmo=replace(stored.card.elmo, name=str(tmp_path / "gone")))
    write_task_model(replace(stored, card=gone), tmp_path / "model")
    with pytest.raises(NotFound, match=r"the biLM of this model is missing: .*gone: .*; give its location with --elmo"):
        load(tmp_path / "model", device="cpu")
    assert load(tmp_path / "model", elmo="tiny-random", device="cpu").predict(["Mary."])


def test_find_task_model_restores_folder_after_interrupted_replacement(tmp_path: Path) -> None:
    backup = _backup_name(tmp_path / "tagger")  # the state between two renames where names cannot be exchanged
    backup.mkdir()
    (backup / "task.json").write_text("{}")
    assert names_task_model(str(tmp_path / "tagger"))
    assert find_task_model(str(tmp_path / "tagger")) == tmp_path / "tagger"
