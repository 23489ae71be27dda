"""The pointwise functions of a step of inference as Triton kernels; `cuda_graph_lstm` describes them.

Tensors are (G, R, n) with the last dimension dense; the others may be slices of larger tensors.
"""

# Triton has no types, would misread annotations, and has no records: kernels take every pointer and size separately.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmore.nn.cuda_graph_lstm import OutputBuffers, StepRows
from elmore.nn.triton_training import BLOCK, block_size, strided, tanh


class TritonInferenceCell:
    """See `cuda_graph_lstm.InferenceCell`."""

    def update(self, z: Tensor, bias: Tensor, c: Tensor, rows: StepRows, step: int, *, clip: float) -> Tensor:
        """One kernel from the gates to c and m."""
        directions, number, cells = c.shape
        m = torch.empty(c.shape, dtype=z.dtype, device=z.device)
        starts, starts_g = _starts_at(rows, step)
        rows_and_starts = rows.lengths, starts, starts_g, rows.start_c
        _update[(directions * number, triton.cdiv(cells, BLOCK))](
            *strided(z), bias, *strided(c), m, *rows_and_starts, step, number, cells, clip,
            PACKED=rows.starts is not None, BLOCK=block_size(cells),
        )  # fmt: skip
        return m

    def write_output(
        self, projected: Tensor, buffers: OutputBuffers, rows: StepRows, step: int, *, clip: float
    ) -> None:
        """One kernel writes all buffers."""
        directions, number, size = projected.shape
        starts, starts_g = _starts_at(rows, step + 1)
        tensors = strided(projected, buffers.following, buffers.outputs, buffers.last)
        rows_and_starts = rows.lengths, starts, starts_g, rows.start_h
        _write_output[(directions * number, triton.cdiv(size, BLOCK))](
            *tensors, *rows_and_starts, step, number, size, clip,
            PACKED=rows.starts is not None, BLOCK=block_size(size),
        )  # fmt: skip


def _starts_at(rows: StepRows, step: int) -> tuple[Tensor, int]:
    """The sentences that start at a step, (G, R), and the stride of the first dimension."""
    if rows.starts is None:
        return rows.lengths, 0  # not used, but the kernel needs an argument
    at = rows.starts[:, step]
    return at, at.stride(0)


@triton.jit
def _gate(z, bias, column, inside):
    return tl.load(z + column, inside).to(tl.float32) + tl.load(bias + column, inside).to(tl.float32)


@triton.jit
def _of_row(pointer, BLOCK: tl.constexpr):
    # For every element: the interpreter does not accept a single number as a mask.
    return tl.load(pointer) + tl.zeros([BLOCK], tl.int32)


@triton.jit
def _update(
    z, z_g, z_b, bias, c, c_g, c_b, m, lengths, starts, starts_g, start_c, step, rows, cells, clip,
    PACKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    g, b = row // rows, row % rows
    cell = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cell < cells
    z += g * z_g + b * z_b
    bias += g * 4 * cells
    c += g * c_g + b * c_b
    if PACKED:
        # Only one of the two is loaded.
        start = _of_row(starts + g * starts_g + b, BLOCK)
        before = tl.load(c + cell, inside & (start == 0), 0.0).to(tl.float32)
        before += tl.load(start_c + g * cells + cell, inside & (start != 0), 0.0).to(tl.float32)
    else:
        before = tl.load(c + cell, inside).to(tl.float32)
    i = tl.sigmoid(_gate(z, bias, cell, inside))
    j = tanh(_gate(z, bias, cells + cell, inside))
    f = tl.sigmoid(_gate(z, bias, 2 * cells + cell, inside))
    o = tl.sigmoid(_gate(z, bias, 3 * cells + cell, inside))
    after = tl.minimum(tl.maximum(f * before + i * j, -clip), clip)
    tl.store(c + cell, after, inside & (_of_row(lengths + b, BLOCK) > step))
    tl.store(m + row * cells + cell, o * tanh(after), inside)


@triton.jit
def _write_output(
    projected, p_g, p_b, following, f_g, f_b, outputs, o_g, o_b, last, l_g, l_b, lengths, starts, starts_g, start_h,
    step, rows, size, clip, PACKED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    g, b = row // rows, row % rows
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    length = _of_row(lengths + b, BLOCK)
    h = tl.load(projected + g * p_g + b * p_b + column, inside).to(tl.float32)
    h = tl.minimum(tl.maximum(h, -clip), clip)
    tl.store(outputs + g * o_g + b * o_b + column, tl.where(length > step, h, 0.0), inside)
    tl.store(last + g * l_g + b * l_b + column, h, inside & (length == step + 1))
    if PACKED:
        start = _of_row(starts + g * starts_g + b, BLOCK)
        begins = inside & (start != 0)
        h = tl.where(begins, tl.load(start_h + g * size + column, begins, 0.0).to(tl.float32), h)
    tl.store(following + g * f_g + b * f_b + column, h, inside)
