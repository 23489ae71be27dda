"""The softmax of a language model in NumPy: the probability of a word after a hidden state.

Always the full softmax over all classes. Only training compares a word with a sample of the others.

N positions, P vector size, V classes.
"""

import numpy as np
from numpy.typing import NDArray

from elmore.engine.array_checks import check_array, check_indices

Array = NDArray[np.float32]

POSITIONS_AT_ONCE = 1024
# Scores are computed for a block of classes at a time, small enough for the cache of a CPU.
LOGITS_AT_ONCE = 2**20


class NumpySoftmax:
    """float32 by NumPy."""

    def __init__(self, weight: Array, bias: Array) -> None:
        check_array("softmax.weight", weight, (None, None), np.float32)
        check_array("softmax.bias", bias, (len(weight),), np.float32)
        self._weight = weight  # (V, P)
        self._bias = bias  # (V,)

    def log_probabilities(self, hidden: Array, classes: NDArray[np.int64]) -> Array:  # (N, P), (N,) -> (N,)
        """The natural logarithm of the probability of one class at each position."""
        check_array("hidden", hidden, (len(classes), self._weight.shape[1]), np.float32)
        check_indices("classes", classes, len(self._bias))
        result = np.empty(len(hidden), dtype=np.float32)
        for first in range(0, len(hidden), POSITIONS_AT_ONCE):
            some = slice(first, first + POSITIONS_AT_ONCE)
            scores = np.einsum("np,np->n", hidden[some], self._weight[classes[some]]) + self._bias[classes[some]]
            result[some] = scores - self._log_total(hidden[some])
        return result

    def log_distribution(self, hidden: Array) -> Array:  # (P,) -> (V,)
        """The natural logarithms of the probabilities of all classes at one position."""
        scores = self._weight @ hidden + self._bias
        return np.asarray(scores - _log_sum_exp(scores[None])[0])

    def _log_total(self, hidden: Array) -> Array:  # (n, P) -> (n,)
        """The logarithm of the sum of the exponentials of all scores."""
        block = max(LOGITS_AT_ONCE // max(len(hidden), 1), 1)
        totals = []
        for first in range(0, len(self._bias), block):
            classes = slice(first, first + block)
            totals.append(_log_sum_exp(hidden @ self._weight[classes].T + self._bias[classes]))
        return _log_sum_exp(np.stack(totals, axis=1))


def _log_sum_exp(scores: Array) -> Array:  # (n, V) -> (n,)
    highest = scores.max(axis=1)
    total = np.exp(scores - highest[:, None]).sum(axis=1)
    return np.asarray(highest + np.log(total))
