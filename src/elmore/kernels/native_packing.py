"""Matrices in the form in which the native kernels multiply them; `native/kernels.h` describes it.

G matrices side by side, K rows, N columns, W float32 in a vector.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmore.kernels.native_library import Matrix, Number


class PackedMatrix(NamedTuple):
    """Matrices in panels of four vectors of columns."""

    panels: Tensor
    scales: Tensor | None = None
    offsets: Tensor | None = None

    def pointers(self) -> Matrix:
        """What the library is given; these tensors must outlive it."""
        return Matrix(*(None if part is None else part.data_ptr() for part in self))


def pack_gates(weights: Tensor, number: Number, lanes: int) -> PackedMatrix:
    """(G, K, 4D) the four gates beside each other, so that a panel holds all four of W cells."""
    matrices, rows, gates = weights.shape
    filled = pad(weights.reshape(matrices, rows, 4, gates // 4), (0, -(gates // 4) % lanes))
    cells = filled.view(matrices, rows, 4, -1, lanes).transpose(2, 3)  # (G, K, D / W, 4, W)
    return pack(cells.reshape(matrices, rows, -1), number, lanes)


def pack(weights: Tensor, number: Number, lanes: int, *, block: int | None = None) -> PackedMatrix:
    """(G, K, N) as they are. Products with int8 are made block by block of so many rows, all at once by default."""
    group, width = number.group, 4 * lanes
    weights = pad(weights.float(), (0, -weights.shape[2] % width, 0, -weights.shape[1] % group))
    if number is Number.FLOAT32:
        return PackedMatrix(_in_panels(weights, group, width))
    if number is Number.BFLOAT16:
        return PackedMatrix(_in_panels(weights.bfloat16(), group, width))
    scales = weights.abs().amax(dim=1) / 127  # (G, N)
    # A column of zeros has no scale, and needs none.
    rounded = (weights / scales.clamp(min=torch.finfo(torch.float32).tiny)[:, None]).round_()
    sums = [part.sum(dim=1, dtype=torch.float64) for part in torch.split(rounded, block or rounded.shape[1], dim=1)]
    offsets = -128 * torch.stack(sums, dim=1)  # (G, blocks, N)
    return PackedMatrix(_in_panels(rounded.to(torch.int8), group, width), scales, offsets.to(torch.int32))


def pack_bias(bias: Tensor, lanes: int) -> Tensor:
    """(G, 4D) in the order of the columns that `pack_gates` makes."""
    matrices, gates = bias.shape
    filled = pad(bias.float().reshape(matrices, 4, gates // 4), (0, -(gates // 4) % lanes))
    return filled.view(matrices, 4, -1, lanes).transpose(1, 2).contiguous()


def _in_panels(weights: Tensor, group: int, width: int) -> Tensor:
    """(G, N / width, K / group, width, group)."""
    matrices, rows, columns = weights.shape
    cut = weights.view(matrices, rows // group, group, columns // width, width)
    return cut.permute(0, 3, 1, 4, 2).contiguous(memory_format=torch.contiguous_format)
