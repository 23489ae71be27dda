"""The recurrence of the highway LSTM in Triton, a kernel a layer; `highway_recurrence` has the equations and the names.

All steps of a layer are one kernel, forth, and one back. A program has some of the sentences with all of their units,
and waits for no other. So it multiplies all recurrent weights at each step, and reads them from the GPU's second cache
every time, which is what a step costs; it costs no launch, and the few programs leave most of the GPU to others.

What is multiplied is split into two numbers of 16 bits, one rounded and one that was left over, and three products are
summed in float32; that of two leftovers would not be seen. Weights are split before, h and the gradients of gates when
they are made, so that the inner loop reads and multiplies and does nothing else. Triton would split by itself, into
numbers of TensorFloat-32, but in that loop, where most instructions would be for it.
Forth the parts are of float16, and lose about what sums in float32 do. After an h beyond their range, 65,504, all is
NaN: the error is seen. Back they are of bfloat16, which loses more; but gradients may be of any size, and are held to
less.
"""

# Triton has no types and would take annotations for its own, and no records, so kernels take all they need one by one.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.devices import send
from elmore.kernels.highway_recurrence import GATES, steps_before
from elmore.kernels.triton_cell import _tanh

ROWS = 16  # sentences of a program; the fewest that a product may have
UNITS, INNER = 64, 32  # made, and summed over, at once; the second divides the first
# So many threads have registers enough. So many pieces of weights, most on their way, take more shared memory than
# processors for graphics have: those would need fewer.
LAUNCH = {"num_warps": 8, "num_stages": 4}
DOT_TYPE, DOT_TYPE_BACKWARD = tl.float16, tl.bfloat16  # of the numbers that are multiplied


