"""The LSTM stack (section 3): one sentence, one direction, one layer, one step at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
HC = tuple[Array, Array]  # what one layer of one direction carries: h and c
RowState = list[list[HC]]  # of one row: for each direction, for each layer


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def clip(x: Array, bound: float | None) -> Array:
    return np.clip(x, -bound, bound) if bound else x


@dataclass(frozen=True)
class Cell:
    """One LSTM layer of one direction (3.1)."""

    kernel: Array  # (2P, 4D): the first P rows multiply the input, the last P the previous output
    bias: Array  # (4D,)
    projection: Array | None  # (D, P)
    gate_order: str  # of the four column blocks: "ijfo" in weights.hdf5, "ifjo" in ELMoForManyLangs
    forget_bias: float  # what is missing in the stored bias of the forget gate
    cell_clip: float | None
    projection_clip: float | None

    def zeros(self) -> HC:
        return np.zeros(len(self.kernel) // 2), np.zeros(len(self.bias) // 4)

    def step(self, x: Array, carried: HC) -> HC:
        h, c = carried
        z = np.concatenate([x, h]) @ self.kernel + self.bias
        gate = dict(zip(self.gate_order, np.split(z, 4), strict=True))
        c = sigmoid(gate["f"] + self.forget_bias) * c + sigmoid(gate["i"]) * np.tanh(gate["j"])
        c = clip(c, self.cell_clip)
        m = sigmoid(gate["o"]) * np.tanh(c)
        if self.projection is None:
            return m, c
        return clip(m @ self.projection, self.projection_clip), c


@dataclass(frozen=True)
class Network:
    """A token encoder and, for each direction, a stack of cells."""

    token_vector: Callable[[str], Array]
    directions: list[list[Cell]]  # forward, then backward; only forward where a model reads one way
    skip_connections: bool
    begin: str
    end: str

    def zero_state(self) -> RowState:
        return [[cell.zeros() for cell in cells] for cells in self.directions]

    def read(self, tokens: Sequence[str], state: RowState | None = None) -> tuple[Array, RowState]:
        """All layers of one sentence, boundaries kept, (L+1, n+2, size); and the state after it (3.2, 3.3, 3.5)."""
        state = state or self.zero_state()
        vectors = [self.token_vector(token) for token in (self.begin, *tokens, self.end)]
        parts, after = [], []
        for number, (cells, carried) in enumerate(zip(self.directions, state, strict=True)):
            backward = number == 1
            outputs, ends = self._climb(cells, vectors[::-1] if backward else vectors, carried)
            parts.append([layer[::-1] if backward else layer for layer in outputs])
            after.append(ends)
        # Layer 0 comes out as the token vector once for each direction, since each stack gives it back.
        return np.concatenate([np.array(part) for part in parts], axis=-1), after

    def _climb(self, cells: list[Cell], vectors: list[Array], carried: list[HC]) -> tuple[list[list[Array]], list[HC]]:
        layers, ends = [vectors], []
        for number, (cell, h_and_c) in enumerate(zip(cells, carried, strict=True)):
            outputs = []
            for x in layers[-1]:
                h_and_c = cell.step(x, h_and_c)  # noqa: PLW2901  (a recurrence)
                h = h_and_c[0]
                outputs.append(h + x if self.skip_connections and number > 0 else h)
            layers.append(outputs)
            ends.append(h_and_c)
        return layers, ends


@dataclass
class CarriedRows:
    """Reads batch after batch as the original programs do: row r goes on where row r last stopped (3.4)."""

    network: Network
    rows: list[RowState] = field(default_factory=list)

    def read(self, sentences: Sequence[Sequence[str]], *, boundaries: bool = False) -> list[Array]:
        """The layers (L+1, n, size) of every sentence; with boundaries n+2 positions."""
        results = []
        for row, tokens in enumerate(sentences):
            if row == len(self.rows):
                self.rows.append(self.network.zero_state())
            layers, self.rows[row] = self.network.read(tokens, self.rows[row])
            results.append(layers if boundaries else layers[:, 1:-1])
        return results
