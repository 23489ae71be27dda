"""Learning rates, and the detection of loss spikes."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.pretraining.schedule import SMALLEST_SPIKE, STEPS_BEFORE, LossSpikeDetector, learning_rate_at
from reference.strategies import patiently


def test_learning_rate_warms_up_linearly():
    rates = [learning_rate_at(n, peak=0.8, steps=100, warmup_steps=4, final_rate=0.1) for n in range(5)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8])


def test_learning_rate_falls_by_cosine_to_final_rate():
    # 11 steps after 10 warmup steps: each adds pi / 10 to the angle.
    rates = [learning_rate_at(n, peak=2.0, steps=21, warmup_steps=10, final_rate=0.5) for n in range(10, 21)]
    assert rates == pytest.approx([1.0 + 0.5 * (1 + math.cos(math.pi * k / 10)) for k in range(11)])
    assert rates[-1] == pytest.approx(1.0)


def test_learning_rate_is_constant_with_final_rate_one():
    assert {learning_rate_at(n, peak=0.2, steps=50, warmup_steps=0, final_rate=1.0) for n in range(60)} == {0.2}


@patiently
@given(st.integers(1, 300), st.integers(0, 300), st.floats(0, 1))
def test_learning_rate_is_positive_and_at_most_the_peak(steps, warmup_steps, share):
    rates = [
        learning_rate_at(n, peak=1.0, steps=steps, warmup_steps=warmup_steps, final_rate=share) for n in range(steps)
    ]
    assert all(0 < rate <= 1 + 1e-12 for rate in rates[:-1])
    assert rates[-1] >= 0
    falling = rates[warmup_steps:]
    assert falling == sorted(falling, reverse=True)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.3))
@settings(max_examples=30, deadline=None)
def test_is_spike_ignores_noise_of_falling_loss(seed: int, scatter: float) -> None:
    chance = random.Random(seed)
    detector = LossSpikeDetector()
    losses = ([10 / (1 + n / 100) + chance.gauss(0, scatter), 4 + chance.gauss(0, scatter)] for n in range(1000))
    assert not any(detector.is_spike(pair) for pair in losses)


def test_is_spike_detects_either_direction_without_changing_mean() -> None:
    detector = LossSpikeDetector()
    for _ in range(STEPS_BEFORE):
        assert not detector.is_spike([3.4, 3.5])
    for _ in range(5):
        assert detector.is_spike([3.4, 3.5 + SMALLEST_SPIKE + 0.1])
        assert detector.is_spike([3.4 + SMALLEST_SPIKE + 0.1, 3.5])
    assert not detector.is_spike([3.4, 3.5 + SMALLEST_SPIKE - 0.1])


def test_is_spike_uses_deviation_of_losses() -> None:
    """The standard deviation is half a nat, so a spike is about five nats above the mean, instead of 1.5."""
    detector = LossSpikeDetector()
    losses = [3.0 + 0.5 * (-1) ** n for n in range(3 * STEPS_BEFORE)]
    assert not any(detector.is_spike([loss]) for loss in losses)
    assert detector.is_spike([3.0 + 5.5])
    assert not detector.is_spike([3.0 + 4.5])


def test_is_spike_is_false_in_first_steps() -> None:
    assert not LossSpikeDetector().is_spike([1.0])
    detector = LossSpikeDetector()
    assert not any(detector.is_spike([float(n)]) for n in range(STEPS_BEFORE))
