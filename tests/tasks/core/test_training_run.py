"""Every task's model is trained for real, on a handful of sentences, and used."""

import gc
import hashlib
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from elmore.errors import InputError, NotFound
from elmore.tasks.core import trainer
from elmore.tasks.core.events import TaskConfigured, TaskFinished
from elmore.tasks.core.registry import TASKS
from elmore.tasks.core.trained_model import load
from elmore.tasks.core.training_run import sampled, train
from elmore.training.events import Evaluated, Message, Progressed, RolledBack, Started, Stopped
from elmore.training.log import read_log
from small_tasks import SMALL, TRAINING, WITH_ELMO, train_small, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    return write_data(tmp_path_factory.mktemp("data"))


def digests(run: Path) -> list[str]:
    """Of the files that make a model what it is."""
    files = ("model.safetensors", "task.json", "words.txt")
    return [hashlib.sha256((run / "model" / name).read_bytes()).hexdigest() for name in files]


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory) -> dict[str, Path]:
    """A run of every task, trained until its handful is learnt."""
    folder = tmp_path_factory.mktemp("runs")
    for task, file in data.items():
        train_small(task, folder / task, file)
    return {task: folder / task for task in data}


@pytest.mark.parametrize("task", SMALL)
def test_a_task_learns_its_handful_with_elmo_and_without(task, data, runs, tmp_path):
    events = train_small(task, tmp_path / "without", data[task], elmo__where="none")
    for folder in (runs[task], tmp_path / "without"):
        assert load(folder, device="cpu").evaluate(data[task]).value == 100
    opened, finished = events[0], events[-1]
    assert isinstance(opened, TaskConfigured)
    assert isinstance(finished, TaskFinished)
    assert "without ELMo" in str(opened)
    assert str(finished).startswith("best dev ")


def test_a_run_ends_once_the_score_has_been_flat_for_as_long_as_patience_says(runs):
    scores = [entry["heldout"] for entry in read_log(runs["ner"] / "log.jsonl") if "heldout" in entry]
    best = scores.index(100)
    assert len(scores) == best + 1 + TRAINING["training.patience"]


def test_it_is_told_why_a_run_ended(data, tmp_path):
    *_, flat = train_small("pos", tmp_path / "flat", data["pos"], training__patience=1)
    assert isinstance(flat, TaskFinished)
    assert flat.epochs == flat.epoch + 1
    assert f"after epoch {flat.epoch} of {flat.epochs}; stopped early after 1 epoch without a better score" in str(flat)
    *_, whole = train_small("pos", tmp_path / "whole", data["pos"], training__epochs=2, training__patience=0)
    assert isinstance(whole, TaskFinished)
    assert f"after epoch {whole.epoch} of 2\n" in str(whole)


def test_the_mix_that_a_task_learnt_is_told_and_kept(runs):
    card = json.loads((runs["ner"] / "model" / "task.json").read_text())
    weights = card["mixes"]["input"]["weights"]
    assert sum(weights) == pytest.approx(1)
    assert weights != pytest.approx([1 / 3] * 3, abs=1e-4)


def test_a_mix_that_is_learnt_is_drawn(data, runs, tmp_path):
    assert (runs["ner"] / "mix.png").read_bytes().startswith(b"\x89PNG")
    *_, finished = train_small("ner", tmp_path / "run", data["ner"], elmo__layers="last", training__epochs=1)
    assert isinstance(finished, TaskFinished)
    assert finished.pictures == (tmp_path / "run/loss.png",)
    assert str(finished).endswith(f"drew {tmp_path / 'run/loss.png'}")


