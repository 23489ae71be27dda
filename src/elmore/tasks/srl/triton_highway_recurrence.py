"""The recurrence of the highway LSTM in Triton. `highway_recurrence` explains equations and names.

A step, including its product with the recurrent weights, is one kernel, in each direction. With a few dozen sentences
and a few hundred units the time of a step is mainly the time of its launches. One kernel for all steps of a layer would
need fewer launches, but its programs cannot wait for each other's h: each would multiply the weights of all units for
its few sentences, and most of the GPU would be idle. A measured version took twice the time.

Products of TensorFloat-32 numbers in three parts are summed in float32, which loses no relevant precision.
"""

# Triton has no types, would interpret annotations itself, and has no records: kernels take each value separately.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from itertools import accumulate
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.nn.triton_training import tanh
from elmore.tasks.srl.highway_recurrence import steps_before

ROWS, UNITS = 16, 32  # of a program's tile; a product needs at least 16 rows
INNER, INNER_BACKWARD = 32, 64  # block size of the summed dimension
PRECISION = "tf32x3"
# Arguments that change at each step. Triton would compile further kernels for 1 and for multiples of 16.
STEP_ARGUMENTS = ["start", "rows", "before", "after", "rows_after"]


class TritonRecurrence(torch.autograd.Function):
    """`highway_recurrence.TorchRecurrence` in float32."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,  # (N, 5 H)
        carried: Tensor,  # (N, H)
        recurrent: Tensor,  # (5 H, H)
        dropout_mask: Tensor | None,  # (B, H)
        batch_sizes: tuple[int, ...],
    ) -> Tensor:  # (N, H)
        units = carried.shape[1]
        products, carried, recurrent = products.contiguous(), carried.contiguous(), recurrent.contiguous()
        gates, cells, outputs = torch.empty_like(products), torch.empty_like(carried), torch.empty_like(carried)
        start = before = 0
        # Triton launches on torch's current device, which may not be the tensors' device.
        with torch.cuda.device_of(products):  # type: ignore[no-untyped-call]
            for step, rows in enumerate(batch_sizes):
                _step_forward[_grid(rows, units)](
                    products, carried, recurrent, products if dropout_mask is None else dropout_mask,
                    gates, cells, outputs,
                    start, rows, before, units,
                    IS_FIRST=step == 0, DROPS=dropout_mask is not None,
                    ROWS=ROWS, UNITS=UNITS, INNER=INNER, PRECISION=PRECISION,
                )  # fmt: skip
                start, before = start + rows, start
        ctx.save_for_backward(carried, recurrent, dropout_mask, gates, cells, outputs)
        ctx.batch_sizes = batch_sizes
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        carried, recurrent, dropout_mask, gates, cells, outputs = ctx.saved_tensors
        sizes = ctx.batch_sizes
        units, d_outputs = carried.shape[1], d_outputs.contiguous()
        d_products, d_carried, d_cells = torch.empty_like(gates), torch.empty_like(carried), torch.empty_like(carried)
        starts, sizes_after = [0, *accumulate(sizes)], [*sizes[1:], 0]
        for step in range(len(sizes) - 1, -1, -1):
            _step_backward[_grid(sizes[step], units)](
                d_outputs, carried, recurrent, gates if dropout_mask is None else dropout_mask, gates, cells,
                d_products, d_carried, d_cells,
                starts[step], sizes[step], starts[max(step - 1, 0)], starts[step + 1], sizes_after[step], units,
                IS_FIRST=step == 0, IS_LAST=step == len(sizes) - 1, DROPS=dropout_mask is not None,
                ROWS=ROWS, UNITS=UNITS, INNER=INNER_BACKWARD, PRECISION=PRECISION,
            )  # fmt: skip
        before = steps_before(sizes, cells.device)
        d_recurrent = d_products[sizes[0] :].t() @ outputs.index_select(0, before)
        return d_products, d_carried, d_recurrent, None, None


def _grid(rows: int, units: int) -> tuple[int, int]:
    return -(-rows // ROWS), -(-units // UNITS)


@triton.jit(do_not_specialize=STEP_ARGUMENTS[:3])
def _step_forward(
    products, carried, recurrent, dropout_mask, gates, cells, outputs, start, rows, before, units,
    IS_FIRST: tl.constexpr, DROPS: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, INNER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    is_row, is_unit = (row < rows)[:, None], (unit < units)[None, :]
    inside = is_row & is_unit
    token = (start + row).to(tl.int64)[:, None]
    gate_offset = token * 5 * units + unit[None, :]
    o = tl.load(products + gate_offset, inside, other=0.0)
    t = tl.load(products + gate_offset + units, inside, other=0.0)
    i = tl.load(products + gate_offset + 2 * units, inside, other=0.0)
    f = tl.load(products + gate_offset + 3 * units, inside, other=0.0)
    g = tl.load(products + gate_offset + 4 * units, inside, other=0.0)
    last = (before + row).to(tl.int64)[:, None] * units
    if not IS_FIRST:
        for first in range(0, units, INNER):
            inner = first + tl.arange(0, INNER)
            is_inner = inner < units
            h = tl.load(outputs + last + inner[None, :], is_row & is_inner[None, :], other=0.0)
            weight = recurrent + unit[None, :] * units + inner[:, None]  # transposed
            inside_weight = is_inner[:, None] & is_unit
            size = units * units
            o = tl.dot(h, tl.load(weight, inside_weight, other=0.0), o, input_precision=PRECISION)
            t = tl.dot(h, tl.load(weight + size, inside_weight, other=0.0), t, input_precision=PRECISION)
            i = tl.dot(h, tl.load(weight + 2 * size, inside_weight, other=0.0), i, input_precision=PRECISION)
            f = tl.dot(h, tl.load(weight + 3 * size, inside_weight, other=0.0), f, input_precision=PRECISION)
            g = tl.dot(h, tl.load(weight + 4 * size, inside_weight, other=0.0), g, input_precision=PRECISION)
    o, t, i, f, g = tl.sigmoid(o), tl.sigmoid(t), tl.sigmoid(i), tl.sigmoid(f), tanh(g)
    c = i * g
    if not IS_FIRST:
        c += f * tl.load(cells + last + unit[None, :], inside, other=0.0)
    carry = tl.load(carried + token * units + unit[None, :], inside, other=0.0)
    h_new = t * o * tanh(c) + (1 - t) * carry
    if DROPS:
        h_new *= tl.load(dropout_mask + row[:, None] * units + unit[None, :], inside, other=0.0)
    tl.store(gates + gate_offset, o, inside)
    tl.store(gates + gate_offset + units, t, inside)
    tl.store(gates + gate_offset + 2 * units, i, inside)
    tl.store(gates + gate_offset + 3 * units, f, inside)
    tl.store(gates + gate_offset + 4 * units, g, inside)
    tl.store(cells + token * units + unit[None, :], c, inside)
    tl.store(outputs + token * units + unit[None, :], h_new, inside)


@triton.jit(do_not_specialize=STEP_ARGUMENTS)
def _step_backward(
    d_outputs, carried, recurrent, dropout_mask, gates, cells, d_products, d_carried, d_cells,
    start, rows, before, after, rows_after, units,
    IS_FIRST: tl.constexpr, IS_LAST: tl.constexpr, DROPS: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, INNER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    is_unit = (unit < units)[None, :]
    inside = (row < rows)[:, None] & is_unit
    token = (start + row).to(tl.int64)[:, None]
    unit_offset = token * units + unit[None, :]
    d_h = tl.load(d_outputs + unit_offset, inside, other=0.0)
    d_c = tl.zeros((ROWS, UNITS), dtype=tl.float32)
    if not IS_LAST:
        is_continued = (row < rows_after)[:, None]
        next_token = (after + row).to(tl.int64)[:, None]
        for first in range(0, 5 * units, INNER):
            inner = first + tl.arange(0, INNER)
            is_inner = inner < 5 * units
            d_gate = tl.load(
                d_products + next_token * 5 * units + inner[None, :], is_continued & is_inner[None, :], other=0.0
            )
            weight = tl.load(recurrent + inner[:, None] * units + unit[None, :], is_inner[:, None] & is_unit, other=0.0)
            d_h = tl.dot(d_gate, weight, d_h, input_precision=PRECISION)
        d_c = tl.load(d_cells + next_token * units + unit[None, :], is_continued & is_unit, other=0.0)
    if DROPS:
        d_h *= tl.load(dropout_mask + row[:, None] * units + unit[None, :], inside, other=0.0)
    gate_offset = token * 5 * units + unit[None, :]
    o = tl.load(gates + gate_offset, inside, other=0.0)
    t = tl.load(gates + gate_offset + units, inside, other=0.0)
    i = tl.load(gates + gate_offset + 2 * units, inside, other=0.0)
    f = tl.load(gates + gate_offset + 3 * units, inside, other=0.0)
    g = tl.load(gates + gate_offset + 4 * units, inside, other=0.0)
    squashed = tanh(tl.load(cells + unit_offset, inside, other=0.0))
    carry = tl.load(carried + unit_offset, inside, other=0.0)
    d_c += d_h * t * o * (1 - squashed * squashed)
    tl.store(d_products + gate_offset, d_h * squashed * t * o * (1 - o), inside)
    tl.store(d_products + gate_offset + units, d_h * (o * squashed - carry) * t * (1 - t), inside)
    tl.store(d_products + gate_offset + 2 * units, d_c * g * i * (1 - i), inside)
    d_f = tl.zeros((ROWS, UNITS), dtype=tl.float32)
    if not IS_FIRST:
        c_before = tl.load(cells + (before + row).to(tl.int64)[:, None] * units + unit[None, :], inside, other=0.0)
        d_f = d_c * c_before * f * (1 - f)
    tl.store(d_products + gate_offset + 3 * units, d_f, inside)
    tl.store(d_products + gate_offset + 4 * units, d_c * i * (1 - g * g), inside)
    tl.store(d_carried + unit_offset, d_h * (1 - t), inside)
    tl.store(d_cells + unit_offset, d_c * f, inside)
