"""What the biLM says of a batch: layers h0 to hL, given out in the caller's order.

Layer 0 is the word vector, once for each direction, so that all layers have one size; layer k is the output of LSTM
layer k in each direction, side by side, forward first.

L LSTM layers, G directions, B sentences, T positions (boundaries included), P vector size, dim = G * P.
"""

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from elmore.config import Direction
from elmore.errors import InputError, count
from elmore.html_repr import html_table
from elmore.text.batch import Batch


class Layers:
    """The layers of a batch. Asking for one makes no copy of the others."""

    def __init__(
        self, batch: Batch, vectors: Tensor, outputs: Sequence[Tensor], *, directions: Sequence[Direction]
    ) -> None:
        self.batch = batch
        self._vectors = vectors  # (W, P) of the distinct words
        self._outputs = outputs  # of each LSTM layer (G, T, B, P), rows and directions as the recurrence has them
        self._directions = directions

    def __len__(self) -> int:
        return 1 + len(self._outputs)

    def __repr__(self) -> str:
        dim = len(self._directions) * self._vectors.shape[1]
        sizes = (
            f"{count(len(self), 'layer')} of {count(len(self.batch), 'sentence')}, {count(sum(self.lengths), 'word')}"
        )
        return f"Layers({sizes}, dim={dim})"

    def _repr_html_(self) -> str:
        about = {"layers": len(self), "sentences": len(self.batch), "words": sum(self.lengths)}
        dim = len(self._directions) * self._vectors.shape[1]
        return html_table("Layers", {**about, "dim": dim, "device": self._vectors.device})

    @cached_property
    def lengths(self) -> list[int]:
        """The number of words of each sentence, boundaries not counted."""
        return [self.batch.lengths[row] - 2 for row in self.batch.unsorted_indices.tolist()]

    def mask(self, *, boundaries: bool = False) -> Tensor:
        """(B, T) true where a sentence has a word; T is two less without boundaries."""
        return self._every_mask[boundaries]

    # Made once, and not for each layer anew: for a single sentence that would cost as much as reading it.

    @cached_property
    def _every_mask(self) -> tuple[Tensor, Tensor]:
        """Without boundaries, and with them."""
        places = torch.arange(self.batch.word_indices.shape[1], device=self.batch.word_indices.device)
        lengths = torch.tensor(self.lengths, device=places.device)[:, None]
        return places[:-2] < lengths, places < lengths + 2

    @cached_property
    def _places(self) -> list[tuple[Tensor, Tensor]]:
        """For each direction (B, T) the step, and the row, of its outputs where each word of each sentence stands."""
        unsorted = self.batch.unsorted_indices
        return [(reading_order(self.batch, name)[unsorted], unsorted[:, None]) for name in self._directions]

    def layer(self, number: int, *, boundaries: bool = False) -> Tensor:
        """(B, T, dim) one layer, zero beyond a sentence's end."""
        if not 0 <= number < len(self):
            raise InputError(f"there is no layer {number}; there are layers 0 to {len(self) - 1}")
        if number == 0:
            x = self._vectors[self.batch.word_indices[self.batch.unsorted_indices]]
            x = x.repeat(1, 1, len(self._directions))
        else:
            outputs = zip(self._outputs[number - 1], self._places, strict=True)
            x = torch.cat([y[places] for y, places in outputs], dim=-1)
        if not boundaries:
            x = x[:, 1:-1]
        return x * self.mask(boundaries=boundaries)[..., None]

    def stack(self, numbers: Sequence[int] | None = None, *, boundaries: bool = False) -> Tensor:
        """(layers, B, T, dim) several layers, all by default."""
        chosen = range(len(self)) if numbers is None else numbers
        return torch.stack([self.layer(number, boundaries=boundaries) for number in chosen])


def reading_order(batch: Batch, direction: Direction) -> Tensor:
    """(B, T) at which position each step of a direction reads, and so at which step it reads each position."""
    positions = torch.arange(batch.word_indices.shape[1], device=batch.word_indices.device)
    if direction == "forward":
        return positions.expand_as(batch.word_indices)
    return reversed_positions(batch.lengths, positions)


def reversed_positions(lengths: Sequence[int], positions: Tensor) -> Tensor:
    """(B, T) every row turned round within its own length; what lies beyond stays.

    >>> reversed_positions([3, 2], torch.arange(3)).tolist()
    [[2, 1, 0], [1, 0, 2]]
    """
    ends = torch.tensor(lengths, dtype=torch.int64, device=positions.device)[:, None]
    return torch.where(positions < ends, ends - 1 - positions, positions)
