"""The part that both CPU engines share: the stack of LSTM layers, and the interface of `Engine` in NumPy.

W words, K words of all sentences, G directions, T steps, R rows, P vector size, D cells, dim = G * P.
N positions of a softmax, V classes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.config import Direction, ModelConfig
from elmore.defaults import ComputeName
from elmore.engine.array_checks import check_array, check_indices, check_steps, check_word_ids
from elmore.engine.engine import PackSize
from elmore.engine.rows import PackedRows, RowSteps
from elmore.engine.state import State
from elmore.engine.threads import get_threads
from elmore.text.word_ids import WordIds

Array = NDArray[np.float32]

# About as many as a sentence has words; more steps take more memory and gain no speed.
STEPS_OF_A_ROW = 32
# Positions and scores of a softmax in one product: a block of classes is small enough for the cache of a CPU.
POSITIONS_AT_ONCE = 1024
LOGITS_AT_ONCE = 2**20


class HiddenState(NamedTuple):
    """The state of one layer."""

    h: Array  # (G, R, P) or (G, 1, P)
    c: Array  # (G, R, D) or (G, 1, D)


class CpuEngine(ABC):
    """See `Engine`."""

    name: str
    device = "cpu"
    word_group = 1024
    fixed_word_length = False
    is_asynchronous = False

    def __init__(self, config: ModelConfig, compute: ComputeName) -> None:
        self.config = config
        self.compute = compute

    @property
    def pack_size(self) -> PackSize:
        """Enough rows for all threads: the kernels run up to 64 rows of one direction in one thread."""
        rows = 64 * max(1, get_threads() // self.config.num_directions)
        return PackSize(rows=rows, tokens=STEPS_OF_A_ROW * rows)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(compute={self.compute!r}, dim={self.config.dim}, layers={self.config.num_layers})"
        )

    def encode_words(self, ids: WordIds) -> Array:
        """(W, P) the vectors of words."""
        check_word_ids(ids, self.config)
        return self._encode_words(ids)

    def fetch(self, array: Array) -> Callable[[], Array]:
        return lambda: array

    def concatenate(self, arrays: Sequence[Array]) -> Array:
        return np.concatenate(arrays, axis=-2)

    def new_table(self) -> "NumpyTable":
        return NumpyTable(self.config.vector_dim)

    def new_softmax(self, weight: Array, bias: Array) -> "NumpySoftmax":
        return NumpySoftmax(weight, bias)

    def run(
        self, table: Array, rows: PackedRows, state: State, *, depth: int | None = None, boundaries: bool = False
    ) -> tuple["Layers", State]:
        """See `Engine.run`."""
        directions = self.config.direction_names
        if depth == 0 or not rows.num_rows:
            return Layers(rows, table, [], directions, boundaries=boundaries), state
        outputs, after = self._run_layers(table, rows.steps(directions), state, depth)
        return Layers(rows, table, outputs, directions, boundaries=boundaries), after

    def run_steps(self, table: Array, steps: RowSteps, state: State) -> tuple[Array, State]:
        """See `Engine.run_steps`."""
        outputs, after = self._run_layers(table, steps, state, None)
        return outputs[-1], after

    @abstractmethod
    def _encode_words(self, ids: WordIds) -> Array: ...

    @abstractmethod
    def _run_layer(self, number: int, x: Array, steps: RowSteps, state: HiddenState) -> tuple[Array, HiddenState]:
        """Outputs (G, T, R, P), zero beyond a row's end, and the state after the last step of each row."""

    def _run_layers(self, table: Array, steps: RowSteps, state: State, depth: int | None) -> tuple[list[Array], State]:
        check_array("table", table, (None, self.config.vector_dim), np.float32)
        check_steps(steps, self.config, table_rows=len(table))
        num_rows = len(steps.lengths)
        state.check(self.config, num_rows if steps.starts is None else 1)
        x = table[steps.words]  # (G, T, R, P)
        outputs: list[Array] = []
        ends: list[HiddenState] = []
        depth = self.config.lstm_layers if depth is None else depth
        for number in range(depth):
            y, end = self._run_layer(number, x, steps, HiddenState(state.h[number], state.c[number]))
            if self.config.skip_connections and number > 0:
                y += x
            x = y
            outputs.append(y)
            ends.append(end)
        # Layers that did not run keep their state.
        rest = [HiddenState(*(part[number] for part in (state.h, state.c))) for number in range(depth, len(state.h))]
        rest = [HiddenState(*(np.broadcast_to(p, (p.shape[0], num_rows, p.shape[2])) for p in one)) for one in rest]
        return outputs, State(*(np.stack(parts) for parts in zip(*ends, *rest, strict=True)))


class NumpyTable:
    """A table of word vectors in ordinary memory. Rows that were handed out never change."""

    def __init__(self, size: int) -> None:
        self._array = np.empty((256, size), dtype=np.float32)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, vectors: NDArray[np.float32]) -> None:
        needed = self._length + len(vectors)
        if needed > len(self._array):
            grown = np.empty((max(needed, 2 * len(self._array)), self._array.shape[1]), dtype=np.float32)
            grown[: self._length] = self._array[: self._length]
            self._array = grown
        self._array[self._length : needed] = vectors
        self._length = needed

    def array(self) -> NDArray[np.float32]:
        return self._array


class Layers:
    """The layers h0..hL of all words, one sentence after another; boundaries are included if `boundaries` is true.

    Layer 0 is the word vector, repeated for each direction, so that all layers have one size. Layer k is the output of
    LSTM layer k of each direction, forward first.
    """

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
        for index, number in enumerate(numbers):
            stacked[index] = self.layer(number)
        return stacked

    def average(self, numbers: Sequence[int], dtype: type[np.floating] = np.float32) -> NDArray[np.floating]:
        """(K, dim) the mean of several layers."""
        total = self.layer(numbers[0])
        for number in numbers[1:]:
            total += self.layer(number)
        if len(numbers) > 1:
            total /= np.float32(len(numbers))
        return total.astype(dtype, copy=False)


class NumpySoftmax:
    """The softmax of a language model: the probability of a word after a hidden state, always over all classes."""

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
            chunk = slice(first, first + POSITIONS_AT_ONCE)
            scores = np.einsum("np,np->n", hidden[chunk], self._weight[classes[chunk]]) + self._bias[classes[chunk]]
            result[chunk] = scores - self._log_total(hidden[chunk])
        return result

    def log_distribution(self, hidden: Array) -> Array:  # (P,) -> (V,)
        """The natural logarithms of the probabilities of all classes at one position."""
        check_array("hidden", hidden, (self._weight.shape[1],), np.float32)
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
