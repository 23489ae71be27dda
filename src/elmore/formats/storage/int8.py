"""Weights in a quarter of the space: whole numbers from -127 to 127, and a scale for each unit of output.

A matrix `x` is stored as `x` in int8 and `x.scale` in float32. Read back, it stays an `Int8Tensor` until somebody needs
its numbers: a network of float32 does, a copy of the file does not. Vectors and biases stay as they are: they are
small, and every bit of a bias counts.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from elmore.errors import FormatError

SCALE = ".scale"


class Int8Tensor(NamedTuple):
    """A matrix as whole numbers and their scales."""

    values: Tensor  # int8
    scale: Tensor  # float32; one long in the dimensions that a unit of output sums over

    @property
    def shape(self) -> torch.Size:
        return self.values.shape

    def dequantize(self) -> Tensor:
        """In float32."""
        return self.values.float() * self.scale


StoredTensor = Tensor | Int8Tensor


def quantize(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Every matrix as int8 with its scales, the rest as it is; what is int8 already stays the same to the bit.

    >>> [type(tensor).__name__ for tensor in quantize({"w": torch.ones(3, 4), "b": torch.ones(3)}).values()]
    ['Int8Tensor', 'Tensor']
    """
    result: dict[str, StoredTensor] = {}
    for name, tensor in tensors.items():
        # The bias of an LSTM layer looks like a matrix: it has a row for each direction.
        if isinstance(tensor, Int8Tensor) or tensor.ndim < 2 or name.endswith(".bias"):
            result[name] = tensor
            continue
        # LSTM matrices are applied as x @ W, so a unit of their output is a column; of all others it is a row.
        inputs = (-2,) if name.startswith("lstm.") else tuple(range(1, tensor.ndim))
        scale = tensor.abs().amax(dim=inputs, keepdim=True).clamp(min=1e-12) / 127
        result[name] = Int8Tensor((tensor / scale).round().to(torch.int8), scale.float())
    return result


def dequantize(tensors: Mapping[str, StoredTensor]) -> dict[str, Tensor]:
    """What `quantize` was given, save for rounding."""
    return {name: tensor.dequantize() if isinstance(tensor, Int8Tensor) else tensor for name, tensor in tensors.items()}


def pack(tensors: Mapping[str, StoredTensor]) -> dict[str, Tensor]:
    """As a file has them, the scales under names of their own.

    >>> sorted(pack(quantize({"w": torch.ones(3, 4), "b": torch.ones(3)})))
    ['b', 'w', 'w.scale']
    """
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, Int8Tensor):
            packed |= {name: tensor.values, name + SCALE: tensor.scale}
        else:
            packed[name] = tensor
    return packed


def unpack(packed: Mapping[str, Tensor]) -> dict[str, StoredTensor]:
    """What `pack` was given; tensors that are not int8 pass as they are."""
    narrow = {name for name, tensor in packed.items() if tensor.dtype == torch.int8}
    result: dict[str, StoredTensor] = {}
    for name, tensor in packed.items():
        if name in narrow:
            scale = packed.get(name + SCALE)
            # Compared before they are multiplied: a scale of another shape could blow a small file up to any size.
            if scale is None or not _fits(scale, tensor):
                raise FormatError(f"{name} holds int8 numbers, and {name}{SCALE} is missing or does not fit")
            result[name] = Int8Tensor(tensor, scale)
        elif name.removesuffix(SCALE) not in narrow:
            result[name] = tensor
    return result


def _fits(scale: Tensor, tensor: Tensor) -> bool:
    lengths = zip(scale.shape, tensor.shape, strict=False)
    return scale.ndim == tensor.ndim and scale.dtype == torch.float32 and all(a in (1, b) for a, b in lengths)
