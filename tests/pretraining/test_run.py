"""A run goes through to its model, whatever happens on the way."""

import json
import math
import shutil

import pytest
import torch

from elmore import load
from elmore.errors import CannotExpress, InputError, InputWarning
from elmore.pretraining.events import Evaluated, Finished, Progressed, RolledBack, Started, Stopped
from elmore.pretraining.run import MOST_ROLLBACKS, TrainingFailed
from elmore.pretraining.run_folder import RunFolder
from elmore.pretraining.stepping import Outcome, Stepper
from small_runs import losses, of_kind, small_recipe, small_run

UPDATES = 17


@pytest.fixture(scope="module")
def recipe():
    # With dropout and a state that is carried on, so that going on has something to get wrong.
    return small_recipe(**{"training.steps": UPDATES, "training.dropout": 0.2})


@pytest.fixture(scope="module")
def whole(corpus, recipe, tmp_path_factory):
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return folder, list(small_run(corpus, folder, recipe).events())


def poisoned(monkeypatch, numbers):
    """Have these windows spoil the model and give no finite loss, as an overflow would."""
    healthy = Stepper.step

    def step(self, windows, rate):
        outcome = healthy(self, windows, rate)
        if numbers is None or any(window.number in numbers for window in windows):
            self.model.softmax_bias.data.fill_(math.nan)
            return Outcome(outcome.losses * math.nan, outcome.norm)
        return outcome

    monkeypatch.setattr(Stepper, "step", step)


def test_before_the_first_update_it_says_what_it_will_take(corpus, whole):
    start = whole[1][0]
    assert isinstance(start, Started)
    assert (start.tokens, start.types) == (corpus.manifest["parts"]["train"]["tokens"], 23)
    assert start.softmax_parameters == 9 * len(corpus.vocabulary)
    assert 2**26 < start.memory < 2**35
    assert (start.updates, start.done, start.sampled) == (UPDATES, 0, True)


def test_the_estimate_is_about_the_time_it_takes(corpus, tmp_path):
    run = small_run(corpus, tmp_path / "run", small_recipe(**{"training.steps": 150}), checkpoint_every=1000)
    start = next(iter(run.events()))
    # Once more from its checkpoint: an interrupted run starts again with the estimate.
    again = small_run(corpus, tmp_path / "run", small_recipe(**{"training.steps": 150}), checkpoint_every=1000)
    list(again.events())
    assert again.seconds / 4 < start.seconds < again.seconds * 4


