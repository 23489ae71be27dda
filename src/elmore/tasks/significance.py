"""Whether the difference between two models' scores on the same examples may be chance, and how far it may be off.

A score is one of counts that are summed over examples (`CountScore`). For F1, and for accuracy, where a model predicts
as much as there is to find, as a tag for every token, it is

    score = 100 * 2 * correct / (gold + found)

The test is approximate randomization (Noreen, 1989): if two models were alike, what they say of an example could be
swapped without anybody noticing, so it is swapped, for every example by the toss of a coin, and the score differs at
least as much as it does in truth in a share p of all tosses.

The interval is that of the bootstrap (Efron, 1979): other test sets of the same kind are made by drawing as many
examples from this one, with repetition, and in 95 of 100 the value lies between its ends.

N examples, C counts of each, R shuffles or draws.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

SHUFFLES = 10_000
DRAWS = 1_000
AT_ONCE = 500  # of both; bounds the memory
ENDS = (2.5, 97.5)  # of an interval, in per cent of the draws
_ROUNDING = 1e-9  # of scores up to 100: those that are the same in truth may differ by so much

SummedCounts = NDArray[np.float64]  # (..., C)
CountScore = Callable[[SummedCounts], NDArray[np.float64]]  # (..., C) to (...)


def f1_of_counts(sums: SummedCounts) -> NDArray[np.float64]:
    """The score of sums of gold, found and correct.

    >>> float(f1_of_counts(np.array([2.0, 2.0, 1.0])))
    50.0
    """
    above, below = 200 * sums[..., 2], sums[..., 0] + sums[..., 1]
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def score_of(counts: NDArray[Any], score: CountScore = f1_of_counts) -> float:
    """The score of examples, each with its counts, (N, C), together.

    >>> score_of(np.array([[2, 1, 1], [0, 1, 0]]))  # gold, found, correct
    50.0
    """
    return float(score(counts.sum(axis=0, dtype=np.float64)))


def randomization_test(
    first: NDArray[Any],
    second: NDArray[Any],
    score: CountScore = f1_of_counts,
    *,
    shuffles: int = SHUFFLES,
    seed: int = 1,
) -> float:
    """The two-sided p-value of the difference between two models' counts, (N, C) each, of the same examples.

    Counts of several trainings of a model are to be added up before, example by example: what they say of an example
    is not independent, and is swapped as one. The true order counts as one of the shuffles, so p is never 0.

    >>> good, bad = np.array([[1, 1, 1]] * 20), np.array([[1, 1, 1]] * 10 + [[1, 1, 0]] * 10)
    >>> randomization_test(good, bad) < 0.01, randomization_test(good, good)
    (True, 1.0)
    """
    sums = first.sum(axis=0, dtype=np.float64), second.sum(axis=0, dtype=np.float64)
    differences = first.astype(np.float64) - second
    # Examples on which the models agree change nothing when they are swapped.
    differences = differences[differences.any(axis=1)]
    found = abs(score(sums[0]) - score(sums[1]))
    generator = np.random.default_rng(seed)
    as_large = 0
    for rows in _portions(shuffles):
        swapped = generator.integers(0, 2, size=(rows, len(differences)), dtype=np.int8)
        moved = swapped.astype(np.float64) @ differences  # (R, C)
        shuffled = np.abs(score(sums[0] - moved) - score(sums[1] + moved))
        as_large += int((shuffled >= found - _ROUNDING).sum())
    return (as_large + 1) / (shuffles + 1)


def bootstrap_interval(
    first: NDArray[Any],
    second: NDArray[Any] | None = None,
    score: CountScore = f1_of_counts,
    *,
    draws: int = DRAWS,
    seed: int = 1,
) -> tuple[float, float]:
    """Between which values a model's score lies in 95 of 100 draws; with a second model, how much the first is better.

    >>> good = np.array([[1, 1, 1]] * 80 + [[1, 1, 0]] * 20)
    >>> bootstrap_interval(good), bootstrap_interval(good, good)
    ((71.0, 87.0), (0.0, 0.0))
    """
    number = len(first)
    generator = np.random.default_rng(seed)
    values = []
    for rows in _portions(draws):
        places = generator.integers(0, number, size=(rows, number)) + number * np.arange(rows)[:, None]
        times = np.bincount(places.ravel(), minlength=rows * number).reshape(rows, number).astype(np.float64)
        drawn = score(times @ first)
        values.append(drawn if second is None else drawn - score(times @ second))
    low, high = np.percentile(np.concatenate(values), ENDS).tolist()
    return low, high


def _portions(number: int) -> Iterator[int]:
    for start in range(0, number, AT_ONCE):
        yield min(AT_ONCE, number - start)
