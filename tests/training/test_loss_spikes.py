"""A leap of the loss is noticed; scatter and slow change are not taken for one."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.training.loss_spikes import SMALLEST_SPIKE, STEPS_BEFORE, LossSpikeDetector


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 0.3))
@settings(max_examples=30, deadline=None)
def test_a_falling_loss_that_scatters_never_leaps(seed: int, scatter: float) -> None:
    chance = random.Random(seed)
    detector = LossSpikeDetector()
    losses = ([10 / (1 + n / 100) + chance.gauss(0, scatter), 4 + chance.gauss(0, scatter)] for n in range(1000))
    assert not any(detector.is_spike(pair) for pair in losses)


def test_a_leap_of_either_direction_is_noticed_and_does_not_count_for_the_mean() -> None:
    detector = LossSpikeDetector()
    for _ in range(STEPS_BEFORE):
        assert not detector.is_spike([3.4, 3.5])
    for _ in range(5):
        assert detector.is_spike([3.4, 3.5 + SMALLEST_SPIKE + 0.1])
        assert detector.is_spike([3.4 + SMALLEST_SPIKE + 0.1, 3.5])
    assert not detector.is_spike([3.4, 3.5 + SMALLEST_SPIKE - 0.1])


def test_where_losses_scatter_a_leap_lies_as_far_above_them() -> None:
    """Half a nat up or down each time: ten deviations are some five nats, where a quiet loss leaps by 1.5."""
    detector = LossSpikeDetector()
    losses = [3.0 + 0.5 * (-1) ** n for n in range(3 * STEPS_BEFORE)]
    assert not any(detector.is_spike([loss]) for loss in losses)
    assert detector.is_spike([3.0 + 5.5])
    assert not detector.is_spike([3.0 + 4.5])


def test_in_the_first_steps_nothing_is_a_leap() -> None:
    assert not LossSpikeDetector().is_spike([1.0])
    detector = LossSpikeDetector()
    assert not any(detector.is_spike([float(n)]) for n in range(STEPS_BEFORE))
