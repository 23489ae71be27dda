"""The recurrence with its backward pass written out by hand: what trains.

The same as `reference`. What makes it fast is the order of work: the products of the inputs are made before the loop,
the gradients of all weights once after it, and between them a step holds two products and one pointwise function.
Nothing in it depends on values, so that the whole can be captured in a CUDA graph.

The pointwise functions are those of `cell`, in plain torch or as Triton kernels.

G directions, T steps, B rows, P vector size, D cells.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.kernels.cell import CellFunctions, LstmStep
from elmore.kernels.recurrence import Clips, HiddenState, LstmWeights, Recurrence, rows_at_each_step


def recurrence_with(cell: CellFunctions) -> Recurrence:
    """The recurrence over these pointwise functions."""
    return Recurrence(prepare, partial(recur, cell=cell))


def prepare(weights: LstmWeights, dtype: torch.dtype) -> LstmWeights:
    """The matrices as they are multiplied; the bias, which is only added, stays exact."""
    projection = None if weights.projection is None else weights.projection.to(dtype)
    return weights._replace(input=weights.input.to(dtype), recurrent=weights.recurrent.to(dtype), projection=projection)


def recur(
    weights: LstmWeights,
    inputs: Tensor,  # (G, T, B, P)
    lengths: Sequence[int],
    state: HiddenState,
    *,
    cell: CellFunctions,
) -> tuple[Tensor, HiddenState]:
    """Read every row to its own end; see `Recurrence`."""
    directions, steps, rows, _ = inputs.shape
    dtype, device = weights.input.dtype, inputs.device.type
    # The weights have been rounded already; autocast does not reach into a backward pass, and would leave it half done.
    with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
        products = torch.bmm(inputs.to(dtype).flatten(1, 2), weights.input)  # (G, T * B, 4D)
        products = products.view(directions, steps, rows, weights.input.shape[2])
        h, c = state
        outputs: Tensor
        outputs, last_h, last_c = _Recurrence.apply(  # type: ignore[no-untyped-call]
            products, h.to(dtype), c, *weights[1:4], _Loop(weights.clips, lengths, cell)
        )
    return outputs, (last_h, last_c)


class _Loop(NamedTuple):
    """What the loop needs beside tensors."""

    clips: Clips
    lengths: Sequence[int]
    cell: CellFunctions


class _Recurrence(torch.autograd.Function):
    """The loop itself, from the products of the inputs to the outputs."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,  # (G, T, B, 4D)
        h: Tensor,  # (G, B, P)
        c: Tensor,  # (G, B, D)
        recurrent: Tensor,  # (G, P, 4D)
        bias: Tensor,  # (G, 4D)
        projection: Tensor | None,  # (G, D, P)
        loop: _Loop,
    ) -> tuple[Tensor, Tensor, Tensor]:
        clips, lengths, cell = loop
        cell_clip = math.inf if clips.cell is None else clips.cell
        h_clip = math.inf if clips.projection is None or projection is None else clips.projection
        directions, steps, rows, _ = products.shape
        active = rows_at_each_step(lengths, steps)
        # Where rows end early, what lies beyond their end counts as zero.
        new = torch.Tensor.new_zeros if active[-1] < rows else torch.Tensor.new_empty
        gates = new(products, products.shape)
        cells = new(c, (directions, steps + 1, rows, c.shape[-1]))
        m = new(products, (directions, steps, rows, c.shape[-1]))
        cells[:, 0] = c
        # One place more than steps: each starts from the output of the one before, the first from the state.
        outputs = new(products, (directions, steps + 1, rows, h.shape[-1]))
        outputs[:, 0] = h
        for t, n in enumerate(active):
            # Not baddbmm, which would copy the products first.
            recurred = torch.bmm(outputs[:, t, :n], recurrent)
            step = LstmStep(gates[:, t, :n], cells[:, t, :n], cells[:, t + 1, :n], m[:, t, :n])
            cell.forward(products[:, t, :n], recurred, bias, step, clip=cell_clip)
            if projection is None:
                outputs[:, t + 1, :n] = step.m
            else:
                cell.clip(torch.bmm(step.m, projection), outputs[:, t + 1, :n], clip=h_clip)
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
        # A gradient may come as one number for all.
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
            ctx.cell.clip_backward(d_outputs[:, t, :n], d_h[:, :n], outputs[:, t + 1, :n], d_m, clip=h_clip)
            if projection is not None:
                d_m = torch.bmm(d_m, projection.transpose(1, 2))
            step = LstmStep(gates[:, t, :n], cells[:, t, :n], cells[:, t + 1, :n], m[:, t, :n])
            ctx.cell.backward(d_m, d_c[:, :n], step, d_products[:, t, :n], clip=cell_clip)
            d_before = torch.bmm(d_products[:, t, :n], back_recurrent)
            # Rows that end later on have, so far, only the gradient of their last state.
            d_h = d_before if n == rows else torch.cat([d_before, d_h[:, n:]], dim=1)
        before = outputs[:, :-1].flatten(1, 2)  # (G, T * B, P) what each step started from
        d_recurrent = torch.bmm(before.transpose(1, 2), d_products.flatten(1, 2))
        d_projection = None
        if projection is not None:
            d_projection = torch.bmm(m.flatten(1, 2).transpose(1, 2), d_projected.flatten(1, 2))
        d_bias = d_products.sum(dim=(1, 2), dtype=ctx.bias_dtype)
        return d_products, d_h, d_c, d_recurrent, d_bias, d_projection, None


def _after(steps: Tensor, lengths: Sequence[int]) -> Tensor:
    """(G, B, …) of a tensor (G, T + 1, B, …), what it holds after the last step of each row."""
    if not lengths or lengths[-1] == steps.shape[1] - 1:
        return steps[:, -1].clone()
    return steps[:, list(lengths), range(len(lengths))]
