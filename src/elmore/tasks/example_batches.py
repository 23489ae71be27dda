"""Which examples are read together, in each epoch another way, decided by seed and epoch alone."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

BATCHES_SORTED_TOGETHER = 20  # so many batches' worth of examples are sorted by length, which saves padding


class ExampleBatches:
    """The batches of every epoch, as numbers of examples.

    >>> batches = ExampleBatches([3, 1, 2, 5, 4], batch_size=2, seed=1)
    >>> sorted(number for batch in batches.epoch(0) for number in batch)
    [0, 1, 2, 3, 4]
    """

    def __init__(self, lengths: Sequence[int], *, batch_size: int, seed: int) -> None:
        self._lengths = np.array(lengths)
        self._size, self._seed = batch_size, seed
        self.per_epoch = -(-len(lengths) // batch_size)
        self.epoch = lru_cache(maxsize=2)(self._epoch)

    def batch(self, number: int) -> list[int]:
        """Batch `number` of the whole training, from 0."""
        epoch, place = divmod(number, self.per_epoch)
        return self.epoch(epoch)[place]

    def _epoch(self, number: int) -> list[list[int]]:
        draw = np.random.default_rng([self._seed, number])
        shuffled = draw.permutation(len(self._lengths))
        batches = []
        for start in range(0, len(shuffled), self._size * BATCHES_SORTED_TOGETHER):
            group = shuffled[start : start + self._size * BATCHES_SORTED_TOGETHER]
            alike = group[np.argsort(self._lengths[group], kind="stable")]
            batches += [alike[first : first + self._size].tolist() for first in range(0, len(alike), self._size)]
        # The last batch of the last group may be smaller; it comes at any time, as all do.
        return [batches[place] for place in draw.permutation(len(batches))]
