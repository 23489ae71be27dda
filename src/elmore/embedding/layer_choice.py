"""Which layers the caller wants of every word, and in what shape."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.errors import InputError
from elmore.network.layers import Layers

LayersArgument = str | int | Sequence[int]


@dataclass(frozen=True)
class LayerChoice:
    """The layers to take; `merged` gives one vector a word, their mean, else they stay apart."""

    numbers: tuple[int, ...]
    merged: bool

    @classmethod
    def parse(cls, layers: LayersArgument, *, num_layers: int) -> "LayerChoice":
        """Understand `"average"`, `"top"`, `"all"`, a number, or a list of numbers.

        >>> LayerChoice.parse("top", num_layers=3)
        LayerChoice(numbers=(2,), merged=True)
        >>> LayerChoice.parse([0, 2], num_layers=3)
        LayerChoice(numbers=(0, 2), merged=False)
        """
        every = tuple(range(num_layers))
        match layers:
            case "average":
                return cls(every, merged=True)
            case "top":
                return cls(every[-1:], merged=True)
            case "all":
                return cls(every, merged=False)
            case bool() | str():
                pass
            case int() if layers in every:
                return cls((layers,), merged=True)
            case [*numbers] if numbers and all(type(n) is int and n in every for n in numbers):
                return cls(tuple(numbers), merged=False)
        raise InputError(
            f"layers is {layers!r}; this model has layers 0 to {num_layers - 1}: "
            "give 'average', 'top', 'all', a number, or a list of numbers"
        )

    @property
    def depth(self) -> int:
        """How many LSTM layers have to run."""
        return max(self.numbers)

    def take(self, layers: Layers, *, dtype: torch.dtype = torch.float32) -> list[NDArray[np.floating]]:
        """For each sentence an array of its own: (words, dim) if merged, else (layers, words, dim)."""
        stacked = layers.stack(self.numbers).float()  # (k, B, T, dim)
        if self.merged:
            stacked = stacked.mean(dim=0, keepdim=True)
        sentences = zip(stacked.to("cpu", dtype).numpy().swapaxes(0, 1), layers.lengths, strict=True)
        # Copies, so that one kept sentence does not keep its whole batch in memory.
        return [(rows[0, :length] if self.merged else rows[:, :length]).copy() for rows, length in sentences]
