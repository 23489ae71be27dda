"""Negatives are distinct, follow the log-uniform law, and come with the counts that were to be expected."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError
from elmore.pretraining.windows import LogUniformSampler, log_expected_counts
from reference.strategies import patiently


def law(classes: int) -> np.ndarray:
    """P(k) = log((k + 2) / (k + 1)) / log(V + 1)."""
    return np.array([np.log((k + 2) / (k + 1)) / np.log(classes + 1) for k in range(classes)])


def expected_counts(sampler: LogUniformSampler, tries: int) -> np.ndarray:
    return log_expected_counts(torch.from_numpy(sampler.probabilities), tries).exp().numpy()


def test_the_law_is_log_uniform_and_sums_to_one():
    probabilities = LogUniformSampler(classes=50, num_sampled=3).probabilities
    assert probabilities == pytest.approx(law(50))
    assert probabilities.sum() == pytest.approx(1.0)


@patiently
@given(st.integers(2, 300).flatmap(lambda classes: st.tuples(st.just(classes), st.integers(1, classes // 2))))
def test_a_draw_has_as_many_distinct_classes_as_asked_for(shape):
    classes, number = shape
    drawn = LogUniformSampler(classes=classes, num_sampled=number).sample([1, number])
    assert len(drawn.classes) == len(np.unique(drawn.classes)) == number
    assert drawn.classes.min() >= 0
    assert drawn.classes.max() < classes
    assert drawn.tries >= number


def test_the_same_seed_draws_the_same_and_another_draws_another():
    sampler = LogUniformSampler(classes=1000, num_sampled=20)
    assert sampler.sample([4, 7]).classes.tolist() == sampler.sample([4, 7]).classes.tolist()
    assert sampler.sample([4, 7]).tries == sampler.sample([4, 7]).tries
    assert sampler.sample([4, 7]).classes.tolist() != sampler.sample([4, 8]).classes.tolist()
    assert sampler.sample([4, 7]).classes.tolist() != sampler.sample([5, 7]).classes.tolist()


def test_single_draws_follow_the_law():
    classes, draws = 20, 6000
    sampler = LogUniformSampler(classes=classes, num_sampled=1)
    found = np.bincount([sampler.sample([9, n]).classes[0] for n in range(draws)], minlength=classes)
    expected = draws * law(classes)
    # Chi-square with 19 degrees of freedom: above 43.8 once in a thousand times, if the law is right.
    assert ((found - expected) ** 2 / expected).sum() < 43.8


def test_expected_counts_are_how_often_a_class_is_among_the_distinct():
    classes, number, times = 40, 12, 4000
    sampler = LogUniformSampler(classes=classes, num_sampled=number)
    found, expected = np.zeros(classes), np.zeros(classes)
    for n in range(times):
        drawn = sampler.sample([11, n])
        found[drawn.classes] += 1 / times
        expected += expected_counts(sampler, drawn.tries) / times
    # The counts take the number of tries for given, which it is not quite: hence no closer than this.
    assert found == pytest.approx(expected, abs=0.03)
    assert found.sum() == pytest.approx(number)


def test_tries_are_counted_up_to_the_draw_that_completed_the_sample():
    """Against a plain loop over the very same stream of random numbers."""
    sampler = LogUniformSampler(classes=30, num_sampled=15)
    for seed in range(20):
        random = np.random.default_rng([seed])
        stream = (np.exp(random.random(5000) * np.log(31)).astype(int) - 1).tolist()
        seen: list[int] = []
        tries = 0
        while len(seen) < 15:
            tries += 1
            if stream[tries - 1] not in seen:
                seen.append(stream[tries - 1])
        drawn = sampler.sample([seed])
        assert drawn.classes.tolist() == seen
        assert drawn.tries == tries


def test_expected_counts_are_tensorflows(fixtures: Path):
    stored = np.load(fixtures / "training" / "sampled_softmax.npz")
    sampler = LogUniformSampler(classes=len(stored["b"]), num_sampled=len(stored["sampled"]))
    counts = expected_counts(sampler, 21)
    assert counts[stored["sampled"]] == pytest.approx(stored["sampled_expected_count"], rel=1e-5)
    assert counts[stored["targets"].ravel()] == pytest.approx(stored["target_expected_count"].ravel(), rel=1e-5)


@pytest.mark.parametrize(("classes", "number"), [(10, 6), (10, 0), (1, 1)])
def test_more_than_half_of_the_classes_are_refused(classes, number):
    way_out = f"--training.negatives {classes // 2}, or"
    with pytest.raises(InputError, match=f"{number} negatives cannot .* of {classes} words; .* {way_out}"):
        LogUniformSampler(classes=classes, num_sampled=number)
