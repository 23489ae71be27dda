"""Spearman's rank correlation: whether what is ranked higher by people is ranked higher by a model."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError
from elmore.tasks.metrics.score import Score


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """From -1 to 1: Pearson's correlation of the ranks, where equal values share the mean of their ranks.

    0 where one side has but one value, and so no order.

    >>> rank_correlation([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    """
    if len(first) != len(second):
        raise InputError(f"there are {len(first)} values on one side, and {len(second)} on the other")
    one, other = (ranks(values) - (len(values) + 1) / 2 for values in (first, second))
    spread = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / spread if spread else 0.0


def ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """The rank of each value, the smallest 1; equal ones share the mean of their ranks.

    >>> ranks([0.5, 2.0, 0.5, -1.0]).tolist()
    [2.5, 4.0, 2.5, 1.0]
    """
    _, places, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)  # the rank of the last of the equal ones
    means: NDArray[np.float64] = (last - (counts - 1) / 2)[places]
    return means


def rank_score(gold: Sequence[float], predicted: Sequence[float]) -> Score:
    """Spearman's correlation in per cent, as it is mostly reported."""
    value = 100 * rank_correlation(gold, predicted)
    return Score("Spearman", value, {"gold": float(len(gold))}, f"Spearman: {value:.2f} over {len(gold):,} pairs")