class TritonLayerRecurrence(torch.autograd.Function):
    """As the explicit recurrence of `highway_recurrence`, in float32."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,  # (N, 5 H)
        carried: Tensor,  # (N, H)
        recurrent: Tensor,  # (5 H, H)
        kept: Tensor | None,  # (B, H)
        batch_sizes: tuple[int, ...],
    ) -> Tensor:  # (N, H)
        products, carried, weights = products.contiguous(), carried.contiguous(), _split(recurrent, torch.float16)
        gates, cells, outputs = torch.empty_like(products), torch.empty_like(carried), torch.empty_like(carried)
        sentences, padded = batch_sizes[0], weights.shape[-1]
        tiles = -(-sentences // ROWS)
        states = weights.new_empty(2, 2, tiles * ROWS, padded)  # h of this step and the last, in two parts
        steps = _steps(batch_sizes, products.device)
        # Triton launches on the device that torch is at, which need not be the tensors'.
        with torch.cuda.device_of(products):  # type: ignore[no-untyped-call]
            _layer_forward[(tiles,)](
                products, carried, weights, products if kept is None else kept, steps, gates, cells, outputs, states,
                len(batch_sizes), sentences, HIDDEN=carried.shape[1], PADDED=padded, DROPS=kept is not None,
                ROWS=ROWS, UNITS=UNITS, INNER=INNER, DOT_TYPE=DOT_TYPE, **LAUNCH,
            )  # fmt: skip
        ctx.save_for_backward(carried, recurrent, kept, steps, gates, cells, outputs)
        ctx.batch_sizes = batch_sizes
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        carried, recurrent, kept, steps, gates, cells, outputs = ctx.saved_tensors
        weights = _split(recurrent, torch.bfloat16)
        d_products, d_carried = torch.empty_like(gates), torch.empty_like(carried)
        sentences, padded = ctx.batch_sizes[0], weights.shape[-1]
        tiles = -(-sentences // ROWS)
        d_gates = weights.new_empty(2, 2, tiles * ROWS, GATES, padded)  # of this step and the next, in two parts
        d_cells = cells.new_empty(tiles * ROWS, padded)
        _layer_backward[(tiles,)](
            d_outputs.contiguous(), carried, weights, gates if kept is None else kept, steps, gates, cells,
            d_products, d_carried, d_gates, d_cells,
            len(ctx.batch_sizes), sentences, HIDDEN=carried.shape[1], PADDED=padded, DROPS=kept is not None,
            ROWS=ROWS, UNITS=UNITS, INNER=INNER, DOT_TYPE=DOT_TYPE_BACKWARD, **LAUNCH,
        )  # fmt: skip
        before = steps_before(ctx.batch_sizes, cells.device)
        d_recurrent = d_products[sentences:].t() @ outputs.index_select(0, before)
        return d_products, d_carried, d_recurrent, None, None


def _split(recurrent: Tensor, dtype: torch.dtype) -> Tensor:  # (5 H, H) -> (2, 5, P, P)
    """Both parts of all weights, with zeros up to whole tiles: P is H rounded up."""
    units = recurrent.shape[1]
    padded = -(-units // UNITS) * UNITS
    weights = recurrent.reshape(GATES, units, units)
    parts = recurrent.new_zeros(2, GATES, padded, padded, dtype=dtype)
    high, low = parts[:, :, :units, :units]
    high.copy_(weights)
    low.copy_(weights - high)
    return parts


def _steps(batch_sizes: tuple[int, ...], device: torch.device) -> Tensor:  # (T + B,)
    """Where the tokens of each step start, and then how many tokens each sentence has."""
    sizes = np.array(batch_sizes)
    lengths = (sizes[:, None] > np.arange(sizes[0])).sum(axis=0)
    return send(torch.from_numpy(np.concatenate([np.cumsum(sizes) - sizes, lengths])), device)


# Numbers that are other ones for each batch: a kernel for those that 16 divides, and one for 1, would be compiled anew.
@triton.jit(do_not_specialize=["most_steps", "sentences"])
def _layer_forward(
    products, carried, weights, kept, steps, gates, cells, outputs, states, most_steps, sentences,
    HIDDEN: tl.constexpr, PADDED: tl.constexpr, DROPS: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, INNER: tl.constexpr, DOT_TYPE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    length = tl.load(steps + most_steps + row, row < sentences, other=0)
    longest = tl.load(steps + most_steps + tl.program_id(0) * ROWS)  # the first
    low = tl.num_programs(0) * ROWS * PADDED  # from the high part of h to the low one
    for step in range(longest):
        token = tl.load(steps + step) + row[:, None]
        before = tl.load(steps + tl.maximum(step - 1, 0)) + row[:, None]
        h_before = states + (step + 1) % 2 * 2 * low + row[:, None] * PADDED
        h_after = states + step % 2 * 2 * low + row[:, None] * PADDED
        inner_end = tl.where(step > 0, PADDED, 0)  # before the first step h is zero
        for first_unit in range(0, PADDED, UNITS):
            unit = first_unit + tl.arange(0, UNITS)[None, :]
            inside = (step < length)[:, None] & (unit < HIDDEN)
            own, place = token * HIDDEN + unit, token * 5 * HIDDEN + unit
            # What does not depend on h is on its way while that is multiplied.
            x_o, x_t, x_i, x_f, x_g = _load_gates(products + place, HIDDEN, inside)
            c_before = tl.load(cells + before * HIDDEN + unit, inside & (before < token), other=0.0)
            carry = tl.load(carried + own, inside, other=0.0)
            if DROPS:
                keep = tl.load(kept + row[:, None] * HIDDEN + unit, inside, other=0.0)
            o = tl.zeros((ROWS, UNITS), dtype=tl.float32)
            t, i, f, g = o, o, o, o
            for first in range(0, inner_end, INNER):
                inner = first + tl.arange(0, INNER)
                h = h_before + inner[None, :]
                weight = weights + unit * PADDED + inner[:, None]  # transposed: what each unit takes from h
                o, t, i, f, g = _add_products(o, t, i, f, g, h, 0, low, weight, PADDED * PADDED, DOT_TYPE)
            o, t, i, f = tl.sigmoid(x_o + o), tl.sigmoid(x_t + t), tl.sigmoid(x_i + i), tl.sigmoid(x_f + f)
            g = _tanh(x_g + g)
            c = f * c_before + i * g
            h_new = t * o * _tanh(c) + (1 - t) * carry
            if DROPS:
                h_new *= keep
            _store_gates(gates + place, HIDDEN, inside, o, t, i, f, g)
            tl.store(cells + own, c, inside)
            tl.store(outputs + own, h_new, inside)
            _store_split(h_after + unit, low, h_new)  # whole tiles; zeros where there is no unit
        # The next step reads what other threads have written.
        tl.debug_barrier()


@triton.jit(do_not_specialize=["most_steps", "sentences"])
def _layer_backward(
    d_outputs, carried, weights, kept, steps, gates, cells, d_products, d_carried, d_gates, d_cells,
    most_steps, sentences,
    HIDDEN: tl.constexpr, PADDED: tl.constexpr, DROPS: tl.constexpr,
    ROWS: tl.constexpr, UNITS: tl.constexpr, INNER: tl.constexpr, DOT_TYPE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    length = tl.load(steps + most_steps + row, row < sentences, other=0)
    longest = tl.load(steps + most_steps + tl.program_id(0) * ROWS)
    low = tl.num_programs(0) * ROWS * 5 * PADDED
    for number in range(longest):
        step = longest - 1 - number
        token = tl.load(steps + step) + row[:, None]
        before = tl.load(steps + tl.maximum(step - 1, 0)) + row[:, None]
        d_gates_after = d_gates + (number + 1) % 2 * 2 * low + row[:, None] * 5 * PADDED
        d_gates_here = d_gates + number % 2 * 2 * low + row[:, None] * 5 * PADDED
        inner_end = tl.where(number > 0, PADDED, 0)
        for first_unit in range(0, PADDED, UNITS):
            unit = first_unit + tl.arange(0, UNITS)[None, :]
            inside = (step < length)[:, None] & (unit < HIDDEN)
            own, place = token * HIDDEN + unit, token * 5 * HIDDEN + unit
            d_cell = d_cells + row[:, None] * PADDED + unit
            d_h = tl.load(d_outputs + own, inside, other=0.0)
            d_c = tl.load(d_cell, inside & (step + 1 < length)[:, None], other=0.0)
            o, t, i, f, g = _load_gates(gates + place, HIDDEN, inside)
            c = tl.load(cells + own, inside, other=0.0)
            c_before = tl.load(cells + before * HIDDEN + unit, inside & (before < token), other=0.0)
            carry = tl.load(carried + own, inside, other=0.0)
            if DROPS:
                keep = tl.load(kept + row[:, None] * HIDDEN + unit, inside, other=0.0)
            by_o = tl.zeros((ROWS, UNITS), dtype=tl.float32)
            by_t, by_i, by_f, by_g = by_o, by_o, by_o, by_o  # apart, so that no product waits for another's sum
            for first in range(0, inner_end, INNER):
                inner = first + tl.arange(0, INNER)
                d_gate = d_gates_after + inner[None, :]
                weight = weights + inner[:, None] * PADDED + unit
                by_o, by_t, by_i, by_f, by_g = _add_products(
                    by_o, by_t, by_i, by_f, by_g, d_gate, PADDED, low, weight, PADDED * PADDED, DOT_TYPE
                )
            d_h += by_o + by_t + by_i + by_f + by_g
            if DROPS:
                d_h *= keep
            squashed = _tanh(c)
            d_c += d_h * t * o * (1 - squashed * squashed)
            d_o, d_t = d_h * squashed * t * o * (1 - o), d_h * (o * squashed - carry) * t * (1 - t)
            d_i, d_f, d_g = d_c * g * i * (1 - i), d_c * c_before * f * (1 - f), d_c * i * (1 - g * g)
            _store_gates(d_products + place, HIDDEN, inside, d_o, d_t, d_i, d_f, d_g)
            tl.store(d_carried + own, d_h * (1 - t), inside)
            # Whole tiles; zeros where there is no unit, and where a sentence has ended before this step.
            tl.store(d_cell, d_c * f)
            d_gate = d_gates_here + unit
            _store_split(d_gate, low, d_o)
            _store_split(d_gate + PADDED, low, d_t)
            _store_split(d_gate + 2 * PADDED, low, d_i)
            _store_split(d_gate + 3 * PADDED, low, d_f)
            _store_split(d_gate + 4 * PADDED, low, d_g)
        tl.debug_barrier()


@triton.jit
def _add_products(o, t, i, f, g, left, left_apart, left_low, weight, SIZE: tl.constexpr, DOT_TYPE: tl.constexpr):
    """Five sums, and to each the product of what is at `left`, its low part further on, with the weights of a gate."""
    left_o, left_t, left_i, left_f, left_g = _load_factors(left, left_apart, DOT_TYPE)
    low_o, low_t, low_i, low_f, low_g = _load_factors(left + left_low, left_apart, DOT_TYPE)
    u_o, u_t, u_i, u_f, u_g = _load_factors(weight, SIZE, DOT_TYPE)
    v_o, v_t, v_i, v_f, v_g = _load_factors(weight + 5 * SIZE, SIZE, DOT_TYPE)  # low parts
    # Sums take turns, so that a product need not wait for the one before.
    o, t, i = tl.dot(left_o, u_o, o), tl.dot(left_t, u_t, t), tl.dot(left_i, u_i, i)
    f, g = tl.dot(left_f, u_f, f), tl.dot(left_g, u_g, g)
    o, t, i = tl.dot(low_o, u_o, o), tl.dot(low_t, u_t, t), tl.dot(low_i, u_i, i)
    f, g = tl.dot(low_f, u_f, f), tl.dot(low_g, u_g, g)
    o, t, i = tl.dot(left_o, v_o, o), tl.dot(left_t, v_t, t), tl.dot(left_i, v_i, i)
    f, g = tl.dot(left_f, v_f, f), tl.dot(left_g, v_g, g)
    return o, t, i, f, g


@triton.jit
def _load_factors(place, apart, DOT_TYPE: tl.constexpr):
    o = tl.load(place).to(DOT_TYPE)
    t = tl.load(place + apart).to(DOT_TYPE)
    i = tl.load(place + 2 * apart).to(DOT_TYPE)
    f = tl.load(place + 3 * apart).to(DOT_TYPE)
    g = tl.load(place + 4 * apart).to(DOT_TYPE)
    return o, t, i, f, g


@triton.jit
def _store_split(place, low, number):
    high = number.to(place.dtype.element_ty)
    tl.store(place, high)
    tl.store(place + low, (number - high.to(tl.float32)).to(place.dtype.element_ty))


@triton.jit
def _load_gates(place, apart, inside):
    o = tl.load(place, inside, other=0.0)
    t = tl.load(place + apart, inside, other=0.0)
    i = tl.load(place + 2 * apart, inside, other=0.0)
    f = tl.load(place + 3 * apart, inside, other=0.0)
    g = tl.load(place + 4 * apart, inside, other=0.0)
    return o, t, i, f, g


@triton.jit
def _store_gates(place, apart, inside, o, t, i, f, g):
    tl.store(place, o, inside)
    tl.store(place + apart, t, inside)
    tl.store(place + 2 * apart, i, inside)
    tl.store(place + 3 * apart, f, inside)
    tl.store(place + 4 * apart, g, inside)
