"""Matrices in the form in which the native kernels multiply them; `native/kernels.h` describes it.

G matrices side by side, K rows, N columns, W float32 in a vector.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmore.kernels.large_pages import empty_in_large_pages
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
    filled = fill(weights.reshape(matrices, rows, 4, gates // 4), 3, lanes)
    return _packed(filled.view(matrices, rows, 4, -1, lanes).transpose(2, 3), number)


def pack(weights: Tensor, number: Number, lanes: int, *, block: int | None = None) -> PackedMatrix:
    """(G, K, N) as they are. Products with int8 are made block by block of so many rows, all at once by default."""
    filled = fill(weights, 2, 4 * lanes)
    return _packed(filled.unflatten(2, (-1, 4, lanes)), number, block)  # type: ignore[no-untyped-call]


def unpack_gates(packed: PackedMatrix, cells: int) -> Tensor:
    """What `pack_gates` was given, from panels of float32."""
    parts = packed.panels.squeeze(-1).permute(0, 2, 3, 1, 4).flatten(3)  # (G, K, 4, D)
    return parts[..., :cells].flatten(2)


def unpack(packed: PackedMatrix, rows: int, columns: int) -> Tensor:
    """What `pack` was given, from panels of float32."""
    return packed.panels.squeeze(-1).transpose(1, 2).flatten(2)[:, :rows, :columns].contiguous()


def pack_bias(bias: Tensor, lanes: int) -> Tensor:
    """(G, 4D) in the order of the columns that `pack_gates` makes."""
    matrices, gates = bias.shape
    filled = fill(bias.float().reshape(matrices, 4, gates // 4), 2, lanes)
    return filled.view(matrices, 4, -1, lanes).transpose(1, 2).contiguous()


def fill(x: Tensor, dim: int, size: int) -> Tensor:
    """With zeros behind, up to a multiple of a size."""
    missing = -x.shape[dim] % size
    # Even by nothing, pad would copy.
    return pad(x, (0, 0) * (x.ndim - 1 - dim) + (0, missing)) if missing else x


def _packed(panels: Tensor, number: Number, block: int | None = None) -> PackedMatrix:
    """For (G, K, N / 4W, 4, W), which need not lie in that order: it is copied once, since matrices are large."""
    panels = fill(panels.float(), 1, number.group)
    if number is Number.FLOAT32:
        return PackedMatrix(_in_groups(panels, 1))
    if number is Number.BFLOAT16:
        return PackedMatrix(_in_groups(panels.bfloat16(), number.group))
    scales = panels.abs().amax(dim=1) / 127  # (G, N / 4W, 4, W)
    # A column of zeros has no scale, and needs none.
    rounded = (panels / scales.clamp(min=torch.finfo(torch.float32).tiny)[:, None]).round_().to(torch.int8)
    sums = [part.sum(dim=1, dtype=torch.int32) for part in torch.split(rounded, block or rounded.shape[1], dim=1)]
    offsets = -128 * torch.stack(sums, dim=1)  # (G, blocks, N / 4W, 4, W)
    return PackedMatrix(_in_groups(rounded, number.group), scales.contiguous(), offsets)


def _in_groups(panels: Tensor, group: int) -> Tensor:
    """(G, N / 4W, K / group, 4, W, group)."""
    matrices, rows, *width = panels.shape
    grouped = panels.reshape(matrices, rows // group, group, *width).permute(0, 3, 1, 4, 5, 2)
    return empty_in_large_pages(grouped.shape, grouped.dtype).copy_(grouped)
