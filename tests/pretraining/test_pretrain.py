"""A run goes through to its model, whatever happens on the way."""

import json
import math
import shutil
from itertools import islice

import pytest
import torch
from safetensors.torch import load_file

from elmore import load, prepare
from elmore.errors import CannotExpress, InputError, InputWarning
from elmore.nn.bilm import StateTensors
from elmore.nn.devices import to_tensors
from elmore.nn.language_model import LanguageModel
from elmore.nn.word_encoder import WordIdTensors
from elmore.pretraining.heldout_perplexity import MAX_ROWS
from elmore.pretraining.initial_model import with_word_table
from elmore.pretraining.pretrain import PretrainingConfigured, PretrainingFinished, pretrain
from elmore.pretraining.stepping import Stepper, StepResult
from elmore.pretraining.windows import WindowPlan, Windows
from elmore.training.events import Evaluated, Progressed, RolledBack, Started, Stopped
from elmore.training.loop import MAX_ROLLBACKS, TrainingFailed
from small_runs import assert_same_weights, losses, of_kind, small_recipe, small_run

STEPS = 17


@pytest.fixture(scope="module")
def recipe():
    # With dropout and a state that is carried on, so that going on has something to get wrong.
    return small_recipe(**{"training.steps": STEPS, "training.dropout": 0.2})


@pytest.fixture(scope="module")
def whole(corpus, recipe, tmp_path_factory):
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, list(small_run(corpus, folder, recipe))


def poisoned(monkeypatch, numbers):
    """Have these windows spoil the model and give no finite loss, as an overflow would."""
    healthy = Stepper.step

    def step(self, windows, rate):
        result = healthy(self, windows, rate)
        if numbers is None or any(window.number in numbers for window in windows):
            self.model.softmax_bias.data.fill_(math.nan)
            return StepResult(result.losses * math.nan, result.gradient_norm)
        return result

    monkeypatch.setattr(Stepper, "step", step)


def rates(folder):
    entries = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return {entry["step"]: entry["learning_rate"] for entry in entries if "learning_rate" in entry}


