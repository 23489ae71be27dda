"""The kernel of an LSTM layer for training: what it takes and returns, and the forms in plain torch.

    i, j, f, o = σ, tanh, σ, σ of the four parts of x @ input + h @ recurrent + bias
    c = clip(f * c + i * j)
    m = o * tanh(c)
    h = clip(m @ projection)

The clipped c and h are both the state and the output. Without a projection h = m, unclipped.
Not torch.nn.LSTM: it cannot clip, and the published weights were trained with clipping.

`AUTOGRAD_LSTM` is differentiated by autograd, any number of times, and is the specification of all other kernels.
`lstm_kernel` returns a kernel with a written backward pass: the products of the inputs are computed before the loop,
the gradients of all weights after it, and a step has two products and one pointwise function. The control flow does not
depend on values, so a CUDA graph can capture it. The pointwise functions are `TORCH_CELL` or `TRITON_CELL`.

G directions, T steps, B rows, P vector size, D cells. Steps come before rows: the inputs of a step are adjacent.
Products and gates may be rounded. Cells never are: they are sums over a text.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from elmore.engine.weights import Clips

HiddenTensors = tuple[Tensor, Tensor]  # h (G, B, P), and c (G, B, D) which may be more exact

# `AUTOGRAD_LSTM` computes the products of the inputs for this many steps: for all steps of a long sentence they would
# take gigabytes.
STEPS_AT_ONCE = 32


class LstmTensors(NamedTuple):
    """The weights of one layer for all directions; the bias includes the forget bias."""

    input: Tensor  # (G, P, 4D)
    recurrent: Tensor  # (G, P, 4D)
    bias: Tensor  # (G, 4D)
    projection: Tensor | None  # (G, D, P)
    clips: Clips


class LstmKernel(NamedTuple):
    """A way to run a layer.

    `prepare(weights, dtype)` converts the weights to the form that `run` takes, for products of type `dtype`.

    `run(prepared, inputs, lengths, state)` runs each row to its end. Inputs are (G, T, B, P), each direction in its
    reading order, finite also beyond a row's end; lengths (B,) never increase. It returns all outputs (G, T, B, P),
    zero beyond a row's end, and the state after the last step of each row.
    """

    prepare: Callable[[LstmTensors, torch.dtype], Any]
    run: Callable[[Any, Tensor, Sequence[int], HiddenTensors], tuple[Tensor, HiddenTensors]]


def rows_at_each_step(lengths: Sequence[int], steps: int) -> list[int]:
    """How many rows, longest first, have not ended at each step.

    >>> rows_at_each_step([3, 1, 1], steps=3)
    [3, 1, 1]
    """
    return [bisect_left(lengths, -step, key=lambda length: -length) for step in range(steps)]


# By autograd.


def run_by_autograd(
    weights: LstmTensors,
    inputs: Tensor,  # (G, T, B, P)
    lengths: Sequence[int],
    state: HiddenTensors,
) -> tuple[Tensor, HiddenTensors]:
    """See `LstmKernel.run`."""
    h, c = state
    outputs = []
    steps = inputs.shape[1]
    active = rows_at_each_step(lengths, steps)
    for start in range(0, steps, STEPS_AT_ONCE):
        chunk = inputs[:, start : start + STEPS_AT_ONCE, : active[start]]  # (G, S, active, P)
        products = torch.einsum("gsbp,gpd->gsbd", chunk, weights.input) + weights.bias[:, None, None]
        for step, product in enumerate(products.unbind(dim=1), start):
            n = active[step]
            gates = product[:, :n] + torch.bmm(h[:, :n], weights.recurrent)
            new_h, new_c = _step_by_autograd(gates, c[:, :n], weights.projection, weights.clips)
            outputs.append(pad(new_h, (0, 0, 0, len(lengths) - n)))
            # Rows that have ended keep the state after their last step.
            h = torch.cat([new_h, h[:, n:]], dim=1)
            c = torch.cat([new_c, c[:, n:]], dim=1)
    return torch.stack(outputs, dim=1), (h, c)


def _unchanged(weights: LstmTensors, dtype: torch.dtype) -> LstmTensors:  # noqa: ARG001  # autocast rounds by itself
    return weights


AUTOGRAD_LSTM = LstmKernel(_unchanged, run_by_autograd)


def _step_by_autograd(gates: Tensor, c: Tensor, projection: Tensor | None, clips: Clips) -> HiddenTensors:
    i, j, f, o = gates.chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j)
    if clips.cell is not None:
        c = c.clamp(-clips.cell, clips.cell)
    h = torch.sigmoid(o) * torch.tanh(c)
    if projection is not None:
        h = torch.bmm(h, projection)
        if clips.projection is not None:
            h = h.clamp(-clips.projection, clips.projection)
    return h, c


# The pointwise functions of a step, forward and backward, into given tensors.


class LstmStep(NamedTuple):
    """The values of one step that the forward pass fills and the backward pass reads."""

    gates: Tensor  # (G, B, 4D) i, j, f, o
    c_before: Tensor  # (G, B, D)
    c_after: Tensor  # (G, B, D)
    m: Tensor  # (G, B, D)


class CellFunctions(NamedTuple):
    """`TORCH_CELL`, or four functions with the same results."""

    forward: Callable[[Tensor, Tensor, Tensor, LstmStep, float], None]
    backward: Callable[[Tensor, Tensor, LstmStep, Tensor, float], None]
    clip: Callable[[Tensor, Tensor, float], None]
    clip_backward: Callable[[Tensor, Tensor, Tensor, Tensor, float], None]


def cell_forward(x: Tensor, r: Tensor, bias: Tensor, step: LstmStep, clip: float) -> None:
    """From the products x and r (G, B, 4D), the bias (G, 4D) and `step.c_before` fill the rest of the step."""
    # In the tensors themselves, unless they are rounded.
    rounded = x.dtype != step.c_before.dtype
    gates = x.to(step.c_before.dtype) + r if rounded else torch.add(x, r, out=step.gates)
    gates += bias[:, None]
    i, j, f, o = gates.chunk(4, dim=-1)
    for squash, part in ((torch.sigmoid, i), (torch.tanh, j), (torch.sigmoid, f), (torch.sigmoid, o)):
        squash(part, out=part)
    torch.mul(f, step.c_before, out=step.c_after).addcmul_(i, j).clamp_(-clip, clip)
    step.m.copy_(torch.tanh(step.c_after).mul_(o))
    if gates is not step.gates:
        step.gates.copy_(gates)


def cell_backward(d_m: Tensor, d_c: Tensor, step: LstmStep, d_z: Tensor, clip: float) -> None:
    """From d_m (G, B, D) and the d_c of the next step, fill d_z (G, B, 4D) and change d_c to that of this step."""
    i, j, f, o = step.gates.to(d_c.dtype).chunk(4, dim=-1)
    d_m = d_m.to(d_c.dtype)
    squashed = torch.tanh(step.c_after)
    d_c += torch.ops.aten.tanh_backward(d_m * o, squashed)
    # Where the clip holds the cell, its gradient is zero.
    d_c.masked_fill_(step.c_after.abs() >= clip, 0)
    d_i, d_j, d_f, d_o = d_z.chunk(4, dim=-1)
    d_i.copy_(torch.ops.aten.sigmoid_backward(d_c * j, i))
    d_j.copy_(torch.ops.aten.tanh_backward(d_c * i, j))
    d_f.copy_(torch.ops.aten.sigmoid_backward(d_c * step.c_before, f))
    d_o.copy_(torch.ops.aten.sigmoid_backward(d_m * squashed, o))
    d_c *= f


def clip_output(projected: Tensor, h: Tensor, clip: float) -> None:
    """Fill h (G, B, P) with the clipped values."""
    torch.clamp(projected, -clip, clip, out=h)


def clip_output_backward(d_h: Tensor, d_next: Tensor, h: Tensor, d_projected: Tensor, clip: float) -> None:
    """Add the gradients of h, from above and from the next step; where the clip holds h, they are zero."""
    torch.add(d_h, d_next, out=d_projected)
    d_projected.masked_fill_(h.abs() >= clip, 0)


TORCH_CELL = CellFunctions(cell_forward, cell_backward, clip_output, clip_output_backward)


# With a written backward pass.


def lstm_kernel(cell: CellFunctions) -> LstmKernel:
    """The kernel over these pointwise functions."""
    return LstmKernel(prepare, partial(run_lstm, cell=cell))


def prepare(weights: LstmTensors, dtype: torch.dtype) -> LstmTensors:
    """The matrices in the type of the products; the bias, which is only added, stays exact."""
    projection = None if weights.projection is None else weights.projection.to(dtype)
    return weights._replace(input=weights.input.to(dtype), recurrent=weights.recurrent.to(dtype), projection=projection)


def run_lstm(
    weights: LstmTensors,
    inputs: Tensor,  # (G, T, B, P)
    lengths: Sequence[int],
    state: HiddenTensors,
    *,
    cell: CellFunctions,
) -> tuple[Tensor, HiddenTensors]:
    """See `LstmKernel.run`."""
    directions, steps, rows, _ = inputs.shape
    dtype, device = weights.input.dtype, inputs.device.type
    # The weights are rounded already. Autocast does not reach into a backward pass, and would round half of the work.
    with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
        products = torch.bmm(inputs.to(dtype).flatten(1, 2), weights.input)  # (G, T * B, 4D)
        products = products.view(directions, steps, rows, weights.input.shape[2])
        h, c = state
        outputs: Tensor
        outputs, last_h, last_c = _Loop.apply(  # type: ignore[no-untyped-call]
            products, h.to(dtype), c, *weights[1:4], _LoopOptions(weights.clips, lengths, cell)
        )
    return outputs, (last_h, last_c)


class _LoopOptions(NamedTuple):
    """The arguments of the loop that are not tensors."""

    clips: Clips
    lengths: Sequence[int]
    cell: CellFunctions


class _Loop(torch.autograd.Function):
    """The steps, from the products of the inputs to the outputs."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,  # (G, T, B, 4D)
        h: Tensor,  # (G, B, P)
        c: Tensor,  # (G, B, D)
        recurrent: Tensor,  # (G, P, 4D)
        bias: Tensor,  # (G, 4D)
        projection: Tensor | None,  # (G, D, P)
        options: _LoopOptions,
    ) -> tuple[Tensor, Tensor, Tensor]:
        clips, lengths, cell = options
        cell_clip = math.inf if clips.cell is None else clips.cell
        h_clip = math.inf if clips.projection is None or projection is None else clips.projection
        directions, steps, rows, _ = products.shape
        active = rows_at_each_step(lengths, steps)
        # Where rows end early, the values beyond their end are zero.
        new = torch.Tensor.new_zeros if active[-1] < rows else torch.Tensor.new_empty
        gates = new(products, products.shape)
        cells = new(c, (directions, steps + 1, rows, c.shape[-1]))
        m = new(products, (directions, steps, rows, c.shape[-1]))
        cells[:, 0] = c
        # One more than steps: each starts from the output of the previous one, the first from the state.
        outputs = new(products, (directions, steps + 1, rows, h.shape[-1]))
        outputs[:, 0] = h
        for t, n in enumerate(active):
            # Not baddbmm, which would copy the products first.
            recurred = torch.bmm(outputs[:, t, :n], recurrent)
            step = LstmStep(gates[:, t, :n], cells[:, t, :n], cells[:, t + 1, :n], m[:, t, :n])
            cell.forward(products[:, t, :n], recurred, bias, step, cell_clip)
            if projection is None:
                outputs[:, t + 1, :n] = step.m
            else:
                cell.clip(torch.bmm(step.m, projection), outputs[:, t + 1, :n], h_clip)
        ctx.save_for_backward(gates, cells, m, outputs, recurrent, projection)
        ctx.cell, ctx.clips, ctx.active, ctx.bias_dtype = cell, (cell_clip, h_clip), active, bias.dtype
        ctx.set_materialize_grads(False)
        return outputs[:, 1:], _after(outputs, lengths), _after(cells, lengths)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_outputs: Tensor | None, d_last_h: Tensor | None, d_last_c: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        gates, cells, m, outputs, recurrent, projection = ctx.saved_tensors
        cell_clip, h_clip = ctx.clips
        rows = gates.shape[2]
        new = torch.zeros_like if ctx.active[-1] < rows else torch.empty_like
        # A gradient may be one expanded number.
        d_outputs = torch.zeros_like(outputs[:, 1:]) if d_outputs is None else d_outputs.contiguous()
        back_recurrent = recurrent.transpose(1, 2)
        d_products = new(gates)
        d_projected = new(d_outputs)  # (G, T, B, P) of m @ projection
        d_h = torch.zeros_like(outputs[:, 0]) if d_last_h is None else d_last_h.contiguous()
        d_c = torch.zeros_like(cells[:, 0])
        if d_last_c is not None:
            d_c += d_last_c
        for t, n in reversed(list(enumerate(ctx.active))):
            d_m = d_projected[:, t, :n]
            ctx.cell.clip_backward(d_outputs[:, t, :n], d_h[:, :n], outputs[:, t + 1, :n], d_m, h_clip)
            if projection is not None:
                d_m = torch.bmm(d_m, projection.transpose(1, 2))
            step = LstmStep(gates[:, t, :n], cells[:, t, :n], cells[:, t + 1, :n], m[:, t, :n])
            ctx.cell.backward(d_m, d_c[:, :n], step, d_products[:, t, :n], cell_clip)
            d_before = torch.bmm(d_products[:, t, :n], back_recurrent)
            # Rows that end later have, so far, only the gradient of their last state.
            d_h = d_before if n == rows else torch.cat([d_before, d_h[:, n:]], dim=1)
        before = outputs[:, :-1].flatten(1, 2)  # (G, T * B, P) the h that each step starts from
        d_recurrent = torch.bmm(before.transpose(1, 2), d_products.flatten(1, 2))
        d_projection = None
        if projection is not None:
            d_projection = torch.bmm(m.flatten(1, 2).transpose(1, 2), d_projected.flatten(1, 2))
        d_bias = d_products.sum(dim=(1, 2), dtype=ctx.bias_dtype)
        return d_products, d_h, d_c, d_recurrent, d_bias, d_projection, None


def _after(steps: Tensor, lengths: Sequence[int]) -> Tensor:
    """(G, B, ...) of a tensor (G, T + 1, B, ...) the values after the last step of each row."""
    if not lengths or lengths[-1] == steps.shape[1] - 1:
        return steps[:, -1].clone()
    return steps[:, list(lengths), range(len(lengths))]