def test_early_stopping_at_score_zero_saves_latest_weights_and_stops():
    stopping = trainer.EarlyStopping(patience=2, factor=0.5, plateau_patience=1)
    assert [stopping.add(score) for score in (0.0, 0.0)] == [True, True]
    assert not stopping.should_stop
    assert stopping.add(0.0)
    assert (stopping.best_evaluation, stopping.should_stop, stopping.lr_scale) == (3, True, 1.0)
    restored = trainer.EarlyStopping(patience=2, factor=0.5, plateau_patience=1)
    restored.restore(stopping.to_tensor())
    assert restored.should_stop
    assert [restored.add(score) for score in (7.0, 0.0)] == [True, False]
    assert not restored.should_stop


def test_early_stopping_reads_checkpoint_of_older_version():
    stopping = trainer.EarlyStopping(patience=2, factor=0.5, plateau_patience=3)
    stopping.restore(torch.tensor([80.0, 1.0, 5.0, 1.0, 1.0], dtype=torch.float64))
    assert (stopping.best_evaluation, stopping.should_stop) == (4, False)
    stopping.add(79.0)
    assert stopping.should_stop


def test_checkpoint_contains_frozen_word_vectors_once(data, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("john 1.0 0.0\nparis 0.0 1.0\n")
    frozen = {"words__vectors": str(vectors), "words__trained": False, "elmo__where": "none", "training__epochs": 2}
    train_small("ner", tmp_path / "run", data["ner"], **frozen)
    (*_, newest) = sorted((tmp_path / "run" / "checkpoints").iterdir())
    tensors = load_file(newest / "tensors.safetensors")
    assert [name.partition(".")[0] for name in tensors if name.endswith(".given")] == ["model"]
    assert load(tmp_path / "run", device="cpu").evaluate(data["ner"]).value >= 0


@pytest.mark.parametrize("seed", [1, 7])
def test_fine_tuning_uses_the_seed_of_the_run(data, tmp_path, monkeypatch, seed):
    recipes = []

    def pretrain(corpus, folder, recipe, **_):
        recipes.append(recipe)
        raise InputError("recorded")

    monkeypatch.setattr("elmore.tasks.inputs.bilm.pretrain", pretrain)
    with pytest.raises(InputError, match="recorded"):
        train_small("ner", tmp_path / "run", data["ner"], elmo__training="fine-tuned", training__seed=seed)
    assert recipes[0]["training.seed"] == seed


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(data, runs, tmp_path):
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"]}
    events = train("ner", tmp_path / "run", train=data["ner"], dev=data["ner"], recipe=recipe, device="cpu")
    for event in events:
        if isinstance(event, Evaluated) and event.number == 4:
            events.stop()
    assert isinstance(event, Stopped)
    # What is said of its recipe again is the same, all of it or a part.
    for said in (recipe, {"training.epochs": TRAINING["training.epochs"]}):
        go_on = {"train": data["ner"], "dev": data["ner"], "recipe": said, "resume": True, "device": "cpu"}
        list(train("ner", tmp_path / "run", **go_on))
        assert digests(tmp_path / "run") == digests(runs["ner"])


PROGRAM = """
import sys
import torch
torch.set_num_threads(1)  # as in these tests: another number sums in another order
from pathlib import Path
from small_tasks import *
from elmore.training.events import Evaluated
from elmore.tasks.core import training_run
training_run.SECONDS_BETWEEN_CHECKPOINTS = 0.0  # a checkpoint after every epoch
recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"]}
folder, data = sys.argv[1:]
for event in training_run.train("ner", folder, train=data, dev=data, recipe=recipe, device="cpu"):
    if isinstance(event, Evaluated):
        print(event.number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9 here")
def test_a_run_that_was_killed_goes_on_to_the_same_model(data, runs, tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "run"), str(data["ner"])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 6:
                process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "run" / "model").exists()
    events = list(train("ner", tmp_path / "run", train=data["ner"], dev=data["ner"], resume=True, device="cpu"))
    (started,) = [event for event in events if isinstance(event, Started)]
    assert started.done > 0
    assert digests(tmp_path / "run") == digests(runs["ner"])


def test_train_in_folder_of_unfinished_run_is_rejected(data, runs, tmp_path):
    options = {"train": data["ner"], "dev": data["ner"], "device": "cpu"}
    first = train("ner", tmp_path / "run", recipe={**TRAINING, **WITH_ELMO, **SMALL["ner"]}, **options)
    while not isinstance(next(first), Evaluated):
        pass
    with pytest.raises(InputError, match=r"run: another training run uses this folder; wait until it ends"):
        next(train("ner", tmp_path / "run", resume=True, **options))
    list(first)
    assert digests(tmp_path / "run") == digests(runs["ner"])


@pytest.mark.parametrize("how", ["close", "break"])
def test_train_frees_folder_when_its_events_are_dropped(how, data, runs, tmp_path):
    options = {"train": data["ner"], "dev": data["ner"], "device": "cpu"}
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"]}
    if how == "close":
        events = train("ner", tmp_path / "run", recipe=recipe, **options)
        while not isinstance(next(events), Evaluated):
            pass
        events.close()
    else:
        gc.disable()  # the folder is free before any collection
        for event in train("ner", tmp_path / "run", recipe=recipe, **options):
            if isinstance(event, Evaluated):
                break
    try:
        list(train("ner", tmp_path / "run", resume=True, **options))
    finally:
        gc.enable()
    assert digests(tmp_path / "run") == digests(runs["ner"])


@pytest.mark.parametrize("task", ["ner", "squad"])
def test_steps_that_are_launched_ahead_of_their_losses_make_the_same_model(task, data, runs, tmp_path, monkeypatch):
    monkeypatch.setitem(trainer.STEPS_AHEAD, "cpu", 3)
    train_small(task, tmp_path / "run", data[task])
    assert digests(tmp_path / "run") == digests(runs[task])
    logs = [
        [entry["loss"] for entry in read_log(run / "log.jsonl") if "loss" in entry]
        for run in (tmp_path / "run", runs[task])
    ]
    assert logs[0] == logs[1]


def test_a_run_ahead_of_a_loss_that_is_not_finite_goes_back_behind_it(data, tmp_path, monkeypatch):
    original = trainer.TaskTraining._step
    spoilt: list[int] = []

    def step(self, number, batch, rate):
        launched = original(self, number, batch, rate)
        if number == 5 and not spoilt:
            spoilt.append(number)
            return launched._replace(numbers=torch.tensor([float("nan"), 1.0]))
        return launched

    monkeypatch.setattr(trainer.TaskTraining, "_step", step)
    models = []
    for name, ahead in (("at once", 0), ("ahead", 3)):
        monkeypatch.setitem(trainer.STEPS_AHEAD, "cpu", ahead)
        spoilt.clear()
        events = train_small("ner", tmp_path / name, data["ner"])
        [back] = [event for event in events if isinstance(event, RolledBack)]
        assert back.number == 5
        models.append(digests(tmp_path / name))
    assert models[0] == models[1]


def test_a_hard_batch_late_in_a_training_is_no_accident(data, tmp_path, monkeypatch):
    monkeypatch.setattr("elmore.pretraining.language_model_training.LossSpikeDetector.is_spike", lambda *_: True)
    events = train_small("ner", tmp_path / "run", data["ner"], elmo__where="none", training__epochs=2)
    assert not any(isinstance(event, RolledBack) for event in events)
    assert isinstance(events[-1], TaskFinished)


def test_the_names_of_a_raw_text_come_with_their_places(runs):
    tagger = load(runs["ner"], device="cpu")
    text = "Mary doesn't like New York.\nIn Paris she met John."
    [result] = tagger.predict([text])
    assert [(entity.text, entity.label) for entity in result.entities] == [
        ("Mary", "PER"),
        ("New York", "LOC"),
        ("Paris", "LOC"),
        ("John", "PER"),
    ]
    assert all(text[entity.start : entity.end] == entity.text for entity in result.entities)
    assert sum(result.sentences) == len(result.tokens) == len(result.tags) == len(result.offsets)


def test_predictions_are_the_same_alone_and_in_a_batch(runs):
    tagger = load(runs["ner"], device="cpu")
    texts = ["John slept.", "They met Mary Ann in New York, and they did n't sleep there.", "", "Paris"] * 20
    assert tagger.predict(texts) == [tagger.predict([text])[0] for text in texts]


@pytest.mark.parametrize(
    "changes",
    [
        {"elmo__where": "both", "elmo__layers": "last"},
        {"elmo__where": "output", "elmo__layers": "average", "elmo__gamma": 0.3, "elmo__train_gamma": False},
        {"elmo__layers": 0, "elmo__normalize": True, "words__vectors": "none", "words__character_filters": 0},
        {"elmo__training": "joint", "elmo__unfreeze_every": 0.5},
        {"training__fraction": 0.5, "training__plateau_factor": 0.5, "training__optimizer": "adadelta"},
    ],
)
def test_whatever_the_recipe_says_a_model_is_trained_saved_and_loaded(changes, data, tmp_path):
    events = train_small("ner", tmp_path / "run", data["ner"], **{**changes, "training__epochs": 3})
    finished = events[-1]
    assert isinstance(finished, TaskFinished)
    loaded = load(tmp_path / "run", device="cpu")
    assert loaded.evaluate(data["ner"]).value == pytest.approx(finished.score.value)
    if changes.get("elmo__train_gamma") is False:
        assert finished.mixes["output"].gamma == pytest.approx(0.3)


def test_a_bilm_that_is_trained_with_the_task_changes_from_the_top_down(data, tmp_path):
    from elmore import load as load_bilm

    opened, *_ = train_small(
        "ner", tmp_path / "run", data["ner"], elmo__training="joint", elmo__learning_rate=0.01, training__epochs=1
    )
    before, after = load_bilm("tiny-random"), load_bilm(tmp_path / "run/model/elmo")
    # All of it is counted, though it waits for its turn.
    frozen, *_ = train_small("ner", tmp_path / "frozen", data["ner"], training__epochs=1)
    assert isinstance(opened, TaskConfigured)
    assert isinstance(frozen, TaskConfigured)
    assert opened.parameters == frozen.parameters + before.config.num_parameters
    # Of three parts only the highest had its turn in one epoch.
    old, new = before.checkpoint.float_arrays(), after.checkpoint.float_arrays()
    changed = {name for name, array in new.items() if not np.array_equal(array, old[name])}
    assert changed == {name for name in new if name.startswith("lstm.1")}
    with pytest.raises(InputError, match="compute is 'bfloat16'; a biLM from joint training supports only float32"):
        load(tmp_path / "run", device="cpu", compute="bfloat16")


def test_a_bilm_is_fine_tuned_on_the_text_of_the_task_first(data, tmp_path):
    longer = tmp_path / "longer.conll"
    longer.write_text(f"{data['ner'].read_text()}\n" * 40)
    events = train_small("ner", tmp_path / "run", longer, elmo__training="fine-tuned", training__epochs=1)
    tuned, read = [str(event) for event in events if isinstance(event, Message)]
    assert tuned.startswith("fine-tuned tiny-random on 160 sentences of the task: perplexity ")
    assert read == "the biLM encodes all sentences once; their layers are cached for training"
    card = json.loads((tmp_path / "run/model/task.json").read_text())
    inside = load(tmp_path / "run", device="cpu").assembled.maker.layers
    assert inside is not None
    assert card["elmo"]["fingerprint"] != "78df9c4421b512263dab8fc0a158a81f9ce2d042c6e171be3a14f41e2ee94c6f"


def test_a_bilm_is_fine_tuned_on_whole_sentences_where_a_task_learns_from_phrases_too(data, tmp_path):
    trees = tmp_path / "trees.txt"
    trees.write_text("".join(data["sentiment"].read_text().replace("very", f"very{number}") for number in range(100)))
    short = {"training__epochs": 1, "training__batch_size": 100}
    tuned, opened, *_ = train_small("sentiment", tmp_path / "run", trees, elmo__training="fine-tuned", **short)
    assert str(tuned).startswith("fine-tuned tiny-random on 200 sentences of the task: perplexity ")
    assert isinstance(opened, TaskConfigured)
    assert opened.train > 200


def test_a_run_with_a_fine_tuned_bilm_goes_on_without_tuning_it_again(data, tmp_path):
    longer = tmp_path / "longer.conll"
    longer.write_text(f"{data['ner'].read_text()}\n" * 40)
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"], "elmo.training": "fine-tuned", "training.epochs": 2}
    events = train("ner", tmp_path / "run", train=longer, dev=longer, recipe=recipe, device="cpu")
    for event in events:
        if isinstance(event, Evaluated):
            events.stop()
    assert isinstance(event, Stopped)
    again = list(train("ner", tmp_path / "run", train=longer, dev=longer, resume=True, device="cpu"))
    assert not [event for event in again if str(event).startswith("fine-tuned")]
    assert isinstance(again[-1], TaskFinished)
    # The biLM is on disk once, inside of the model, where the run finds it if its model is to be written again.
    assert not (tmp_path / "run" / "fine-tuning").exists()
    whole = digests(tmp_path / "run")
    again = list(train("ner", tmp_path / "run", train=longer, dev=longer, resume=True, device="cpu"))
    assert not [event for event in again if str(event).startswith("fine-tun")]
    assert isinstance(again[-1], TaskFinished)
    assert digests(tmp_path / "run") == whole


def test_a_run_that_is_stopped_while_its_bilm_is_tuned_goes_on_as_if_it_had_not_been(data, tmp_path, monkeypatch):
    longer = tmp_path / "longer.conll"
    longer.write_text(f"{data['ner'].read_text()}\n" * 40)
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"], "elmo.training": "fine-tuned", "training.epochs": 1}
    recipe["elmo.fine_tuning_epochs"] = 60.0

    def new_run(name):
        return train("ner", tmp_path / name, train=longer, dev=longer, recipe=recipe, device="cpu")

    assert isinstance(list(new_run("whole"))[-1], TaskFinished)
    monkeypatch.setattr("elmore.tasks.inputs.bilm.SECONDS_BETWEEN_OUTPUTS", 0.0)
    events = new_run("stopped")
    told = []
    for event in events:
        told.append(str(event))
        events.stop()
    assert isinstance(event, Stopped)
    assert all(line.startswith("fine-tuning tiny-random") for line in told[:-1])
    assert not (tmp_path / "stopped" / "model").exists()
    again = list(train("ner", tmp_path / "stopped", train=longer, dev=longer, resume=True, device="cpu"))
    assert isinstance(again[-1], TaskFinished)
    assert digests(tmp_path / "stopped") == digests(tmp_path / "whole")


def test_a_run_that_is_stopped_while_elmo_reads_ahead_keeps_what_was_read(data, tmp_path, monkeypatch):
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"]}
    given = {"train": data["ner"], "dev": data["ner"], "cache": tmp_path / "cache", "device": "cpu"}
    monkeypatch.setattr("elmore.tasks.inputs.layer_cache.TOKENS_PER_PART", 1)
    events = train("ner", tmp_path / "run", recipe=recipe, **given)
    events.stop()
    assert isinstance(list(events)[-1], Stopped)
    parts = set((tmp_path / "cache").glob("*/*/vectors.npy"))
    assert len(parts) == 1
    assert isinstance(list(train("ner", tmp_path / "run", resume=True, **given))[-1], TaskFinished)
    assert len(set((tmp_path / "cache").glob("*/*/vectors.npy"))) > 2
    assert all(part.exists() for part in parts)


@pytest.mark.parametrize("name", ["log.jsonl", "model", "cache", "fine-tuning", "mix.png"])
def test_what_lies_where_a_run_would_write_is_kept(name, data, tmp_path):
    own = tmp_path / "run" / name / "mine.txt" if "." not in name else tmp_path / "run" / name
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    with pytest.raises(InputError, match=f"run: contains {name}, and a run would replace it; choose another folder"):
        train_small("ner", tmp_path / "run", data["ner"], training__epochs=1)
    assert own.read_text() == "mine"


@pytest.mark.parametrize("wrong", [{"elmo.model": "nobody"}, {"words.vectors": "nowhere.txt"}])
def test_a_training_that_cannot_begin_leaves_no_run_behind(data, tmp_path, wrong):
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"], **wrong}
    with pytest.raises(NotFound):
        list(train("ner", tmp_path / "run", train=data["ner"], dev=data["ner"], recipe=recipe, device="cpu"))
    assert not (tmp_path / "run" / "recipe.json").exists()


def test_word_vectors_of_a_file_may_stay_as_they_are(data, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("john 1 0\nparis 0 1\nrare 0.5 0.5\n")
    train_small(
        "ner",
        tmp_path / "run",
        data["ner"],
        words__vectors=str(vectors),
        words__trained=False,
        words__min_count=1,
        training__epochs=2,
    )
    table = load(tmp_path / "run", device="cpu").assembled.embedder.words
    assert table is not None
    assert table.given.tolist() == [[1, 0], [0, 1], [0.5, 0.5]]
    words = (tmp_path / "run/model/words.txt").read_text().split()
    assert words[-3:] == ["john", "paris", "rare"]
    assert "mary" in words[:-3]


def test_what_does_not_fit_is_refused_in_one_sentence(data, runs, tmp_path):
    with pytest.raises(InputError, match="already contains a run; resume it with --resume"):
        list(train("ner", runs["ner"], train=data["ner"], dev=data["ner"]))
    for another in ("pos", "srl"):
        with pytest.raises(InputError, match=f"contains a run of the task ner, not {another}"):
            list(train(another, runs["ner"], train=data[another], dev=data[another], resume=True))
    other = tmp_path / "other.conll"
    other.write_text("Ann\tB-PER\n")
    with pytest.raises(InputError, match="the --train data differs from the data of this run"):
        list(train("ner", runs["ner"], train=other, dev=data["ner"], resume=True))
    for other_recipe in ({"training.seed": 9}, {"base": "ner", "training.seed": 9}):
        with pytest.raises(
            InputError, match=r"[a-z.]+ is .*, but the recipe of the resumed run has .*; remove the option"
        ):
            list(train("ner", runs["ner"], train=data["ner"], dev=data["ner"], recipe=other_recipe, resume=True))
    with pytest.raises(InputError, match="no run to resume"):
        list(train("ner", tmp_path / "none", train=data["ner"], dev=data["ner"], resume=True))
    with pytest.raises(InputError, match="there is no task 'names'; choose one of ner, "):
        train("names", tmp_path / "none", train=data["ner"], dev=data["ner"])
    with pytest.raises(NotFound, match="a task model is a folder written by a finished elmore train"):
        load(tmp_path)
    with pytest.raises(InputError, match="is not the biLM that this model was trained with, tiny-random"):
        load(runs["ner"], elmo="elmore-en")
    unseen = tmp_path / "unseen.conll"
    unseen.write_text("Ann\tB-ROBOT\n")
    with pytest.raises(InputError, match=r"unseen.conll, line 1: no label of this data \(ROBOT\) is in the training"):
        load(runs["ner"], device="cpu").evaluate(unseen)
    with pytest.raises(
        InputError, match=r"line 1, character 1: 'John\\tB-PER' .* \(the model requires data of the task sentiment\)"
    ):
        load(runs["sentiment"], device="cpu").evaluate(data["ner"])


def test_a_model_without_elmo_takes_no_bilm(data, tmp_path):
    train_small("pos", tmp_path / "run", data["pos"], elmo__where="none", training__epochs=1)
    with pytest.raises(InputError, match="the model has no ELMo and cannot use the biLM tiny-random"):
        load(tmp_path / "run", elmo="tiny-random", device="cpu")


def test_what_is_left_out_is_told_in_training_and_in_scoring(tmp_path):
    trees = tmp_path / "trees.txt"
    trees.write_text("(3 (2 It) (4 works))\n(1 (2 It) (0 fails))\n(2 (2 It) (2 is))\n")
    opened, *_ = train_small("sentiment", tmp_path / "run", trees, task__binary=True, training__epochs=1)
    assert isinstance(opened, TaskConfigured)
    assert opened.notices == ("train: 5 neutral phrases left out", "dev: 1 neutral phrase left out")
    assert load(tmp_path / "run", device="cpu").evaluate(trees).notices == ("1 neutral phrase left out",)


def test_a_larger_share_of_the_examples_holds_a_smaller_one():
    examples = list(range(100))
    small, large = sampled(examples, 0.1, seed=3), sampled(examples, 0.3, seed=3)
    assert (len(small), len(large)) == (10, 30)
    assert set(small) < set(large)
    assert sampled(examples, 0.1, seed=4) != small
    assert sampled(examples, 0.001, seed=3) == sampled(examples, 0.01, seed=3)


def test_progress_is_told_with_time_left(data, tmp_path):
    events = train_small("pos", tmp_path / "run", data["pos"], training__epochs=2)
    assert any(isinstance(event, Progressed) and "left" in str(event) for event in events)


def test_an_epoch_of_little_data_is_as_long_as_the_recipe_says(data, tmp_path):
    changes = {"training__min_epoch_steps": 7, "training__epochs": 2, "training__batch_size": 1}
    opened = train_small("ner", tmp_path, data["ner"], **changes)[0]
    # As often as are needed, all of them.
    epoch = opened.train * -(-7 // opened.train)
    assert epoch > opened.train
    scored = [entry["step"] for entry in read_log(tmp_path / "log.jsonl") if "heldout" in entry]
    assert scored == [epoch, 2 * epoch]


def test_task_outside_of_elmore_is_trained_and_loaded_by_its_object(tmp_path):
    task = replace(TASKS["ner"], name="people")
    data = write_data(tmp_path)["ner"]
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"], "training.epochs": 2}
    list(train(task, tmp_path / "run", train=data, dev=data, recipe=recipe, device="cpu"))
    with pytest.raises(InputError, match="the task 'people' is not one of Elmore's"):
        load(tmp_path / "run", device="cpu")
    with pytest.raises(InputError, match="the model is of the task 'people', not 'pos'"):
        load(tmp_path / "run", task=TASKS["pos"], device="cpu")
    assert load(tmp_path / "run", task=task, device="cpu").evaluate(data).metric == "F1"


def test_run_resumes_with_same_files_under_other_paths(tmp_path, monkeypatch):
    data = write_data(tmp_path)["ner"]
    monkeypatch.chdir(tmp_path)
    recipe = {**TRAINING, **WITH_ELMO, **SMALL["ner"], "training.epochs": 3}
    events = train("ner", "run", train=data.name, dev=data.name, recipe=recipe, device="cpu")
    for event in events:
        if isinstance(event, Evaluated):
            events.stop()
    again = list(train("ner", tmp_path / "run", train=data, dev=data, resume=True, device="cpu"))
    assert isinstance(again[-1], TaskFinished)


def test_model_of_a_sample_has_labels_of_the_sample_only(data, tmp_path):
    more = tmp_path / "more.conll"
    more.write_text(data["ner"].read_text() + "\nUN\tB-ORG\nmet\tO\n")
    # Of five sentences the seed draws one with a person and a place.
    train_small("ner", tmp_path / "run", more, training__fraction=0.2, training__epochs=1, training__seed=3)
    assert load(tmp_path / "run", device="cpu").card.labels["kinds"] == ["LOC", "PER"]
