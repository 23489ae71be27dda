"""The state of a biLM: h and c of every LSTM layer and direction. An argument and a result, never hidden.

The original programs carry the state inside the module, so that one sentence gets different vectors on each call.

L LSTM layers, G directions, R rows, P vector size, D cells.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from elmore.config import ModelConfig
from elmore.engine.array_checks import check_array

Array = NDArray[np.float32]


@dataclass(frozen=True)
class State:
    """One row for each row of a batch; a start state has one row for all."""

    h: Array  # (L, G, R, P)
    c: Array  # (L, G, R, D)

    @classmethod
    def zeros(cls, config: ModelConfig, rows: int = 1) -> Self:
        """The state before any word.

        >>> from elmore.config import SMALL
        >>> State.zeros(SMALL, rows=3).c.shape
        (2, 2, 3, 1024)
        """
        shape = (config.lstm_layers, config.num_directions, rows)
        return cls(
            np.zeros((*shape, config.vector_dim), dtype=np.float32), np.zeros((*shape, config.cell_dim), np.float32)
        )

    @property
    def rows(self) -> int:
        return int(self.h.shape[2])

    def check(self, config: ModelConfig, rows: int) -> None:
        """Raise InputError unless the arrays have the model's shape and this number of rows."""
        shape = (config.lstm_layers, config.num_directions, rows)
        check_array("state.h", self.h, (*shape, config.vector_dim), np.float32)
        check_array("state.c", self.c, (*shape, config.cell_dim), np.float32)

    def repeat(self, rows: int) -> "State":
        """A start state for every row of a batch."""
        return State(*(np.repeat(part[:, :, :1], rows, axis=2) for part in (self.h, self.c)))

    def select(self, rows: NDArray[np.int64]) -> "State":
        """These rows, in this order."""
        return State(self.h[:, :, rows], self.c[:, :, rows])

    def first(self, rows: int) -> "State":
        """The first rows; rows of zeros are added where there are fewer."""
        missing = max(0, rows - self.rows)
        return State(*(np.pad(part[:, :, :rows], ((0, 0), (0, 0), (0, missing), (0, 0))) for part in (self.h, self.c)))

    def updated(self, newer: "State") -> "State":
        """The newer state for its rows, this state for all further rows."""
        return State(
            np.concatenate([newer.h, self.h[:, :, newer.rows :]], axis=2),
            np.concatenate([newer.c, self.c[:, :, newer.rows :]], axis=2),
        )
