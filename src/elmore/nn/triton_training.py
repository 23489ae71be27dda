"""Triton kernels for training: the pointwise parts of an LSTM step, and the softmax.

`recurrence` has the equations of a step, `cross_entropy` the softmax. Tensors of a step are (G, B, n) with the last
dimension dense; the others may be slices of larger tensors, so that a step is written into the tensors of all steps.
"""

# Triton has no types, would misread annotations, and has no records: kernels take every pointer and size separately.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmore.nn.recurrence import CellFunctions, LstmStep

BLOCK = 1024
SOFTMAX_BLOCK = 8192  # the default number of negatives, so that one pass of the loop suffices


def cell_forward(x: Tensor, r: Tensor, bias: Tensor, step: LstmStep, clip: float) -> None:
    """See `recurrence.cell_forward`."""
    directions, rows, cells = step.c_before.shape
    outputs = strided(step.c_before, step.gates, step.c_after, step.m)
    _cell_forward[(directions * rows, triton.cdiv(cells, BLOCK))](
        *strided(x, r), bias.contiguous(), *outputs, rows, cells, clip, BLOCK=BLOCK
    )


def cell_backward(d_m: Tensor, d_c: Tensor, step: LstmStep, d_z: Tensor, clip: float) -> None:
    """See `recurrence.cell_backward`."""
    directions, rows, cells = d_m.shape
    tensors = strided(d_m, d_c, step.gates, step.c_before, step.c_after, d_z)
    _cell_backward[(directions * rows, triton.cdiv(cells, BLOCK))](*tensors, rows, cells, clip, BLOCK=BLOCK)


def clip_output(projected: Tensor, h: Tensor, clip: float) -> None:
    """See `recurrence.clip_output`."""
    directions, rows, size = h.shape
    _clip_output[(directions * rows, triton.cdiv(size, BLOCK))](
        *strided(projected, h), rows, size, _as_stored(clip, h), BLOCK=block_size(size)
    )


def clip_output_backward(d_h: Tensor, d_next: Tensor, h: Tensor, d_projected: Tensor, clip: float) -> None:
    """See `recurrence.clip_output_backward`."""
    directions, rows, size = h.shape
    _clip_output_backward[(directions * rows, triton.cdiv(size, BLOCK))](
        *strided(d_h, d_next, h, d_projected), rows, size, _as_stored(clip, h), BLOCK=block_size(size)
    )


TRITON_CELL = CellFunctions(cell_forward, cell_backward, clip_output, clip_output_backward)


def softmax_(logits: Tensor, offsets: Tensor, target_logits: Tensor, target_columns: Tensor) -> Tensor:
    """See `cross_entropy.softmax_`. A program for each position reads its row twice and writes it once."""
    log_sums = torch.empty_like(target_logits)
    offsets_and_targets = offsets, target_logits, target_columns
    _normalize[(len(logits),)](
        logits, logits.stride(0), *offsets_and_targets, log_sums, logits.shape[1], BLOCK=SOFTMAX_BLOCK, num_warps=16
    )
    return log_sums


def _as_stored(clip: float, h: Tensor) -> float:
    """The bound in the type of h: in bfloat16 0.7 is a little less, and clipped outputs must be recognized."""
    return torch.tensor(clip, dtype=h.dtype).item()


def block_size(size: int) -> int:
    """The number of columns of one program."""
    return min(BLOCK, int(triton.next_power_of_2(size)))


def strided(*tensors: Tensor) -> Iterator[Tensor | int]:
    """Each tensor (G, B, n) as an argument of a kernel, with the strides of its first two dimensions."""
    for tensor in tensors:
        assert tensor.stride(-1) == 1
        yield from (tensor, tensor.stride(0), tensor.stride(1))


@triton.jit
def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def _sum(x, r, bias, column, inside):
    products = tl.load(x + column, inside).to(tl.float32) + tl.load(r + column, inside).to(tl.float32)
    return products + tl.load(bias + column, inside).to(tl.float32)


