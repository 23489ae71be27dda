"""Weights in a quarter of the space: whole numbers from -127 to 127, and a scale for each unit of output.

A matrix `x` is stored as `x` in int8 and `x.scale` in float32; read back, it is float32 again. Vectors and biases stay
as they are: they are small, and every bit of a bias counts.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from elmore.errors import FormatError

SCALE = ".scale"


def quantize(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every matrix as int8 with its scales, the rest as it is.

    >>> {name: tuple(t.shape) for name, t in quantize({"w": torch.ones(3, 4), "b": torch.ones(3)}).items()}
    {'w': (3, 4), 'w.scale': (3, 1), 'b': (3,)}
    """
    result: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        # The bias of an LSTM layer looks like a matrix: it has a row for each direction.
        if tensor.ndim < 2 or name.endswith(".bias"):
            result[name] = tensor
            continue
        # LSTM matrices are applied as x @ W, so a unit of their output is a column; of all others it is a row.
        inputs = (-2,) if name.startswith("lstm.") else tuple(range(1, tensor.ndim))
        scale = tensor.abs().amax(dim=inputs, keepdim=True).clamp(min=1e-12) / 127
        result[name] = (tensor / scale).round().to(torch.int8)
        result[name + SCALE] = scale.float()
    return result


def dequantize(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `quantize` was given, save for rounding; tensors that are not int8 pass as they are."""
    narrow = {name for name, tensor in tensors.items() if tensor.dtype == torch.int8}
    result = {}
    for name, tensor in tensors.items():
        if name in narrow:
            scale = tensors.get(name + SCALE)
            # Compared before they are multiplied: a scale of another shape could blow a small file up to any size.
            if scale is None or not _fits(scale, tensor):
                raise FormatError(f"{name} holds int8 numbers, and {name}{SCALE} is missing or does not fit")
            result[name] = tensor.float() * scale
        elif name.removesuffix(SCALE) not in narrow:
            result[name] = tensor
    return result


def _fits(scale: Tensor, tensor: Tensor) -> bool:
    lengths = zip(scale.shape, tensor.shape, strict=False)
    return scale.ndim == tensor.ndim and scale.is_floating_point() and all(a in (1, b) for a, b in lengths)
