"""Negatives for the sampled softmax: distinct classes, frequent ones more often.

Classes stand by falling frequency, and class k is drawn with probability log((k + 2) / (k + 1)) / log(V + 1). Drawing
goes on until enough distinct classes are found; from the number of tries follows how often a class was to be expected.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.errors import InputError
from elmore.text.vocabulary import log_uniform_probabilities


class Negatives(NamedTuple):
    """Classes drawn for one window."""

    classes: NDArray[np.int64]  # (n,) distinct
    tries: int  # how many draws it took


class LogUniformSampler:
    """Draws distinct classes out of `classes`.

    >>> sampler = LogUniformSampler(classes=1000, num_sampled=10)
    >>> drawn = sampler.draw([1, 0])
    >>> len(set(drawn.classes.tolist())), drawn.tries >= 10
    (10, True)
    """

    def __init__(self, *, classes: int, num_sampled: int) -> None:
        if not 1 <= num_sampled <= classes // 2:
            raise InputError(
                f"{num_sampled} negatives cannot be drawn from a vocabulary of {classes} words; draw at most half of "
                f"them, --training.negatives {classes // 2}, or take the full softmax, --training.negatives 0"
            )
        self.classes = classes
        self.num_sampled = num_sampled
        self.probabilities = log_uniform_probabilities(classes)

    def draw(self, seed: Sequence[int]) -> Negatives:
        """Draw anew; the same seed gives the same classes."""
        random = np.random.default_rng(seed)
        drawn = np.empty(0, dtype=np.int64)
        while True:
            more = np.exp(random.random(4 * self.num_sampled) * np.log(self.classes + 1.0)).astype(np.int64) - 1
            drawn = np.concatenate([drawn, np.clip(more, 0, self.classes - 1)])
            fresh = np.flatnonzero(self._first_times(drawn))
            if len(fresh) >= self.num_sampled:
                chosen = fresh[: self.num_sampled]
                return Negatives(drawn[chosen], tries=int(chosen[-1]) + 1)

    def _first_times(self, drawn: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the draws were the first of their class."""
        order = np.arange(len(drawn))
        first = np.empty(self.classes, dtype=np.int64)
        # Written from last to first, so that the first is what stays.
        first[drawn[::-1]] = order[::-1]
        firsts: NDArray[np.bool_] = first[drawn] == order
        return firsts


def log_expected_counts(probabilities: Tensor, tries: int | Tensor) -> Tensor:
    """(V,) log(1 - (1 - p)^tries): how often, so to speak, each class was to be expected among the distinct.

    `tries` may be a tensor, so that nobody has to wait for a GPU to know it.
    """
    return (-torch.expm1(tries * torch.log1p(-probabilities))).log()