@triton.jit
def _cell_forward(
    x, x_g, x_b, r, r_g, r_b, bias, c_before, c_before_g, c_before_b, gates, gates_g, gates_b,
    c_after, c_after_g, c_after_b, m, m_g, m_b, rows, cells, clip, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    g, b = row // rows, row % rows
    cell = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cell < cells
    x += g * x_g + b * x_b
    r += g * r_g + b * r_b
    bias += g * 4 * cells
    i = tl.sigmoid(_sum(x, r, bias, cell, inside))
    j = tanh(_sum(x, r, bias, cells + cell, inside))
    f = tl.sigmoid(_sum(x, r, bias, 2 * cells + cell, inside))
    o = tl.sigmoid(_sum(x, r, bias, 3 * cells + cell, inside))
    c = f * tl.load(c_before + g * c_before_g + b * c_before_b + cell, inside) + i * j
    c = tl.minimum(tl.maximum(c, -clip), clip)
    gates += g * gates_g + b * gates_b
    tl.store(gates + cell, i, inside)
    tl.store(gates + cells + cell, j, inside)
    tl.store(gates + 2 * cells + cell, f, inside)
    tl.store(gates + 3 * cells + cell, o, inside)
    tl.store(c_after + g * c_after_g + b * c_after_b + cell, c, inside)
    tl.store(m + g * m_g + b * m_b + cell, o * tanh(c), inside)


@triton.jit
def _cell_backward(
    d_m, m_g, m_b, d_c, c_g, c_b, gates, gates_g, gates_b, c_before, c_before_g, c_before_b,
    c_after, c_after_g, c_after_b, d_z, z_g, z_b, rows, cells, clip, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    g, b = row // rows, row % rows
    cell = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cell < cells
    gates += g * gates_g + b * gates_b
    i = tl.load(gates + cell, inside).to(tl.float32)
    j = tl.load(gates + cells + cell, inside).to(tl.float32)
    f = tl.load(gates + 2 * cells + cell, inside).to(tl.float32)
    o = tl.load(gates + 3 * cells + cell, inside).to(tl.float32)
    c = tl.load(c_after + g * c_after_g + b * c_after_b + cell, inside)
    squashed = tanh(c)
    dm = tl.load(d_m + g * m_g + b * m_b + cell, inside).to(tl.float32)
    d_c += g * c_g + b * c_b
    dc = tl.load(d_c + cell, inside) + dm * o * (1 - squashed * squashed)
    dc = tl.where(tl.abs(c) < clip, dc, 0.0)
    d_z += g * z_g + b * z_b
    tl.store(d_z + cell, dc * j * i * (1 - i), inside)
    tl.store(d_z + cells + cell, dc * i * (1 - j * j), inside)
    last = tl.load(c_before + g * c_before_g + b * c_before_b + cell, inside)
    tl.store(d_z + 2 * cells + cell, dc * last * f * (1 - f), inside)
    tl.store(d_z + 3 * cells + cell, dm * squashed * o * (1 - o), inside)
    tl.store(d_c + cell, dc * f, inside)


@triton.jit
def _clip_output(projected, p_g, p_b, h, h_g, h_b, rows, size, clip, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    g, b = row // rows, row % rows
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    x = tl.load(projected + g * p_g + b * p_b + column, inside).to(tl.float32)
    tl.store(h + g * h_g + b * h_b + column, tl.minimum(tl.maximum(x, -clip), clip), inside)


@triton.jit
def _clip_output_backward(
    d_h, d_g, d_b, d_next, next_g, next_b, h, h_g, h_b, d_projected, p_g, p_b, rows, size, clip, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    g, b = row // rows, row % rows
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < size
    d = tl.load(d_h + g * d_g + b * d_b + column, inside).to(tl.float32)
    d += tl.load(d_next + g * next_g + b * next_b + column, inside).to(tl.float32)
    is_clipped = tl.abs(tl.load(h + g * h_g + b * h_b + column, inside).to(tl.float32)) >= clip
    tl.store(d_projected + g * p_g + b * p_b + column, tl.where(is_clipped, 0.0, d), inside)


@triton.jit
def _normalize(logits, stride, offsets, target_logits, target_columns, log_sums, candidates, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    target = tl.load(target_logits + row)
    column = tl.load(target_columns + row)
    highest = target
    summed = tl.exp(target - highest)
    for start in range(0, candidates, BLOCK):
        x = _logits(logits, offsets, column, candidates, start, BLOCK)
        higher = tl.maximum(highest, tl.max(x))
        summed = summed * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher))
        highest = higher
    log_sum = highest + tl.log(summed)
    tl.store(log_sums + row, log_sum)
    for start in range(0, candidates, BLOCK):
        x = _logits(logits, offsets, column, candidates, start, BLOCK)
        column_index = start + tl.arange(0, BLOCK)
        tl.store(logits + column_index, tl.exp(x - log_sum), column_index < candidates)


@triton.jit
def _logits(logits, offsets, column, candidates, start, BLOCK: tl.constexpr):
    column_index = start + tl.arange(0, BLOCK)
    # The target's column is loaded too and masked afterwards: a mask with it would make each thread load one number.
    inside = column_index < candidates
    x = tl.load(logits + column_index, inside, 0.0).to(tl.float32) + tl.load(offsets + column_index, inside, 0.0)
    return tl.where(inside & (column_index != column), x, -float("inf"))
