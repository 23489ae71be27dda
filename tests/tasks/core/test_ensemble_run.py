"""Several models of a task decide together, whatever the task; an ensemble is trained, stopped, loaded and refused."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import small_senses
from elmore.errors import FormatError, InputError, NotFound
from elmore.tasks.core.ensemble_run import train_ensemble
from elmore.tasks.core.events import EnsembleFinished, TaskFinished
from elmore.tasks.core.trained_model import load
from elmore.tasks.core.training_run import train
from elmore.tasks.inputs.layer_cache import LayerReader
from elmore.training.events import Evaluated, Stopped
from small_tasks import SMALL, TRAINING, WITH_ELMO, train_small, write_data

SHORT = {"training__epochs": 3, "training__min_epoch_steps": 1}


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def pairs(data, tmp_path_factory) -> dict[str, list[Path]]:
    """Two models of every task that have learnt a little, each something else."""
    folder = tmp_path_factory.mktemp("pairs")
    found = {}
    for task, file in data.items():
        found[task] = [folder / f"{task}-{seed}" for seed in (1, 2)]
        for seed, run in enumerate(found[task], start=1):
            train_small(task, run, file, training__seed=seed, **SHORT)
    return found


def examples_of(task: str, file: Path, run: Path) -> tuple[Any, Sequence[Any]]:
    model = load(run, device="cpu")
    return model, model.task.read([file], model.assembled.recipe.task, to_train=False).examples


def rounded(predictions: Any) -> Any:
    """Numbers to five digits, in whatever holds them."""
    if isinstance(predictions, float):
        return round(predictions, 5)
    return [rounded(one) for one in predictions] if isinstance(predictions, list | tuple) else predictions


@pytest.mark.parametrize("task", SMALL)
def test_a_model_beside_itself_says_what_it_says_alone(task, data, pairs):
    model, examples = examples_of(task, data[task], pairs[task][0])
    twice = load([pairs[task][0]] * 2, device="cpu")
    assert rounded(twice.predict_examples(examples)) == rounded(model.predict_examples(examples))


@pytest.mark.parametrize("task", SMALL)
def test_members_decide_together_in_any_order(task, data, pairs):
    _, examples = examples_of(task, data[task], pairs[task][0])
    found = [rounded(load(some, device="cpu").predict_examples(examples)) for some in (pairs[task], pairs[task][::-1])]
    assert found[0] == found[1]


def test_the_probabilities_of_labels_are_means(data, pairs):
    _, examples = examples_of("classify", data["classify"], pairs["classify"][0])
    each = [load(run, device="cpu").predict_examples(examples) for run in pairs["classify"]]
    together = load(pairs["classify"], device="cpu").predict_examples(examples)
    assert rounded([one.probabilities for one in each[0]]) != rounded([one.probabilities for one in each[1]])
    for one, other, both in zip(*each, together, strict=True):
        means = [(a + b) / 2 for a, b in zip(one.probabilities, other.probabilities, strict=True)]
        assert list(both.probabilities) == pytest.approx(means, abs=1e-6)
        assert both.probabilities[["bad", "good"].index(both.label)] == max(both.probabilities)


def test_members_with_one_bilm_have_it_read_once(data, pairs, monkeypatch):
    read: list[list[str]] = []
    original = LayerReader.layers
    monkeypatch.setattr(
        LayerReader, "layers", lambda self, sentences: read.extend(map(list, sentences)) or original(self, sentences)
    )
    model = load(pairs["ner"], device="cpu")
    assert model.assembled.maker.layers is model.others[0].maker.layers
    model.evaluate(data["ner"])
    assert len(read) == len({tuple(tokens) for tokens in read}) == 4
    assert repr(model) == "TrainedModel('ner', elmo='tiny-random', members=2)"


def digests(folder: Path) -> dict[str, str]:
    files = [*folder.rglob("model.safetensors"), *folder.rglob("task.json"), *folder.rglob("ensemble.json")]
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


RECIPE = {**TRAINING, **WITH_ELMO, **SMALL["ner"], "training.epochs": 3, "training.seed": 4}


def test_an_ensemble_is_trained_seed_by_seed_and_goes_on_after_a_stop_as_if_there_had_been_none(data, tmp_path):
    options = {"train": data["ner"], "dev": data["ner"], "device": "cpu"}
    events = list(train_ensemble("ner", tmp_path / "whole", seeds=2, recipe=RECIPE, **options))
    finished = events[-1]
    assert isinstance(finished, EnsembleFinished)
    assert finished.score.value == load(tmp_path / "whole", device="cpu").evaluate(data["ner"]).value
    assert str(finished).splitlines()[0] == f"ensemble of 2: dev F1 {finished.score.value:.2f}"
    assert sum(isinstance(event, TaskFinished) for event in events) == 2
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == [
        ".lock",
        "ensemble.json",
        "seed-4",
        "seed-5",
    ]

    stopped = train_ensemble("ner", tmp_path / "parts", seeds=2, recipe=RECIPE, **options)
    for event in stopped:
        if isinstance(event, Evaluated):
            stopped.stop()
    assert isinstance(event, Stopped)
    with pytest.raises(NotFound, match=r"parts: 2 of 2 members not finished: seed-4, seed-5; run elmore train"):
        load(tmp_path / "parts", device="cpu")
    with pytest.raises(InputError, match="parts: already contains a run; resume it with --resume"):
        next(train_ensemble("ner", tmp_path / "parts", seeds=2, recipe=RECIPE, **options))
    list(train_ensemble("ner", tmp_path / "parts", seeds=None, **options))
    assert digests(tmp_path / "parts") == digests(tmp_path / "whole")
    assert (
        digests(tmp_path / "whole")["seed-4/model/model.safetensors"]
        != digests(tmp_path / "whole")["seed-5/model/model.safetensors"]
    )


def test_an_ensemble_goes_on_with_the_same_data_alone(data, tmp_path):
    run = train_ensemble(
        "ner", tmp_path / "run", seeds=2, train=data["ner"], dev=data["ner"], recipe=RECIPE, device="cpu"
    )
    for event in run:
        if isinstance(event, TaskFinished):
            run.stop()
    assert isinstance(event, Stopped)
    other = tmp_path / "other.conll"
    other.write_text(data["ner"].read_text() + "\nBob\tB-PER\n")
    with pytest.raises(InputError, match=r"seed-5: the (data|--train data) differs from the data of"):
        list(train_ensemble("ner", tmp_path / "run", seeds=None, train=other, dev=data["ner"], device="cpu"))


def test_ensemble_in_use_rejects_other_runs_of_it_and_its_member(data, tmp_path):
    options = {"train": data["ner"], "dev": data["ner"], "device": "cpu"}
    first = train_ensemble("ner", tmp_path / "run", seeds=2, recipe=RECIPE, **options)
    while not isinstance(next(first), Evaluated):
        pass
    with pytest.raises(InputError, match=r"run: another training run uses this folder"):
        next(train_ensemble("ner", tmp_path / "run", seeds=None, **options))
    with pytest.raises(InputError, match=r"run: another training run uses this folder"):
        next(train("ner", tmp_path / "run", **options))
    with pytest.raises(InputError, match=r"seed-4: another training run uses this folder"):
        next(train("ner", tmp_path / "run" / "seed-4", resume=True, **options))
    first.close()


def test_what_cannot_be_learnt_from_leaves_no_ensemble_behind(tmp_path):
    (tmp_path / "none.conll").write_text("Hello\tO\n")
    with pytest.raises(InputError, match="the training data has no names"):
        list(
            train_ensemble("ner", tmp_path / "run", seeds=2, train=tmp_path / "none.conll", dev=tmp_path / "none.conll")
        )
    assert not (tmp_path / "run").exists()


def test_models_that_do_not_belong_together_are_refused(data, pairs, tmp_path):
    with pytest.raises(InputError, match=r"pos-1: has the task pos, but .*ner-1 has ner;"):
        load([pairs["ner"][0], pairs["pos"][0]], device="cpu")
    (tmp_path / "other.conll").write_text("Bob\tB-HERO\nsleeps\tO\n")
    train_small("ner", tmp_path / "run", tmp_path / "other.conll", task__token_style="plain", **SHORT)
    with pytest.raises(InputError, match=r"run: has other labels than .*ner-1"):
        load([pairs["ner"][0], tmp_path / "run"], device="cpu")
    for field, value, told in (
        ("max_width", 3, "3, but .*coref-1 has 2;"),
        ("spans_per_word", 1.5, r"1\.5, but .*coref-1 has 2\.0;"),
        ("max_antecedents", 7, "7, but .*coref-1 has 250;"),
    ):
        train_small("coref", tmp_path / field, data["coref"], **{f"task__{field}": value}, **SHORT)
        with pytest.raises(InputError, match=rf"{field}: has task\.{field} {told} their scores cannot be combined"):
            load([*pairs["coref"], tmp_path / field], device="cpu")
    with pytest.raises(InputError, match="no model given"):
        load([], device="cpu")


def test_an_ensemble_takes_no_run_that_was_there_before_for_its_own(data, tmp_path):
    train_small("ner", tmp_path / "run" / "seed-2", data["ner"], training__epochs=1)
    options = {"train": data["ner"], "dev": data["ner"], "device": "cpu"}
    recipe = {**RECIPE, "training.seed": 1}
    with pytest.raises(InputError, match="seed-2: already contains another training run; choose another"):
        list(train_ensemble("ner", tmp_path / "run", seeds=2, recipe=recipe, **options))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["seed-2"]


def test_seeds_that_are_too_large_are_refused_before_anything_is_trained(data, tmp_path):
    options = {"train": data["ner"], "dev": data["ner"], "device": "cpu"}
    recipe = {**RECIPE, "training.seed": 2**32 - 2}
    with pytest.raises(InputError, match="3 seeds from 4294967294 on exceed 4294967295, the largest seed; set a"):
        list(train_ensemble("ner", tmp_path / "run", seeds=3, recipe=recipe, **options))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("members", ["{", "[]", '{"members": []}', '{"members": ["../ner"]}', '{"members": [3]}'])
def test_a_damaged_ensemble_is_named(members, tmp_path):
    (tmp_path / "ensemble.json").write_text(members)
    with pytest.raises(FormatError, match=r"ensemble\.json: "):
        load(tmp_path, device="cpu")


def test_a_model_that_is_fitted_has_no_ensemble_whatever_stands_beside_it(tmp_path):
    file = small_senses.write_wsd(tmp_path, "uses", small_senses.SENTENCES)
    index = {"task__sense_index": str(small_senses.write_index(tmp_path))}
    fitted, trained = tmp_path / "fitted", tmp_path / "trained"
    small_senses.train_small("wsd", fitted, file, **index)
    small_senses.train_small("wsd", trained, file, task__method="linear", training__epochs=1, **index)
    told = "is not trained by gradient descent and does not depend on a seed, so it cannot be part of an ensemble"
    for first, second, called in (
        (fitted, fitted, "the model"),
        (trained, fitted, "the model"),
        (fitted, trained, f"the model {fitted}"),
    ):
        with pytest.raises(InputError, match=f"^{second}: {called} {told}$"):
            load([first, second], device="cpu")
    recipe = {"elmo.model": "tiny-random", "task.sense_index": index["task__sense_index"]}
    events = train_ensemble("wsd", tmp_path / "several", train=file, dev=file, seeds=2, recipe=recipe, device="cpu")
    with pytest.raises(InputError, match=f"^the model of wsd with this task.method {told}$"):
        list(events)
    assert not (tmp_path / "several").exists()


def test_taggers_with_a_crf_and_without_do_not_go_together(data, pairs, tmp_path):
    train_small("pos", tmp_path / "crf", data["pos"], task__crf=True, **SHORT)
    with pytest.raises(InputError, match=r"crf: has task\.crf True, but .*pos-1 has False; their scores cannot be"):
        load([pairs["pos"][0], tmp_path / "crf"], device="cpu")