def test_the_trial_updates_behind_the_estimate_leave_no_trace(corpus, recipe, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("elmore.pretraining.run.seconds_per_update", lambda *_, **__: 0.01)
    list(small_run(corpus, tmp_path / "run", recipe).events())
    assert losses(tmp_path / "run") == losses(whole[0])


def test_every_logged_step_has_its_number_and_loss(whole):
    folder, events = whole
    assert list(losses(folder)) == list(range(1, UPDATES + 1))
    told = {event.update.number: event.update.loss for event in of_kind(Progressed, events)}
    assert told == losses(folder)


def test_the_finished_model_loads_and_its_card_says_how_it_was_made(whole):
    *_, last = whole[1]
    assert isinstance(last, Finished)
    model = load(last.model)
    facts = model.card.extra["training"]
    assert (facts["updates"], facts["words_read"]) == (UPDATES, UPDATES * 4 * 5)
    assert facts["heldout_perplexity"]["each"] == last.held_out.perplexities
    assert facts["corpus"]["parts"]["train"]["unknown_share"] == 0
    assert facts["recipe"]["training"]["seed"] == 1
    assert model.softmax is not None


def test_held_out_perplexity_is_that_of_the_full_softmax(corpus, whole):
    (evaluated,) = of_kind(Evaluated, whole[1])
    # An untrained softmax over all words, sampled or not, is about as good as none.
    assert evaluated.held_out.mean > len(corpus.vocabulary) / 2
    assert list(evaluated.held_out.perplexities) == ["forward", "backward"]


@pytest.mark.parametrize("stop_after", [1, 4, 5, 8])
def test_a_run_that_was_stopped_goes_on_with_the_same_losses(corpus, recipe, whole, tmp_path, stop_after):
    for event in small_run(corpus, tmp_path / "run", recipe).events():
        if isinstance(event, Progressed) and event.update.number == stop_after:
            break
    events = list(small_run(corpus, tmp_path / "run", recipe).events())
    assert events[0].done == (stop_after - 1) // 5 * 5
    assert losses(tmp_path / "run") == losses(whole[0])


def test_asked_to_stop_it_saves_where_it_is(corpus, recipe, whole, tmp_path, monkeypatch):
    monkeypatch.setattr("elmore.pretraining.run.SECONDS_TO_STOP", 0.0)
    run = small_run(corpus, tmp_path / "run", recipe)
    for event in run.events():
        if isinstance(event, Progressed) and event.update.number == 7:
            run.stop()
    assert event == Stopped(7)
    events = list(small_run(corpus, tmp_path / "run", recipe).events())
    assert events[0].done == 7
    assert losses(tmp_path / "run") == losses(whole[0])


def test_a_checkpoint_cut_short_is_passed_over_for_the_one_before(corpus, recipe, whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "run")
    newest = tmp_path / "run" / "checkpoints" / f"step-{UPDATES:08d}" / "tensors.safetensors"
    newest.write_bytes(newest.read_bytes()[:1000])
    with pytest.warns(InputWarning, match=f"step-{UPDATES:08d}: passed over"):
        events = list(small_run(corpus, tmp_path / "run", recipe).events())
    assert events[0].done == 15
    assert losses(tmp_path / "run") == losses(whole[0])


def test_a_finished_run_only_writes_its_model_again(corpus, recipe, whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    events = list(small_run(corpus, tmp_path / "run", recipe, hdf5=True).events())
    assert [type(event) for event in events] == [Started, Finished]
    assert events[1].held_out == whole[1][-1].held_out
    assert load(tmp_path / "run" / "model").fingerprint() == load(whole[0] / "model").fingerprint()
    assert load(tmp_path / "run" / "hdf5").fingerprint() == load(whole[0] / "model").fingerprint()
    assert losses(tmp_path / "run") == losses(whole[0])


def test_after_a_loss_that_is_not_finite_it_goes_back_and_leaves_that_window_out(
    corpus, recipe, whole, tmp_path, monkeypatch
):
    poisoned(monkeypatch, {7})
    events = list(small_run(corpus, tmp_path / "run", recipe).events())
    assert of_kind(RolledBack, events) == [RolledBack(8, 5, 1.0)]
    found, without = losses(tmp_path / "run"), losses(whole[0])
    assert found.keys() == without.keys() - {8}
    assert all(found[number] == without[number] for number in range(1, 8))
    assert all(math.isfinite(loss) for loss in found.values())
    assert json.loads((tmp_path / "run/model/card.json").read_text())["extra"]["training"]["skipped_windows"] == [7]


def test_after_a_leap_it_goes_back_and_goes_on_with_half_the_rate(corpus, recipe, whole, tmp_path, monkeypatch):
    calls = 0

    def leaps_once(_self, _losses) -> bool:
        nonlocal calls
        calls += 1
        return calls == 8

    monkeypatch.setattr("elmore.pretraining.run.LossWatch.leaps", leaps_once)
    events = list(small_run(corpus, tmp_path / "run", recipe).events())
    assert of_kind(RolledBack, events) == [RolledBack(8, 5, 0.5)]

    def rates(folder):
        entries = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
        return {entry["step"]: entry["rate"] for entry in entries if "rate" in entry}

    found, usual = rates(tmp_path / "run"), rates(whole[0])
    assert all(found[number] == usual[number] for number in range(1, 6))
    assert all(found[number] == pytest.approx(usual[number] / 2) for number in range(9, UPDATES + 1))


def test_it_stops_when_the_loss_stays_not_finite_and_its_checkpoint_is_good(corpus, recipe, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        poisoned(patch, set(range(6, 100)))
        run = small_run(corpus, tmp_path / "run", recipe)
        events = []
        with pytest.raises(TrainingFailed, match=r"4th time; the checkpoint of update 5 is good\..*learning_rate"):
            events.extend(run.events())
    assert all(torch.isfinite(parameter).all() for parameter in run.model.parameters())
    assert isinstance(list(small_run(corpus, tmp_path / "run", recipe).events())[-1], Finished)


def test_it_stops_even_if_a_checkpoint_follows_every_window_left_out(corpus, recipe, tmp_path, monkeypatch):
    poisoned(monkeypatch, set(range(100)))
    events = []
    with pytest.raises(TrainingFailed):
        events.extend(small_run(corpus, tmp_path / "run", recipe, checkpoint_every=1).events())
    assert len(of_kind(RolledBack, events)) == MOST_ROLLBACKS


def test_a_format_that_cannot_hold_the_model_is_refused_before_the_work(corpus, tmp_path):
    for direction in ("forward", "backward"):
        with pytest.raises(CannotExpress, match="a single direction"):
            small_run(corpus, tmp_path / "run", small_recipe(**{"model.reads": direction}), hdf5=True)


def test_less_than_one_update_is_refused(corpus, tmp_path):
    with pytest.raises(InputError, match="less than one update"):
        small_run(corpus, tmp_path / "run", small_recipe(**{"training.epochs": 1e-6}))


def test_epochs_are_counted_from_the_corpus(corpus, tmp_path):
    run = small_run(corpus, tmp_path / "run", small_recipe(**{"training.epochs": 2}))
    assert run.updates == 2 * ((len(corpus.train) - 1) // 20)


@pytest.mark.parametrize(
    "changes",
    [
        {"model.reads": "forward"},
        {"model.reads": "backward"},
        {"model.lstm_layers": 1},
        {"model.skip_connections": "false"},
        {"model.cell_clip": "false"},
        {"training.negatives": 0},
        {"training.accumulate": 2},
        {"training.optimizer": "adagrad", "training.learning_rate": 0.3},
        {"training.precision": "bfloat16"},
    ],
    ids=str,
)
def test_the_ablations_and_every_way_of_training_learn_something(corpus, tmp_path, changes):
    recipe = small_recipe(**{"training.steps": 60, "training.rows": 16, "training.learning_rate": 0.05, **changes})
    *_, last = small_run(corpus, tmp_path / "run", recipe, checkpoint_every=100).events()
    # Who has learnt nothing is no better than a throw of dice among all words.
    assert last.held_out.mean < len(corpus.vocabulary) * 0.85
    assert load(tmp_path / "run" / "model").config == recipe.model


def test_words_can_be_read_instead_of_characters(corpus, tmp_path):
    from elmore.pretraining.beginning import reading_words

    recipe = reading_words(small_recipe(**{"training.steps": 12}), corpus)
    list(small_run(corpus, tmp_path / "run", recipe, hdf5=True).events())
    model = load(tmp_path / "run" / "model")
    assert model.config.characters is None
    assert model.network.words.table.shape == (len(corpus.vocabulary), 8)
    assert load(tmp_path / "run" / "hdf5").fingerprint() == model.fingerprint()


def test_a_folder_remembers_what_the_run_was_started_with(corpus, recipe, tmp_path):
    from elmore.pretraining.run_folder import Origins, identity

    origins = Origins(corpus=identity(corpus), init={"name": "x"}, characters={"a": 1}, commands=("elmore pretrain",))
    folder = RunFolder(tmp_path / "new" / "run")
    folder.write(recipe, origins)
    assert folder.read() == (recipe, origins)
