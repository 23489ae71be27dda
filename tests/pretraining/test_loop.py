"""The loop goes through all updates, says what happened, and goes on after a stop as if there had been none."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from elmore.pretraining.loop import Update, train
from elmore.training.schedule import rate_at
from small_training import TRAINING, small_stepper, small_windows

DROPPING = replace(TRAINING, dropout=0.3, warmup=3, final_rate=0.1)


def parameters(stepper) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in stepper.model.parameters()]


def test_updates_are_numbered_from_one_and_follow_the_schedule():
    updates = list(train(small_stepper(DROPPING), small_windows(DROPPING), done=0, until=6, updates=6))
    assert [update.number for update in updates] == [1, 2, 3, 4, 5, 6]
    expected = [rate_at(n, peak=0.02, updates=6, warmup=3, final_share=0.1) for n in range(6)]
    assert [update.rate for update in updates] == expected
    assert all(update.finite and len(update.losses) == 2 for update in updates)
    assert updates[0].loss == sum(updates[0].losses) / 2


def test_an_update_is_finite_only_if_loss_and_norm_are():
    assert Update(1, (1.0, 2.0), 3.0, 0.1).finite
    assert not Update(1, (1.0, math.nan), 3.0, 0.1).finite
    assert not Update(1, (1.0, 2.0), math.inf, 0.1).finite


def test_the_same_seed_trains_the_same_bits_and_another_does_not():
    def run(seed: int) -> list[Update]:
        training = replace(DROPPING, seed=seed)
        return list(train(small_stepper(training), small_windows(training), done=0, until=4, updates=4))

    # Whatever was drawn before must not matter.
    first = run(1)
    torch.rand(7)
    assert run(1) == first
    assert run(2) != first


@pytest.mark.parametrize("training", [DROPPING, replace(DROPPING, accumulate=2, optimizer="adagrad")])
def test_a_run_in_two_parts_is_a_run_in_one(training):
    windows = small_windows(training)
    whole, parted = small_stepper(training), small_stepper(training)
    through = list(train(whole, windows, done=0, until=8, updates=8))
    first = list(train(parted, windows, done=0, until=3, updates=8))
    kept = copy.deepcopy(parted)
    assert first + list(train(parted, windows, done=3, until=8, updates=8)) == through
    assert list(train(kept, windows, done=3, until=8, updates=8)) == through[3:]
    assert all(torch.equal(a, b) for a, b in zip(parameters(whole), parameters(parted), strict=True))


def test_windows_that_are_skipped_are_never_read():
    windows = small_windows()
    whole, skipping = small_stepper(), small_stepper()
    skipped = list(train(skipping, windows, done=0, until=5, updates=5, skipped={0, 1, 4}))
    assert [update.number for update in skipped] == [3, 4]
    expected = list(train(whole, windows, done=2, until=4, updates=5))
    assert skipped == expected
    assert all(torch.equal(a, b) for a, b in zip(parameters(whole), parameters(skipping), strict=True))


def test_of_accumulated_windows_only_the_skipped_is_left_out():
    training = replace(TRAINING, accumulate=2)
    windows = small_windows(training)
    skipping, by_hand = small_stepper(training), small_stepper(training)
    (update,) = train(skipping, windows, done=1, until=2, updates=2, skipped={3})
    outcome = by_hand.step([windows[2]], training.learning_rate)
    assert update.losses == tuple(outcome.losses.tolist())


def test_each_process_drops_out_its_own():
    windows = small_windows(DROPPING)
    first, second = (
        next(train(small_stepper(DROPPING), windows, done=0, until=1, updates=1, rank=rank)) for rank in (0, 1)
    )
    assert first != second


def test_the_loop_puts_the_model_into_training_after_an_evaluation():
    stepper = small_stepper(DROPPING)
    stepper.model.eval()
    again = next(train(stepper, small_windows(DROPPING), done=0, until=1, updates=1))
    assert stepper.model.training
    assert again == next(train(small_stepper(DROPPING), small_windows(DROPPING), done=0, until=1, updates=1))
