"""The recurrence of the highway LSTM in Triton; `highway_recurrence` has the equations, and what the names mean.

A step, its product with the recurrent weights included, is one kernel, forth and back. With a few dozen sentences and a
few hundred units a step is so little work that it costs what its launches cost. One kernel for all steps of a layer
would be launched less often still, but its programs could not wait for each other's h: each would have to multiply the
weights of all units, for as few sentences as it has, and most of the GPU would be idle while it did. Tried, it took
twice the time.

Products are summed in float32, of TensorFloat-32 numbers in three parts each, which lose nothing that matters.
"""

# Triton has no types and would take annotations for its own, and no records, so kernels take all they need one by one.
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

ROWS, UNITS = 16, 32  # of a program's tile; 16 rows are the fewest that a product may have
INNER, INNER_BACKWARD = 32, 64  # what is summed over at once
PRECISION = "tf32x3"
# Numbers that are other ones at each step: a kernel for those that 16 divides, and one for 1, would be compiled anew.
CHANGING = ["start", "rows", "before", "after", "rows_after"]


class TritonRecurrence(torch.autograd.Function):
    """As `TorchRecurrence` of `highway_recurrence`, in float32."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,  # (N, 5 H)
        carried: Tensor,  # (N, H)
        recurrent: Tensor,  # (5 H, H)
        kept: Tensor | None,  # (B, H)
        batch_sizes: tuple[int, ...],
    ) -> Tensor:  # (N, H)
        units = carried.shape[1]
        products, carried, recurrent = products.contiguous(), carried.contiguous(), recurrent.contiguous()
        gates, cells, outputs = torch.empty_like(products), torch.empty_like(carried), torch.empty_like(carried)
        start = before = 0
        # Triton launches on the device that torch is at, which need not be the tensors'.
        with torch.cuda.device_of(products):  # type: ignore[no-untyped-call]
            for step, rows in enumerate(batch_sizes):
                _step_forward[_grid(rows, units)](
                    products, carried, recurrent, products if kept is None else kept, gates, cells, outputs,
                    start, rows, before, units,
                    IS_FIRST=step == 0, DROPS=kept is not None,
                    ROWS=ROWS, UNITS=UNITS, INNER=INNER, PRECISION=PRECISION,
                )  # fmt: skip
                start, before = start + rows, start
        ctx.save_for_backward(carried, recurrent, kept, gates, cells, outputs)
        ctx.batch_sizes = batch_sizes
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        carried, recurrent, kept, gates, cells, outputs = ctx.saved_tensors
        sizes = ctx.batch_sizes
        units, d_outputs = carried.shape[1], d_outputs.contiguous()
        d_products, d_carried, d_cells = torch.empty_like(gates), torch.empty_like(carried), torch.empty_like(carried)
        starts, sizes_after = [0, *accumulate(sizes)], [*sizes[1:], 0]
        for step in range(len(sizes) - 1, -1, -1):
            _step_backward[_grid(sizes[step], units)](
                d_outputs, carried, recurrent, gates if kept is None else kept, gates, cells,
                d_products, d_carried, d_cells,
                starts[step], sizes[step], starts[max(step - 1, 0)], starts[step + 1], sizes_after[step], units,
                IS_FIRST=step == 0, IS_LAST=step == len(sizes) - 1, DROPS=kept is not None,
                ROWS=ROWS, UNITS=UNITS, INNER=INNER_BACKWARD, PRECISION=PRECISION,
            )  # fmt: skip
        before = steps_before(sizes, cells.device)
        d_recurrent = d_products[sizes[0] :].t() @ outputs.index_select(0, before)
        return d_products, d_carried, d_recurrent, None, None


def _grid(rows: int, units: int) -> tuple[int, int]:
    return -(-rows // ROWS), -(-units // UNITS)


@triton.jit(do_not_specialize=CHANGING[:3])
def _step_forward(
    products, carried, recurrent, kept, gates, cells, outputs, start, rows, before, units,
    IS_FIRST: tl.constexpr, DROPS: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, INNER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    is_row, is_unit = (row < rows)[:, None], (unit < units)[None, :]
    inside = is_row & is_unit
    token = (start + row).to(tl.int64)[:, None]
    place = token * 5 * units + unit[None, :]
    o = tl.load(products + place, inside, other=0.0)
    t = tl.load(products + place + units, inside, other=0.0)
    i = tl.load(products + place + 2 * units, inside, other=0.0)
    f = tl.load(products + place + 3 * units, inside, other=0.0)
    g = tl.load(products + place + 4 * units, inside, other=0.0)
    last = (before + row).to(tl.int64)[:, None] * units
    if not IS_FIRST:
        for first in range(0, units, INNER):
            inner = first + tl.arange(0, INNER)
            is_inner = inner < units
            h = tl.load(outputs + last + inner[None, :], is_row & is_inner[None, :], other=0.0)
            weight = recurrent + unit[None, :] * units + inner[:, None]  # transposed: what each unit takes from h
            there = is_inner[:, None] & is_unit
            size = units * units
            o = tl.dot(h, tl.load(weight, there, other=0.0), o, input_precision=PRECISION)
            t = tl.dot(h, tl.load(weight + size, there, other=0.0), t, input_precision=PRECISION)
            i = tl.dot(h, tl.load(weight + 2 * size, there, other=0.0), i, input_precision=PRECISION)
            f = tl.dot(h, tl.load(weight + 3 * size, there, other=0.0), f, input_precision=PRECISION)
            g = tl.dot(h, tl.load(weight + 4 * size, there, other=0.0), g, input_precision=PRECISION)
    o, t, i, f, g = tl.sigmoid(o), tl.sigmoid(t), tl.sigmoid(i), tl.sigmoid(f), tanh(g)
    c = i * g
    if not IS_FIRST:
        c += f * tl.load(cells + last + unit[None, :], inside, other=0.0)
    carry = tl.load(carried + token * units + unit[None, :], inside, other=0.0)
    h_new = t * o * tanh(c) + (1 - t) * carry
    if DROPS:
        h_new *= tl.load(kept + row[:, None] * units + unit[None, :], inside, other=0.0)
    tl.store(gates + place, o, inside)
    tl.store(gates + place + units, t, inside)
    tl.store(gates + place + 2 * units, i, inside)
    tl.store(gates + place + 3 * units, f, inside)
    tl.store(gates + place + 4 * units, g, inside)
    tl.store(cells + token * units + unit[None, :], c, inside)
    tl.store(outputs + token * units + unit[None, :], h_new, inside)


@triton.jit(do_not_specialize=CHANGING)
def _step_backward(
    d_outputs, carried, recurrent, kept, gates, cells, d_products, d_carried, d_cells,
    start, rows, before, after, rows_after, units,
    IS_FIRST: tl.constexpr, IS_LAST: tl.constexpr, DROPS: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, INNER: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    unit = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    is_unit = (unit < units)[None, :]
    inside = (row < rows)[:, None] & is_unit
    token = (start + row).to(tl.int64)[:, None]
    own = token * units + unit[None, :]
    d_h = tl.load(d_outputs + own, inside, other=0.0)
    d_c = tl.zeros((ROWS, UNITS), dtype=tl.float32)
    if not IS_LAST:
        goes_on = (row < rows_after)[:, None]
        next_token = (after + row).to(tl.int64)[:, None]
        for first in range(0, 5 * units, INNER):
            inner = first + tl.arange(0, INNER)
            is_inner = inner < 5 * units
            d_gate = tl.load(
                d_products + next_token * 5 * units + inner[None, :], goes_on & is_inner[None, :], other=0.0
            )
            weight = tl.load(recurrent + inner[:, None] * units + unit[None, :], is_inner[:, None] & is_unit, other=0.0)
            d_h = tl.dot(d_gate, weight, d_h, input_precision=PRECISION)
        d_c = tl.load(d_cells + next_token * units + unit[None, :], goes_on & is_unit, other=0.0)
    if DROPS:
        d_h *= tl.load(kept + row[:, None] * units + unit[None, :], inside, other=0.0)
    place = token * 5 * units + unit[None, :]
    o = tl.load(gates + place, inside, other=0.0)
    t = tl.load(gates + place + units, inside, other=0.0)
    i = tl.load(gates + place + 2 * units, inside, other=0.0)
    f = tl.load(gates + place + 3 * units, inside, other=0.0)
    g = tl.load(gates + place + 4 * units, inside, other=0.0)
    squashed = tanh(tl.load(cells + own, inside, other=0.0))
    carry = tl.load(carried + own, inside, other=0.0)
    d_c += d_h * t * o * (1 - squashed * squashed)
    tl.store(d_products + place, d_h * squashed * t * o * (1 - o), inside)
    tl.store(d_products + place + units, d_h * (o * squashed - carry) * t * (1 - t), inside)
    tl.store(d_products + place + 2 * units, d_c * g * i * (1 - i), inside)
    d_f = tl.zeros((ROWS, UNITS), dtype=tl.float32)
    if not IS_FIRST:
        c_before = tl.load(cells + (before + row).to(tl.int64)[:, None] * units + unit[None, :], inside, other=0.0)
        d_f = d_c * c_before * f * (1 - f)
    tl.store(d_products + place + 3 * units, d_f, inside)
    tl.store(d_products + place + 4 * units, d_c * i * (1 - g * g), inside)
    tl.store(d_carried + own, d_h * (1 - t), inside)
    tl.store(d_cells + own, d_c * f, inside)
