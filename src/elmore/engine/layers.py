"""The layers h0..hL of packed sentences.

Layer 0 is the word vector, repeated for each direction, so that all layers have one size. Layer k is the output of LSTM
layer k of each direction, forward first.

K words, W rows of the table of word vectors, G directions, T steps, R rows, P vector size, dim = G * P.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmore.config import Direction
from elmore.engine.rows import PackedRows

Array = NDArray[np.float32]


class Layers:
    """The layers of all words, one sentence after another; boundaries are left out unless `boundaries` is true."""

    def __init__(
        self,
        rows: PackedRows,
        table: Array,  # (W, P)
        outputs: Sequence[Array],  # of each LSTM layer that ran (G, T, R, P)
        directions: Sequence[Direction],
        *,
        boundaries: bool = False,
    ) -> None:
        self._words = rows.words_with_boundaries() if boundaries else rows.words
        self._table = table
        self._outputs = outputs
        self._positions = [rows.positions(name, boundaries=boundaries) for name in directions] if outputs else []
        self._num_directions = len(directions)

    def __len__(self) -> int:
        return 1 + len(self._outputs)

    def layer(self, number: int) -> Array:
        """(K, dim) one layer."""
        size = self._table.shape[1]
        layer = np.empty((len(self._words), self._num_directions * size), dtype=np.float32)
        for direction in range(self._num_directions):
            part = layer[:, direction * size : (direction + 1) * size]
            if number == 0:
                part[:] = self._table[self._words]
            else:
                part[:] = self._outputs[number - 1][direction].reshape(-1, size)[self._positions[direction]]
        return layer

    def stack(self, numbers: Sequence[int], dtype: type[np.floating] = np.float32) -> NDArray[np.floating]:
        """(len(numbers), K, dim) several layers."""
        stacked = np.empty((len(numbers), len(self._words), self._num_directions * self._table.shape[1]), dtype=dtype)
        for place, number in enumerate(numbers):
            stacked[place] = self.layer(number)
        return stacked

    def average(self, numbers: Sequence[int], dtype: type[np.floating] = np.float32) -> NDArray[np.floating]:
        """(K, dim) the mean of several layers."""
        total = self.layer(numbers[0])
        for number in numbers[1:]:
            total += self.layer(number)
        if len(numbers) > 1:
            total /= np.float32(len(numbers))
        return total.astype(dtype, copy=False)
