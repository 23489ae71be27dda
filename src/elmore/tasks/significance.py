"""Whether the difference between two models' scores on the same examples may be chance.

    score = 100 * 2 * correct / (gold + found)

Of counts that are summed over examples, this is F1; where a model predicts as much as there is to find, as a tag for
every token, it is accuracy. The test is approximate randomization (Noreen, 1989): if two models were alike, what they
say of an example could be swapped without anybody noticing, so it is swapped, for every example by the toss of a coin,
and the score differs at least as much as it does in truth in a share p of all tosses.

N examples, R shuffles.
"""

import numpy as np
from numpy.typing import NDArray

from elmore.tasks.metrics.score import Counts

SHUFFLES = 10_000
SHUFFLES_AT_ONCE = 500  # bounds the memory
_ROUNDING = 1e-9  # of scores up to 100: those that are the same in truth may differ by so much


def score_of(counts: NDArray[np.int64]) -> float:
    """The score of examples, each with its `Counts`, (N, 3), together.

    >>> score_of(np.array([Counts(gold=2, found=1, correct=1), Counts(gold=0, found=1, correct=0)]))
    50.0
    """
    return Counts(*counts.sum(axis=0).tolist()).f1


def p_value(first: NDArray[np.int64], second: NDArray[np.int64], *, shuffles: int = SHUFFLES, seed: int = 1) -> float:
    """The two-sided p-value of the difference between two models' counts, (N, 3) each, of the same examples.

    Counts of several trainings of a model are to be added up before, example by example: what they say of an example
    is not independent, and is swapped as one. The true order counts as one of the shuffles, so p is never 0.

    >>> good, bad = np.array([[1, 1, 1]] * 20), np.array([[1, 1, 1]] * 10 + [[1, 1, 0]] * 10)
    >>> p_value(good, bad) < 0.01, p_value(good, good)
    (True, 1.0)
    """
    sums = _ratio_parts(first).sum(axis=0), _ratio_parts(second).sum(axis=0)
    differences = _ratio_parts(first) - _ratio_parts(second)
    # Examples on which the models agree change nothing when they are swapped.
    differences = differences[differences.any(axis=1)]
    found = abs(_scores(sums[0]) - _scores(sums[1]))
    generator = np.random.default_rng(seed)
    as_large = 0
    for start in range(0, shuffles, SHUFFLES_AT_ONCE):
        rows = min(SHUFFLES_AT_ONCE, shuffles - start)
        swapped = generator.integers(0, 2, size=(rows, len(differences)), dtype=np.int8)
        moved = swapped.astype(np.float64) @ differences  # (R, 2)
        shuffled = np.abs(_scores(sums[0] - moved) - _scores(sums[1] + moved))
        as_large += int((shuffled >= found - _ROUNDING).sum())
    return (as_large + 1) / (shuffles + 1)


def _ratio_parts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N, 2) what stands above and below the line; whole numbers, which floats hold exactly."""
    return np.stack([2 * counts[:, 2], counts[:, 0] + counts[:, 1]], axis=1).astype(np.float64)


def _scores(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    above, below = parts[..., 0], parts[..., 1]
    return np.divide(100 * above, below, out=np.zeros_like(above), where=below > 0)
