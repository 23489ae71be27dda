"""Steps follow one another, say what happened, and go on after a stop as if there had been none."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import dropout

from elmore.pretraining.distributed import ProcessGroup
from elmore.pretraining.schedule import learning_rate_at
from elmore.training.memory import training_state_bytes
from elmore.training.trainable import Step
from small_training import TRAINING, small_language_model_training

DROPPING = replace(TRAINING, dropout=0.3, warmup_steps=3, final_rate=0.1, steps=6)


def parameters(training) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in training.model.parameters()]


def test_steps_are_numbered_from_one_and_follow_the_schedule():
    steps = list(small_language_model_training(DROPPING).train(0, 6))
    assert [step.number for step in steps] == [1, 2, 3, 4, 5, 6]
    expected = [learning_rate_at(n, peak=0.02, steps=6, warmup_steps=3, final_rate=0.1) for n in range(6)]
    assert [step.learning_rate for step in steps] == expected
    assert all(step.is_finite and len(step.losses) == 2 for step in steps)
    assert steps[0].loss == sum(steps[0].losses) / 2


def test_a_step_is_finite_only_if_loss_and_norm_are():
    assert Step(1, (1.0, 2.0), 3.0, 0.1).is_finite
    assert not Step(1, (1.0, math.nan), 3.0, 0.1).is_finite
    assert not Step(1, (1.0, 2.0), math.inf, 0.1).is_finite


def test_the_same_seed_trains_the_same_bits_and_another_does_not():
    def run(seed: int) -> list[Step]:
        return list(small_language_model_training(replace(DROPPING, seed=seed)).train(0, 4))

    # Whatever was drawn before must not matter.
    first = run(1)
    torch.rand(7)
    assert run(1) == first
    assert run(2) != first


@pytest.mark.parametrize("training", [DROPPING, replace(DROPPING, gradient_accumulation=2, optimizer="adagrad")])
def test_a_run_in_two_parts_is_a_run_in_one(training):
    whole, parted = small_language_model_training(training), small_language_model_training(training)
    through = list(whole.train(0, 6))
    first = list(parted.train(0, 3))
    kept = copy.deepcopy(parted)
    assert first + list(parted.train(3, 6)) == through
    assert list(kept.train(3, 6)) == through[3:]
    assert all(torch.equal(a, b) for a, b in zip(parameters(whole), parameters(parted), strict=True))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_steps_that_are_skipped_are_never_taken_and_their_windows_never_read(accumulate):
    training = replace(TRAINING, gradient_accumulation=accumulate)
    whole, skipping = small_language_model_training(training), small_language_model_training(training)
    skipped = list(skipping.train(0, 5, skipped={1, 2, 5}))
    assert [step.number for step in skipped] == [3, 4]
    assert skipped == list(whole.train(2, 4))
    assert all(torch.equal(a, b) for a, b in zip(parameters(whole), parameters(skipping), strict=True))


def test_a_share_of_the_rate_is_a_share_of_every_rate():
    whole, halved = small_language_model_training(DROPPING), small_language_model_training(DROPPING)
    rates = [
        [step.learning_rate for step in training.train(0, 6, lr_scale=share)]
        for training, share in ((whole, 1.0), (halved, 0.5))
    ]
    assert rates[1] == pytest.approx([rate / 2 for rate in rates[0]])


def test_each_phase_has_a_schedule_of_its_own():
    training = small_language_model_training(replace(DROPPING, frozen_steps=3, steps=5, warmup_steps=1, final_rate=0.1))
    rates = [[step.learning_rate for step in training.train(*phase)] for phase in ((0, 3), (3, 8))]
    for found in rates:
        assert found[0] == pytest.approx(DROPPING.learning_rate)  # one step of rising, and at once the peak
        assert found[-1] == pytest.approx(0.1 * DROPPING.learning_rate)
    assert [len(found) for found in rates] == [3, 5]


def test_rows_carry_their_state_into_the_next_phase():
    ending, going_on = (small_language_model_training(replace(TRAINING, frozen_steps=steps)) for steps in (2, 4))
    for training in (ending, going_on):
        list(training.train(0, 2))
    assert ending.stepper.state.c.any()
    assert torch.equal(ending.stepper.state.h, going_on.stepper.state.h)
    assert torch.equal(ending.stepper.state.c, going_on.stepper.state.c)


def masks(monkeypatch, training, first: int, last: int) -> list[list[tuple[bool, ...]]]:
    """What dropout leaves of the inputs of every layer and of the output, step by step."""
    drawn: list[tuple[bool, ...]] = []

    def recording(x: torch.Tensor, share: float) -> torch.Tensor:
        kept = dropout(torch.ones_like(x), share)
        drawn.append(tuple((kept != 0).flatten().tolist()))
        return x * kept

    for where in ("bilm", "language_model"):
        monkeypatch.setattr(f"elmore.nn.{where}.drop_out", recording)
    steps = []
    for _ in training.train(first, last):
        steps.append(list(drawn))
        drawn.clear()
    return steps


def test_every_step_and_every_process_draws_its_own_dropout(monkeypatch):
    first, second = masks(monkeypatch, small_language_model_training(DROPPING), 0, 2)
    assert all(a != b for a, b in zip(first, second, strict=True))
    # The same step draws the same again, wherever a run begins.
    assert masks(monkeypatch, small_language_model_training(DROPPING), 1, 2) == [second]
    # With all rows, as if it were alone, so that only what is drawn differs.
    other = small_language_model_training(DROPPING)
    other.world = ProcessGroup(1, 2)
    (elsewhere,) = masks(monkeypatch, other, 0, 1)
    assert all(a != b for a, b in zip(first, elsewhere, strict=True))
    # A layer does not drop what another does, and about as much as asked.
    assert len(set(first)) == len(first)
    assert sum(map(sum, first)) / sum(map(len, first)) == pytest.approx(0.7, abs=0.03)


def test_a_model_is_put_into_training_after_an_evaluation():
    evaluated = small_language_model_training(DROPPING)
    assert evaluated.evaluate() is not None
    assert not evaluated.model.training
    again = next(evaluated.train(0, 1))
    assert evaluated.model.training
    assert again == next(small_language_model_training(DROPPING).train(0, 1))


def test_what_is_captured_brings_another_training_to_the_same_place():
    whole, other = small_language_model_training(DROPPING), small_language_model_training(DROPPING)
    list(whole.train(0, 3))
    tensors = {name: tensor.clone() for name, tensor in whole.state_dict().items()}
    list(other.train(0, 1))
    other.load_state_dict(tensors, done=3)
    assert list(other.train(3, 6)) == list(whole.train(3, 6))


def test_perplexities_are_called_sampled_only_where_they_are():
    step = Step(1, (math.log(8.0), math.log(2.0)), 1.0, 0.1)
    sampled, full = small_language_model_training(), small_language_model_training(replace(TRAINING, negatives=0))
    expected = {"forward": pytest.approx(8.0), "backward": pytest.approx(2.0)}
    assert sampled.metrics(step) == {"sampled_perplexities": expected}
    assert full.metrics(step) == {"perplexities": expected}


def test_the_memory_told_is_that_of_the_training_whatever_the_process_held_before():
    pytest.importorskip("resource", reason="the system must tell the peak of a process")
    ballast = torch.zeros(2**26)  # 256 MiB, so that the peak lies far above all that the training needs
    del ballast
    training = small_language_model_training()
    list(training.train(0, 1))
    held = training_state_bytes(training.model, training.stepper.optimizers)
    assert training.memory_bytes() == held
    # Parameters and gradients, and two moments of each parameter for Adam: at least four numbers of four bytes.
    assert held >= 16 * sum(parameter.numel() for parameter in training.model.parameters())