def test_before_the_first_step_it_says_what_is_trained_on_what(corpus, whole):
    opened, start, *_ = whole[1]
    assert isinstance(opened, PretrainingConfigured)
    assert (opened.tokens, opened.types) == (corpus.manifest.parts["train"].tokens, 23)
    assert opened.softmax_parameters == 9 * len(corpus.vocabulary)
    assert (opened.is_sampled, opened.frozen_steps) == (True, 0)
    assert start == Started(STEPS, 0, STEPS * 20 / ((len(corpus.train) - 1) // 20 * 20), 1)


def test_every_logged_step_has_its_number_and_loss(whole):
    folder, events = whole
    assert list(losses(folder)) == list(range(1, STEPS + 1))
    told = {event.step.number: event.step.loss for event in of_kind(Progressed, events)}
    assert told == losses(folder)


def test_the_finished_model_loads_and_its_card_says_how_it_was_made(whole):
    *_, last = whole[1]
    assert isinstance(last, PretrainingFinished)
    model = load(last.model)
    facts = model.card.extra["training"]
    assert (facts["steps"], facts["words_read"]) == (STEPS, STEPS * 4 * 5)
    assert facts["heldout_perplexity"]["each"] == last.heldout.parts
    assert facts["corpus"]["parts"]["train"]["unknown_share"] == 0
    assert facts["recipe"]["training"]["seed"] == 1
    assert model.softmax is not None


@torch.no_grad()
def test_the_heldout_perplexity_is_that_of_the_written_model_by_the_full_softmax(corpus, whole):
    (evaluated,) = of_kind(Evaluated, whole[1])
    written = load(whole[0] / "model")
    model = LanguageModel(written.config, classes=len(corpus.vocabulary)).eval()
    model.network.load_state_dict(to_tensors(written.checkpoint.float_arrays()))
    for name, tensor in written.softmax().items():
        getattr(model, f"softmax_{name}").copy_(torch.from_numpy(tensor))
    rows = (len(corpus.heldout) - 1) // 5
    windows = Windows(corpus.heldout, corpus.classes, WindowPlan(batch_size=rows, length=5))
    words = WordIdTensors.of(written.word_indexer.index([corpus.types[number] for number in windows[0].types]))
    inputs, targets = torch.from_numpy(windows[0].inputs), torch.from_numpy(windows[0].targets)
    # Rows of one window each, so that all of it is one; without candidates all words are predicted.
    losses, _ = model(words, inputs, targets, StateTensors.zeros(written.config, rows=rows))
    assert rows <= MAX_ROWS
    assert windows.per_epoch == 1
    assert evaluated.evaluation.parts == pytest.approx(
        dict(zip(("forward", "backward"), losses.exp().tolist(), strict=True)), rel=1e-5
    )
    assert evaluated.evaluation.score == pytest.approx(losses.mean().exp().item(), rel=1e-5)


@pytest.mark.parametrize("stop_after", [1, 4, 5, 8])
def test_a_run_that_was_stopped_goes_on_with_the_same_losses(corpus, recipe, whole, tmp_path, stop_after):
    for event in small_run(corpus, tmp_path / "run", recipe):
        if isinstance(event, Progressed) and event.step.number == stop_after:
            break
    events = list(small_run(corpus, tmp_path / "run", resume=True))
    assert events[1].done == (stop_after - 1) // 5 * 5
    assert losses(tmp_path / "run") == losses(whole[0])


def test_asked_to_stop_it_saves_where_it_is(corpus, recipe, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("elmore.training.loop.SECONDS_BETWEEN_PAUSES", 0.0)
    run = small_run(corpus, tmp_path / "run", recipe)
    for event in run:
        if isinstance(event, Progressed) and event.step.number == 7:
            run.stop()
    assert event == Stopped(7)
    events = list(small_run(corpus, tmp_path / "run", resume=True))
    assert events[1].done == 7
    assert losses(tmp_path / "run") == losses(whole[0])


def test_a_checkpoint_cut_short_is_passed_over_for_the_one_before(corpus, recipe, whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / f"step-{STEPS:08d}" / "tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.warns(InputWarning, match=f"step-{STEPS:08d}: skipped"):
        events = list(small_run(corpus, tmp_path / "run", resume=True))
    assert events[1].done == 15
    assert losses(tmp_path / "run") == losses(whole[0])


def test_a_finished_run_only_writes_its_model_again(corpus, recipe, whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    events = list(small_run(corpus, tmp_path / "run", resume=True, hdf5=True))
    assert [type(event) for event in events] == [PretrainingConfigured, Started, PretrainingFinished]
    assert events[-1].heldout == whole[1][-1].heldout
    assert load(tmp_path / "run" / "model").fingerprint() == load(whole[0] / "model").fingerprint()
    assert_same_weights(load(tmp_path / "run" / "hdf5"), load(whole[0] / "model"))
    assert losses(tmp_path / "run") == losses(whole[0])


def test_after_a_loss_that_is_not_finite_it_goes_back_and_leaves_that_step_out(
    corpus, recipe, whole, tmp_path, monkeypatch
):
    poisoned(monkeypatch, {7})
    events = list(small_run(corpus, tmp_path / "run", recipe))
    assert of_kind(RolledBack, events) == [RolledBack(8, 5, 1.0)]
    found, without = losses(tmp_path / "run"), losses(whole[0])
    assert found.keys() == without.keys() - {8}
    assert all(found[number] == without[number] for number in range(1, 8))
    assert all(math.isfinite(loss) for loss in found.values())
    assert json.loads((tmp_path / "run/model/card.json").read_text())["extra"]["training"]["skipped_steps"] == [8]


def test_after_a_leap_it_goes_back_and_goes_on_with_half_the_rate(corpus, recipe, whole, tmp_path, monkeypatch):
    calls = 0

    def spikes_once(_self, _losses) -> bool:
        nonlocal calls
        calls += 1
        return calls == 8

    monkeypatch.setattr("elmore.pretraining.language_model_training.LossSpikeDetector.is_spike", spikes_once)
    events = list(small_run(corpus, tmp_path / "run", recipe))
    assert of_kind(RolledBack, events) == [RolledBack(8, 5, 0.5)]

    found, usual = rates(tmp_path / "run"), rates(whole[0])
    assert all(found[number] == usual[number] for number in range(1, 6))
    assert all(found[number] == pytest.approx(usual[number] / 2) for number in range(9, STEPS + 1))


def test_it_stops_when_the_loss_stays_not_finite_and_its_checkpoint_is_good(corpus, recipe, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        poisoned(patch, set(range(6, 100)))
        run = small_run(corpus, tmp_path / "run", recipe)
        events = []
        with pytest.raises(TrainingFailed, match=r"4th time; the checkpoint of step 5 is good\..*learning_rate"):
            events.extend(run)
    newest = load_file(tmp_path / "run" / "checkpoints" / "step-00000005" / "tensors.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in newest.values())
    assert isinstance(list(small_run(corpus, tmp_path / "run", resume=True))[-1], PretrainingFinished)


def test_it_stops_even_if_a_checkpoint_follows_every_step_left_out(corpus, recipe, tmp_path, monkeypatch):
    poisoned(monkeypatch, set(range(100)))
    events = []
    with pytest.raises(TrainingFailed):
        events.extend(small_run(corpus, tmp_path / "run", recipe, checkpoint_every=1))
    assert len(of_kind(RolledBack, events)) == MAX_ROLLBACKS


def test_a_format_that_cannot_hold_the_model_is_refused_before_the_work(corpus, tmp_path):
    for direction in ("forward", "backward"):
        with pytest.raises(CannotExpress, match="a single direction"):
            next(small_run(corpus, tmp_path / "run", small_recipe(**{"model.directions": direction}), hdf5=True))
    assert not (tmp_path / "run").exists()


def test_less_than_one_step_is_refused(corpus, tmp_path):
    with pytest.raises(InputError, match="less than one step"):
        next(small_run(corpus, tmp_path / "run", small_recipe(**{"training.epochs": 1e-6})))


def test_epochs_are_counted_from_the_corpus(corpus, tmp_path):
    _, started = islice(small_run(corpus, tmp_path / "run", small_recipe(**{"training.epochs": 2})), 2)
    assert started.steps == 2 * ((len(corpus.train) - 1) // 20)


# Measured once; the frequencies of the words alone give 19.06, and a throw of dice 26.
PERPLEXITIES = [
    ({}, 8.57),
    ({"model.directions": "forward"}, 14.29),
    ({"model.directions": "backward"}, 11.28),
    ({"model.lstm_layers": 1}, 7.51),
    ({"model.skip_connections": "false"}, 19.21),
    ({"model.cell_clip": "false"}, 8.57),
    ({"training.negatives": 0}, 4.88),
    ({"training.gradient_accumulation": 2}, 6.83),
    ({"training.optimizer": "adagrad", "training.learning_rate": 0.3}, 20.80),
    ({"training.precision": "bfloat16"}, 8.93),
]


@pytest.mark.parametrize(("changes", "perplexity"), PERPLEXITIES, ids=str)
def test_the_ablations_and_every_way_of_training_learn_as_much_as_they_did(corpus, tmp_path, changes, perplexity):
    recipe = small_recipe(
        **{"training.steps": 60, "training.batch_size": 16, "training.learning_rate": 0.05, **changes}
    )
    *_, last = small_run(corpus, tmp_path / "run", recipe, checkpoint_every=100)
    # Other sums in another order, over 60 steps, make less of a difference than this.
    assert last.heldout.score == pytest.approx(perplexity, rel=0.03)
    assert load(tmp_path / "run" / "model").config == recipe.model


def test_words_can_be_read_instead_of_characters(corpus, tmp_path):
    recipe = with_word_table(small_recipe(**{"training.steps": 12}), corpus)
    list(small_run(corpus, tmp_path / "run", recipe, hdf5=True))
    model = load(tmp_path / "run" / "model")
    assert model.config.characters is None
    assert model.checkpoint.tensors["words.table"].shape == (len(corpus.vocabulary), 8)
    assert_same_weights(load(tmp_path / "run" / "hdf5"), model)


def test_a_run_that_goes_on_keeps_its_settings_unless_they_are_given_again(corpus, recipe, tmp_path):
    folder = tmp_path / "run"
    for event in small_run(
        corpus, folder, recipe, log_every=2, checkpoint_every=3, keep=4, evaluate_every=6, hdf5=True
    ):
        if isinstance(event, Progressed) and event.step.number == 4:
            break
    *_, last = small_run(corpus, folder, resume=True, keep=3)
    assert last.hdf5 == folder / "hdf5"
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in entries if "loss" in entry] == [2, 4, 6, 8, 10, 12, 14, 16, 17]
    assert [entry["step"] for entry in entries if "heldout" in entry] == [6, 12, 17]
    assert sorted(path.name for path in (folder / "checkpoints").iterdir()) == [f"step-{n:08d}" for n in (12, 15, 17)]
    settings = json.loads((folder / "settings.json").read_text())
    assert settings == {
        "log_every": 2,
        "checkpoint_every": 3,
        "checkpoint_seconds": 0.0,
        "evaluate_every": 6,
        "keep": 3,
        "tensorboard": False,
        "hdf5": True,
    }


def test_a_run_that_goes_on_still_leaves_out_what_went_wrong_and_keeps_its_slower_rate(
    corpus, recipe, whole, tmp_path, monkeypatch
):
    calls = 0

    def spikes_once(_self, _losses) -> bool:
        nonlocal calls
        calls += 1
        return calls == 8

    with monkeypatch.context() as patch:
        patch.setattr("elmore.pretraining.language_model_training.LossSpikeDetector.is_spike", spikes_once)
        run = small_run(corpus, tmp_path / "run", recipe)
        for event in run:
            if isinstance(event, RolledBack):
                run.stop()
    # Before the step that is left out, so that a run without that memory would take it.
    assert event == Stopped(5)
    list(small_run(corpus, tmp_path / "run", resume=True))
    found, usual = rates(tmp_path / "run"), rates(whole[0])
    assert found.keys() == usual.keys() - {8}
    assert [found[n] / usual[n] for n in found] == pytest.approx([1.0] * 5 + [0.5] * 11)
    facts = load(tmp_path / "run" / "model").card.extra["training"]
    assert (facts["skipped_steps"], facts["lr_scale"]) == ([8], 0.5)


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ("tiny", {}, "keeps its model and its recipe"),
        ({"training.batch_size": 8}, {}, "training.batch_size cannot be changed in a resumed run"),
        (None, {"log_evry": 3}, "unknown field log_evry; known are log_every"),
        (None, {"keep": 0}, "keep is 0; it must be a whole number, at least 1"),
    ],
)
def test_what_a_run_that_goes_on_cannot_do_is_refused(corpus, whole, changes, settings, message):
    with pytest.raises(InputError, match=message):
        next(pretrain(corpus, whole[0], changes, resume=True, settings=settings, device="cpu"))


def test_single_fields_are_changed_by_a_mapping(corpus, whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "run")
    longer = {"training.steps": STEPS + 2, "training.learning_rate": 0.001}
    _, started, *_ = pretrain(corpus.path, tmp_path / "run", longer, resume=True, device="cpu")
    assert (started.done, started.steps) == (STEPS, STEPS + 2)
    assert list(losses(tmp_path / "run")) == list(range(1, STEPS + 3))


def test_a_corpus_too_small_for_the_recipe_is_trained_at_once_and_that_is_told(corpus, tmp_path):
    tiny = {"base": "tiny", "model.cell_dim": 16, "model.vector_dim": 8, "training.steps": 1}
    opened, *_ = pretrain(corpus, tmp_path / "run", tiny, device="cpu")
    assert not opened.is_sampled
    assert opened.notices == (
        "the vocabulary of 26 words is too small for 1,024 negatives; the full softmax is trained",
    )
    with pytest.raises(InputError, match="1024 negatives cannot be drawn"):
        next(pretrain(corpus, tmp_path / "new", {**tiny, "training.negatives": 1024}, device="cpu"))


WORDS_21 = "the quick brown fox jumps over a lazy dog while seven small birds sing in old green trees near us all"


@pytest.mark.filterwarnings("ignore:the input is one document")
@pytest.mark.parametrize(
    ("name", "text", "types"),
    [
        ("words.txt", WORDS_21, 21),
        ("protein.fasta", ">one\nACDEFGHIKLMNPQRSTVWYXBZUO\n", 25),
    ],
)
def test_21_words_or_25_residues_need_no_flag(tmp_path, name, text, types):
    (tmp_path / name).write_text(text)
    corpus = prepare([tmp_path / name], tmp_path / "corpus", workers=1)
    events = pretrain(corpus, tmp_path / "run", "tiny", settings={"log_every": 1}, device="cpu")
    opened, *_, progressed = islice(events, 4)
    assert opened.types == types
    assert not opened.is_sampled
    assert len(opened.notices) == 2
    assert opened.notices[1].endswith("too short for 32 rows of 20; training.batch_size is 1")
    assert isinstance(progressed, Progressed)
    assert math.isfinite(progressed.step.loss)
