"""The learning rate rises in a straight line and falls along a cosine."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.training.learning_rate import learning_rate_at
from reference.strategies import patiently


def test_the_rate_rises_evenly_to_its_peak():
    rates = [learning_rate_at(n, peak=0.8, steps=100, warmup_steps=4, final_rate=0.1) for n in range(5)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8])


def test_after_that_it_falls_along_half_a_cosine_to_its_share():
    # 11 steps after 10 of warm-up: the angle moves on by a tenth of pi in each.
    rates = [learning_rate_at(n, peak=2.0, steps=21, warmup_steps=10, final_rate=0.5) for n in range(10, 21)]
    assert rates == pytest.approx([1.0 + 0.5 * (1 + math.cos(math.pi * k / 10)) for k in range(11)])
    assert rates[-1] == pytest.approx(1.0)


def test_a_share_of_one_keeps_it_constant():
    assert {learning_rate_at(n, peak=0.2, steps=50, warmup_steps=0, final_rate=1.0) for n in range(60)} == {0.2}


@patiently
@given(st.integers(1, 300), st.integers(0, 300), st.floats(0, 1))
def test_it_is_never_above_the_peak_nor_at_nothing_before_the_end(steps, warmup_steps, share):
    rates = [
        learning_rate_at(n, peak=1.0, steps=steps, warmup_steps=warmup_steps, final_rate=share) for n in range(steps)
    ]
    assert all(0 < rate <= 1 + 1e-12 for rate in rates[:-1])
    assert rates[-1] >= 0
    falling = rates[warmup_steps:]
    assert falling == sorted(falling, reverse=True)
