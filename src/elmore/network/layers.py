"""What the biLM says of a batch: layers h0 to hL, given out in the caller's order.

Layer 0 is the word vector, once for each direction, so that all layers have one size; layer k is the output of LSTM
layer k in each direction, side by side, forward first.

L LSTM layers, G directions, B sentences, T positions (boundaries included), P vector size, dim = G * P.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmore.config import Direction
from elmore.errors import InputError
from elmore.text.batch import Batch


class Layers:
    """The layers of a batch. Asking for one makes no copy of the others."""

    def __init__(
        self, batch: Batch, vectors: Tensor, outputs: Sequence[Tensor], *, directions: Sequence[Direction]
    ) -> None:
        self.batch = batch
        self._vectors = vectors  # (W, P) of the distinct words
        self._outputs = outputs  # of each LSTM layer (G, B, T, P), rows and directions as the recurrence has them
        self._directions = directions

    def __len__(self) -> int:
        return 1 + len(self._outputs)

    @property
    def lengths(self) -> list[int]:
        """The number of words of each sentence, boundaries not counted."""
        return [self.batch.lengths[row] - 2 for row in self.batch.restore.tolist()]

    def mask(self, *, boundaries: bool = False) -> Tensor:
        """(B, T) true where a sentence has a word; T is two less without boundaries."""
        longest = self.batch.positions.shape[1] - (0 if boundaries else 2)
        lengths = torch.tensor(self.lengths, device=self.batch.positions.device) + (2 if boundaries else 0)
        return torch.arange(longest, device=lengths.device) < lengths[:, None]

    def layer(self, number: int, *, boundaries: bool = False) -> Tensor:
        """(B, T, dim) one layer, zero beyond a sentence's end."""
        if not 0 <= number < len(self):
            raise InputError(f"there is no layer {number}; there are layers 0 to {len(self) - 1}")
        restore = self.batch.restore
        if number == 0:
            x = self._vectors[self.batch.positions[restore]]
            x = x.repeat(1, 1, len(self._directions))
        else:
            outputs = zip(self._outputs[number - 1], self._directions, strict=True)
            x = torch.cat([turned(y, direction, self.batch.lengths) for y, direction in outputs], dim=-1)[restore]
        if not boundaries:
            x = x[:, 1:-1]
        return x * self.mask(boundaries=boundaries)[..., None]

    def stack(self, numbers: Sequence[int] | None = None, *, boundaries: bool = False) -> Tensor:
        """(layers, B, T, dim) several layers, all by default."""
        chosen = range(len(self)) if numbers is None else numbers
        return torch.stack([self.layer(number, boundaries=boundaries) for number in chosen])


def turned(x: Tensor, direction: Direction, lengths: Sequence[int]) -> Tensor:
    """Bring rows (B, T, ...) from the order of the text into that of a direction, or back."""
    return reverse(x, lengths) if direction == "backward" else x


def reverse(x: Tensor, lengths: Sequence[int]) -> Tensor:
    """Turn every row (B, T, ...) round within its own length; what lies beyond stays.

    >>> reverse(torch.tensor([[1, 2, 3], [4, 5, 0]]), [3, 2]).tolist()
    [[3, 2, 1], [5, 4, 0]]
    """
    positions = torch.arange(x.shape[1], device=x.device)
    ends = torch.tensor(lengths, dtype=torch.int64, device=x.device)[:, None]
    turned = torch.where(positions < ends, ends - 1 - positions, positions)  # (B, T)
    return x[torch.arange(len(x), device=x.device)[:, None], turned]
