"""Which layers the caller wants of every word, and in what shape."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.errors import InputError
from elmore.network.layers import Layers

LayersArgument = str | SupportsIndex | Sequence[SupportsIndex] | slice | NDArray[np.integer[Any]]


@dataclass(frozen=True)
class LayerChoice:
    """The layers to take; `merged` gives one vector a word, their mean, else they stay apart."""

    indices: tuple[int, ...]
    merged: bool

    @classmethod
    def parse(cls, layers: LayersArgument, *, num_layers: int) -> "LayerChoice":
        """Understand `"average"`, `"top"`, `"all"`, a number, or several: a list, a range, an array, a slice.

        Numbers below 0 count from the top.

        >>> LayerChoice.parse(-1, num_layers=3)
        LayerChoice(indices=(2,), merged=True)
        >>> LayerChoice.parse([0, 2], num_layers=3)
        LayerChoice(indices=(0, 2), merged=False)
        """
        every = tuple(range(num_layers))
        if isinstance(layers, str) and layers in ("average", "top"):
            return cls(every[-1:] if layers == "top" else every, merged=True)
        chosen = slice(None) if isinstance(layers, str) and layers == "all" else layers
        if isinstance(chosen, slice) and every[chosen]:
            return cls(every[chosen], merged=False)
        numbers, merged = _numbers(layers)
        if not numbers or not all(-num_layers <= number < num_layers for number in numbers):
            raise InputError(
                f"layers is {layers!r}; this model has layers 0 to {num_layers - 1}: "
                "give 'average', 'top', 'all', a number, or several numbers"
            )
        return cls(tuple(number % num_layers for number in numbers), merged)

    @property
    def depth(self) -> int:
        """How many LSTM layers have to run."""
        return max(self.indices)

    @property
    def name(self) -> str | int | list[int]:
        """One spelling for each choice, in plain JSON values: `"top"`, `-1` and `2` are the same layer of three."""
        if not self.merged:
            return list(self.indices)
        return self.indices[0] if len(self.indices) == 1 else "average"

    def take(self, layers: Layers, *, dtype: torch.dtype, device: torch.device | str) -> Tensor:
        """(layers, sentences, words, dim), of one layer if merged."""
        stacked = layers.stack(self.indices).float()
        if self.merged:
            stacked = stacked.mean(dim=0, keepdim=True)
        return stacked.to(device, dtype)


def _numbers(layers: object) -> tuple[list[int], bool]:
    """The numbers in what was given, none if there is anything else in it; and whether it was a single one."""
    several = isinstance(layers, Iterable) and not isinstance(layers, str) and getattr(layers, "ndim", 1) > 0
    numbers: list[Any] = list(layers) if several else [layers]  # type: ignore[call-overload]  # it was asked just now
    if any(isinstance(number, bool | np.bool_) for number in numbers):
        return [], False
    try:
        return [index(number) for number in numbers], not several
    except TypeError:
        return [], False
