"""The GRU recurrence in Triton. `gru_recurrence` explains equations and names.

One kernel computes all steps of a layer, another one the backward pass. A program processes one sentence in one
direction, so programs never wait for each other. It stores all recurrent weights of the direction in registers: a step
multiplies 3 H x H numbers with one vector, and reading these numbers again would take longer than the product.

A program does not process several sentences with tensor cores: these need 16 rows and round to TF32, the weights would
be split into three parts at each step, and most of the GPU would be idle. Sums are float32. Gradients of weights are
matrix products over all tokens, outside of the kernels.

The memory reads of a step do not depend on the step before; they are issued one step ahead.
"""

# Triton has no types, would interpret annotations itself, and has no records: kernels take each value separately.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.nn.triton_training import tanh
from elmore.tasks.modules.gru_recurrence import PackedSteps

MIN_UNITS = 16  # of a program's tile; smaller tiles are not faster


class TritonGruRecurrence(torch.autograd.Function):
    """`gru_recurrence.reference_recurrence` in float32."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,  # (N, 2, 3 H)
        recurrent: Tensor,  # (2, 3 H, H)
        bias: Tensor,  # (2, 3 H)
        steps: PackedSteps,
    ) -> Tensor:  # (N, 2 H)
        tokens, units = len(products), recurrent.shape[2]
        gates = products.new_empty(tokens, 2, 4, units)  # r, z, n and m
        outputs = products.new_empty(tokens, 2 * units)
        # Triton launches on torch's current device, which may not be the tensors' device.
        with torch.cuda.device_of(products):  # type: ignore[no-untyped-call]
            _forward_kernel[_grid(steps)](
                products.contiguous(), recurrent.transpose(1, 2).contiguous(), bias.contiguous(),
                steps.starts, steps.lengths, gates, outputs, units, **_tile(units),
            )  # fmt: skip
        ctx.save_for_backward(recurrent, gates, outputs)
        ctx.steps = steps
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, gates, outputs = ctx.saved_tensors
        tokens, units = len(gates), recurrent.shape[2]
        d_products = gates.new_empty(tokens, 2, 3 * units)
        d_hidden = torch.empty_like(d_products)  # of U h + b
        before = gates.new_empty(tokens, 2, units)  # h of the step before
        _backward_kernel[_grid(ctx.steps)](
            d_outputs.contiguous(), recurrent.contiguous(), ctx.steps.starts, ctx.steps.lengths, gates, outputs,
            d_products, d_hidden, before, units, **_tile(units),
        )  # fmt: skip
        d_recurrent = torch.bmm(d_hidden.permute(1, 2, 0), before.transpose(0, 1))
        return d_products, d_recurrent, d_hidden.sum(dim=0), None


def _grid(steps: PackedSteps) -> tuple[int]:
    return (2 * len(steps.lengths),)


def _tile(units: int) -> dict[str, int]:
    size = max(int(triton.next_power_of_2(units)), MIN_UNITS)
    # With 8 warps and 128 units each thread has 192 weights; it has 255 registers.
    return {"UNITS": size, "num_warps": 8 if size > 64 else 4}


# `units` must not be specialized: if rows are not known to be 16-byte aligned, Triton distributes single weights over
# the threads. A warp then has 32 columns, and a sum over rows stays within a thread except for its last addition.
@triton.jit(do_not_specialize=["units"])
def _forward_kernel(products, recurrent, bias, starts, lengths, gates, outputs, units, UNITS: tl.constexpr):
    sentence, direction = tl.program_id(0) // 2, tl.program_id(0) % 2
    unit = tl.arange(0, UNITS)
    is_unit = unit < units
    # Transposed: a row for each unit of h, with its weights for all gates.
    row = tl.arange(0, UNITS)[:, None]
    inside = (row < units) & is_unit[None, :]
    u_r, u_z, u_n = _load_three(recurrent + (direction * units + row) * 3 * units + unit[None, :], units, inside)
    b_r, b_z, b_n = _load_three(bias + direction * 3 * units + unit, units, is_unit)
    length = tl.load(lengths + sentence)
    last, move = length - 1, 1 - 2 * direction
    step = direction * last
    token = _token(starts, step, last, sentence, direction)
    token_after = _token(starts, step + move, last, sentence, direction)
    x_r, x_z, x_n = _load_three(products + token * 3 * units + unit, units, is_unit)
    h = tl.zeros((UNITS,), dtype=tl.float32)
    for _ in range(length):
        # After the last step the last token is read again and not used.
        next_r, next_z, next_n = _load_three(products + token_after * 3 * units + unit, units, is_unit)
        step += move
        token_next = _token(starts, step + move, last, sentence, direction)
        r = tl.sigmoid(x_r + b_r + tl.sum(h[:, None] * u_r, axis=0))
        z = tl.sigmoid(x_z + b_z + tl.sum(h[:, None] * u_z, axis=0))
        m = b_n + tl.sum(h[:, None] * u_n, axis=0)
        n = tanh(x_n + r * m)
        h = n + z * (h - n)
        gate = gates + token * 4 * units + unit
        _store_three(gate, r, z, n, units, is_unit)
        tl.store(gate + 3 * units, m, is_unit)
        tl.store(outputs + token * units + unit, h, is_unit)
        x_r, x_z, x_n = next_r, next_z, next_n
        token, token_after = token_after, token_next


@triton.jit(do_not_specialize=["units"])
def _backward_kernel(
    d_outputs, recurrent, starts, lengths, gates, outputs, d_products, d_hidden, before, units, UNITS: tl.constexpr
):
    sentence, direction = tl.program_id(0) // 2, tl.program_id(0) % 2
    unit = tl.arange(0, UNITS)
    is_unit = unit < units
    # A row for each unit of a gate, with its weights for all of h.
    row = tl.arange(0, UNITS)[:, None]
    inside = (row < units) & is_unit[None, :]
    weight = recurrent + (direction * 3 * units + row) * units + unit[None, :]
    u_r, u_z, u_n = _load_three(weight, units * units, inside)
    length = tl.load(lengths + sentence)
    last, move = length - 1, 2 * direction - 1
    step = (1 - direction) * last
    token = _token(starts, step, last, sentence, direction)
    token_before = _token(starts, step + move, last, sentence, direction)
    gate = gates + token * 4 * units + unit
    r, z, n = _load_three(gate, units, is_unit)
    m = tl.load(gate + 3 * units, is_unit, other=0.0)
    d_output = tl.load(d_outputs + token * units + unit, is_unit, other=0.0)
    d_h = tl.zeros((UNITS,), dtype=tl.float32)
    for number in range(length):
        # Before the first token, h is zero.
        valid = tl.where(number < last, units, 0)
        h = tl.load(outputs + token_before * units + unit, unit < valid, other=0.0)
        gate = gates + token_before * 4 * units + unit
        next_r, next_z, next_n = _load_three(gate, units, is_unit)
        next_m = tl.load(gate + 3 * units, is_unit, other=0.0)
        next_d_output = tl.load(d_outputs + token_before * units + unit, is_unit, other=0.0)
        step += move
        token_next = _token(starts, step + move, last, sentence, direction)
        d_h += d_output
        d_n = d_h * (1 - z) * (1 - n * n)
        d_z = d_h * (h - n) * z * (1 - z)
        d_r = d_n * m * r * (1 - r)
        d_m = d_n * r
        _store_three(d_products + token * 3 * units + unit, d_r, d_z, d_n, units, is_unit)
        _store_three(d_hidden + token * 3 * units + unit, d_r, d_z, d_m, units, is_unit)
        tl.store(before + token * units + unit, h, is_unit)
        # Three sums, not one sum of three products, which would need too many registers.
        d_h = d_h * z + tl.sum(d_r[:, None] * u_r, axis=0)
        d_h += tl.sum(d_z[:, None] * u_z, axis=0)
        d_h += tl.sum(d_m[:, None] * u_n, axis=0)
        r, z, n, m, d_output = next_r, next_z, next_n, next_m, next_d_output
        token, token_before = token_before, token_next


@triton.jit
def _token(starts, step, last, sentence, direction):
    """The index of a step's token in one direction; steps outside of the sentence are clamped to its ends."""
    within = tl.minimum(tl.maximum(step, 0), last)
    return (tl.load(starts + within) + sentence) * 2 + direction


@triton.jit
def _load_three(pointer, stride, mask):
    first = tl.load(pointer, mask, other=0.0)
    second = tl.load(pointer + stride, mask, other=0.0)
    third = tl.load(pointer + 2 * stride, mask, other=0.0)
    return first, second, third


@triton.jit
def _store_three(pointer, first, second, third, stride, mask):
    tl.store(pointer, first, mask)
    tl.store(pointer + stride, second, mask)
    tl.store(pointer + 2 * stride, third, mask)
