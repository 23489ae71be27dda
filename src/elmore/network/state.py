"""The state of a biLM: what every layer and direction remembers. A value, passed in and handed back.

AllenNLP and bilm-tf keep it inside the module, so that the same sentence gives other vectors on each call. Here nothing
is remembered unless the caller hands the state on.

L LSTM layers, G directions, R rows, P vector size, D cells.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from elmore.config import ModelConfig


@dataclass(frozen=True)
class State:
    """h and c of every layer and direction, one row for each sentence read side by side."""

    h: Tensor  # (L, G, R, P)
    c: Tensor  # (L, G, R, D)

    @classmethod
    def zeros(cls, config: ModelConfig, rows: int = 1) -> "State":
        """Nothing read yet.

        >>> from elmore.config import SMALL
        >>> State.zeros(SMALL, rows=3).c.shape
        torch.Size([2, 2, 3, 1024])
        """
        shape = (config.lstm_layers, config.num_directions, rows)
        return cls(torch.zeros(*shape, config.vector_dim), torch.zeros(*shape, config.cell_dim))

    @property
    def rows(self) -> int:
        return self.h.shape[2]

    def repeat(self, rows: int) -> "State":
        """The one row of a start state, for every row of a batch."""
        return State(self.h.expand(-1, -1, rows, -1), self.c.expand(-1, -1, rows, -1))

    def select(self, rows: Tensor) -> "State":
        """These rows, in this order."""
        return State(self.h[:, :, rows], self.c[:, :, rows])

    def first(self, rows: int) -> "State":
        """The first rows; where there are fewer, rows of zeros follow."""
        missing = max(0, rows - self.rows)
        pad = torch.nn.functional.pad
        return State(*(pad(part[:, :, :rows], (0, 0, 0, missing)) for part in (self.h, self.c)))

    def updated(self, newer: "State") -> "State":
        """The newer state for as many rows as it has, this one for the others: a smaller batch leaves them waiting."""
        return State(
            torch.cat([newer.h, self.h[:, :, newer.rows :]], dim=2),
            torch.cat([newer.c, self.c[:, :, newer.rows :]], dim=2),
        )

    def detach(self) -> "State":
        """The same values, through which no gradient flows."""
        return State(self.h.detach(), self.c.detach())

    def to(self, where: torch.device | str | torch.dtype) -> "State":
        """On another device, or as another kind of number."""
        return State(self.h.to(where), self.c.to(where))
