"""Spearman's correlation is that of the ranks, equal values sharing theirs."""

import math

import numpy as np
import pytest

from elmore.errors import InputError
from elmore.tasks.metrics.scores import Spearman, ranks
from elmore.tasks.metrics.scores import rank_correlation as correlation_of_arrays

rank_score = Spearman(gold=float, predicted=float).score


def rank_correlation(first: list[float], second: list[float]) -> float:
    return float(correlation_of_arrays(np.array(first, float), np.array(second, float)))


def test_equal_values_share_the_mean_of_their_ranks():
    # By hand: 1 is the first; the two 2s are second and third; the three 7s fourth to sixth.
    assert ranks(np.array([7, 2, 1, 7, 2, 7])).tolist() == [5, 2.5, 1, 5, 2.5, 5]


def test_without_ties_it_is_one_minus_six_times_the_squared_differences():
    # By hand: ranks 1 2 3 4 5 and 2 1 4 3 5; differences squared sum to 4; 1 - 6 * 4 / (5 * 24).
    assert rank_correlation([1, 10, 100, 1000, 10000], [0.2, 0.1, 0.4, 0.3, 0.5]) == pytest.approx(0.8)
    assert rank_correlation([1, 2, 3], [-1, -2, -3]) == pytest.approx(-1)


def test_with_ties_it_is_pearsons_correlation_of_the_shared_ranks():
    # By hand: ranks 1 2.5 2.5 4 and 1 2 3.5 3.5; about their mean of 2.5 they are -1.5 0 0 1.5 and -1.5 -0.5 1 1; the
    # products sum to 3.75, the squares to 4.5 and 4.5.
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 3]) == pytest.approx(3.75 / 4.5)


def test_where_there_is_no_order_there_is_no_correlation():
    assert rank_correlation([1, 1, 1], [1, 2, 3]) == 0
    assert rank_correlation([], []) == 0


def test_it_does_not_change_with_the_scale_of_a_side():
    draw = np.random.default_rng(1)
    first, second = draw.normal(size=50), draw.normal(size=50)
    assert rank_correlation(list(first), list(second)) == pytest.approx(
        rank_correlation([math.exp(value) for value in first], list(3 * second))
    )


def test_a_score_is_in_per_cent_and_says_over_how_many_pairs():
    score = rank_score([1, 2, 3, 4], [1, 2, 4, 3])
    assert (score.metric, score.value, score.parts) == ("Spearman", pytest.approx(80), {"gold": 4})
    assert score.table == "Spearman: 80.00 over 4 pairs"


def test_sides_of_unlike_length_are_refused():
    with pytest.raises(InputError, match="there are 2 gold values, but 1 predicted values"):
        rank_score([1, 2], [1])


def test_ranks_of_many_rows_are_those_of_each_row():
    rows = np.random.default_rng(1).integers(0, 5, (4, 3, 12))
    assert ranks(rows).tolist() == [[ranks(row).tolist() for row in group] for group in rows]
