"""The state of a biLM as torch tensors: h and c of every LSTM layer and direction.

`elmore.engine.state.State` is the same as NumPy arrays. Both are values: an argument and a result, never hidden.

L LSTM layers, G directions, R rows, P vector size, D cells.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.config import ModelConfig
from elmore.engine.state import State
from elmore.nn.devices import as_tensor, send


@dataclass(frozen=True)
class StateTensors:
    """One row for each row of a batch; a start state has one row for all."""

    h: Tensor  # (L, G, R, P)
    c: Tensor  # (L, G, R, D)

    @classmethod
    def zeros(cls, config: ModelConfig, rows: int = 1) -> "StateTensors":
        """The state before any word.

        >>> from elmore.config import SMALL
        >>> StateTensors.zeros(SMALL, rows=3).c.shape
        torch.Size([2, 2, 3, 1024])
        """
        return cls.of(State.zeros(config, rows))

    @classmethod
    def of(cls, state: State) -> "StateTensors":
        """A state of NumPy arrays as tensors on the CPU."""
        return cls(as_tensor(state.h), as_tensor(state.c))

    @property
    def rows(self) -> int:
        return self.h.shape[2]

    def repeat(self, rows: int) -> "StateTensors":
        """The one row of a start state, for every row of a batch."""
        return StateTensors(self.h.expand(-1, -1, rows, -1), self.c.expand(-1, -1, rows, -1))

    def select(self, rows: NDArray[np.int64]) -> "StateTensors":
        """These rows, in this order."""
        indices = send(torch.from_numpy(rows), self.h.device)
        return StateTensors(self.h.index_select(2, indices), self.c.index_select(2, indices))

    def first(self, rows: int) -> "StateTensors":
        """The first rows; rows of zeros are added where there are fewer."""
        missing = max(0, rows - self.rows)
        pad = torch.nn.functional.pad
        return StateTensors(*(pad(part[:, :, :rows], (0, 0, 0, missing)) for part in (self.h, self.c)))

    def updated(self, newer: "StateTensors") -> "StateTensors":
        """The newer state for as many rows as it has, this state for the others."""
        return StateTensors(
            torch.cat([newer.h, self.h[:, :, newer.rows :]], dim=2),
            torch.cat([newer.c, self.c[:, :, newer.rows :]], dim=2),
        )

    def detach(self) -> "StateTensors":
        """The same values, through which no gradient flows."""
        return StateTensors(self.h.detach(), self.c.detach())

    def to(self, where: torch.device | str | torch.dtype) -> "StateTensors":
        """On another device, or in another number type."""
        return StateTensors(self.h.to(where), self.c.to(where))
