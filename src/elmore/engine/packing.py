"""Matrices in the form in which the C++ kernels multiply them; `native/kernels.h` describes it.

G matrices next to each other, K rows, N columns, W float32 in a vector of the CPU.
"""

import math
import mmap
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from elmore.engine.native_library import Matrix, Precision
from elmore.formats.arrays import Int8Array, StoredArray

Array = NDArray[np.float32]

LARGE_PAGE = 2**21


class PackedMatrix(NamedTuple):
    """Matrices in panels of four vectors of columns."""

    panels: NDArray[Any]
    scales: Array | None = None
    offsets: NDArray[np.int32] | None = None

    def pointers(self) -> Matrix:
        """The record for the library. These arrays must outlive it."""
        return Matrix(*(None if part is None else part.ctypes.data for part in self))


class _Panels(NamedTuple):
    """Columns cut into panels: (G, K, panels, 4, W), as a view where possible."""

    values: NDArray[Any]
    scales: Array | None  # (G, panels, 4, W) of int8 values


def pack_gates(weights: StoredArray, precision: Precision, lanes: int) -> PackedMatrix:
    """(G, K, 4D): the four gates of W cells are in one panel."""

    def cut(columns: NDArray[Any]) -> NDArray[Any]:
        *before, gates = columns.shape
        filled = pad_to_multiple(columns.reshape(*before, 4, gates // 4), len(before) + 1, lanes)
        return filled.reshape(*before, 4, -1, lanes).swapaxes(-3, -2)

    return _packed(_cut(weights, cut), precision)


def pack(weights: StoredArray, precision: Precision, lanes: int, *, block: int | None = None) -> PackedMatrix:
    """(G, K, N). Products of int8 are summed in blocks of so many rows, by default in one."""

    def cut(columns: NDArray[Any]) -> NDArray[Any]:
        filled = pad_to_multiple(columns, columns.ndim - 1, 4 * lanes)
        return filled.reshape(*columns.shape[:-1], -1, 4, lanes)

    return _packed(_cut(weights, cut), precision, block)


def pack_pair(first: StoredArray, second: StoredArray, precision: Precision, lanes: int) -> PackedMatrix:
    """(K, N) twice: a panel of four vectors holds two of the first and the same two of the second."""
    size = 2 * lanes

    def cut(columns: NDArray[Any]) -> NDArray[Any]:
        filled = pad_to_multiple(columns, columns.ndim - 1, size)
        return filled.reshape(*columns.shape[:-1], -1, 2, lanes)

    parts = [_cut(one, cut) for one in (first, second)]
    values = np.concatenate([part.values for part in parts], axis=-2)[None]
    scales = [part.scales for part in parts if part.scales is not None]
    return _packed(_Panels(values, np.concatenate(scales, axis=-2)[None] if len(scales) == 2 else None), precision)


def pack_bias(bias: Array, lanes: int) -> Array:
    """(G, 4D) in the order of the columns of `pack_gates`."""
    matrices, gates = bias.shape
    filled = pad_to_multiple(bias.reshape(matrices, 4, gates // 4), 2, lanes)
    return np.ascontiguousarray(filled.reshape(matrices, 4, -1, lanes).swapaxes(1, 2))


def pad_to_multiple(x: NDArray[Any], axis: int, size: int) -> NDArray[Any]:
    """Append zeros along an axis up to a multiple of a size."""
    missing = -x.shape[axis] % size
    return np.pad(x, [(0, missing if number == axis else 0) for number in range(x.ndim)]) if missing else x


def to_bfloat16(x: Array) -> NDArray[np.uint16]:
    """The nearest bfloat16 of each number, as its 16 bits; ties go to the even one."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded.astype(np.uint16))


def _cut(weights: StoredArray, cut: Callable[[NDArray[Any]], NDArray[Any]]) -> _Panels:
    if isinstance(weights, Int8Array):
        # One scale for each column: the rows of a scale are one long.
        scale = np.squeeze(weights.scale, axis=-2)
        return _Panels(cut(weights.values), np.asarray(cut(scale), dtype=np.float32))
    return _Panels(cut(weights), None)


def _packed(panels: _Panels, precision: Precision, block: int | None = None) -> PackedMatrix:
    """The values are copied once, into their final order."""
    values, scales = pad_to_multiple(panels.values, 1, precision.group), panels.scales
    if precision is Precision.INT8:
        if scales is None:
            values, scales = _quantized(values)
        size = block or values.shape[1]
        sums = [
            values[:, first : first + size].sum(axis=1, dtype=np.int32) for first in range(0, values.shape[1], size)
        ]
        offsets = np.ascontiguousarray(np.int32(-128) * np.stack(sums, axis=1))  # (G, blocks, panels, 4, W)
        return PackedMatrix(_in_groups(values, precision.group), np.ascontiguousarray(scales), offsets)
    if scales is not None:
        values = values * scales[:, None]
    if precision is Precision.BFLOAT16:
        values = to_bfloat16(np.ascontiguousarray(values, dtype=np.float32))
    return PackedMatrix(_in_groups(values, precision.group))


def _quantized(values: NDArray[Any]) -> tuple[NDArray[np.int8], Array]:
    """Numbers from -127 to 127, and the scale of each column."""
    scales = np.abs(values).max(axis=1) / np.float32(127)
    # A column of zeros has no scale.
    steps = values / np.maximum(scales, np.finfo(np.float32).tiny)[:, None]
    return np.rint(steps).astype(np.int8), scales


def _in_groups(values: NDArray[Any], group: int) -> NDArray[Any]:
    """(G, panels, K / group, 4, W, group): one vector load brings what one instruction multiplies."""
    matrices, rows, *width = values.shape
    grouped = values.reshape(matrices, rows // group, group, *width).transpose(0, 3, 1, 4, 5, 2)
    packed = empty_in_large_pages(grouped.shape, grouped.dtype)
    packed[...] = grouped
    return packed


def empty_in_large_pages(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """An array with undefined content, in large pages where the system has them and the array fills at least one.

    A step of a single sentence reads every weight of a layer once. With pages of 4 KiB, address translation would take
    a good part of that time.

    >>> empty_in_large_pages((3, 2**20), np.float32).shape
    (3, 1048576)
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LARGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(shape, dtype)
    try:
        memory = mmap.mmap(-1, size + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # the system has no large pages, or no memory, which NumPy reports
        return np.empty(shape, dtype)
    # The array owns the mapping.
    whole = np.frombuffer(memory, dtype=np.uint8)
    start = -whole.ctypes.data % LARGE_PAGE
    return whole[start : start + size].view(dtype).reshape(shape)
