"""The recurrence over a window of equal lengths, for training: the backward pass is written out by hand.

The same equations as `reference.recur`. What makes it fast is the order of work: the products of the inputs are made
before the loop, the gradients of all weights once after it, and between them a step holds two products and one
pointwise function. Nothing in it depends on values, so that the whole can be captured in a CUDA graph.

G directions, T steps, B rows, P vector size, D cells.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.kernels.cell import Step, cell_backward, cell_forward, clip_backward, clip_forward
from elmore.kernels.reference import Clips, LstmWeights


def recur_window(
    inputs: Tensor,  # (G, T, B, P) each direction in its own reading order
    state: tuple[Tensor, Tensor],  # h (G, B, P), and c (G, B, D) which may be more exact; no gradient flows into it
    weights: LstmWeights,
    clips: Clips,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Read all rows to the end of the window; return all outputs (G, T, B, P) and the last state."""
    directions, steps, rows, _ = inputs.shape
    products = torch.bmm(inputs.flatten(1, 2), weights.input)  # (G, T * B, 4D)
    products = products.view(directions, steps, rows, -1)
    h, c = state
    outputs: Tensor
    outputs, last_c = _Window.apply(  # type: ignore[no-untyped-call]
        products, h.detach(), c.detach(), weights.recurrent, weights.bias, weights.projection, clips
    )
    return outputs, (outputs[:, -1].detach(), last_c)


class _Window(torch.autograd.Function):
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
        clips: Clips,
    ) -> tuple[Tensor, Tensor]:
        cell_clip = math.inf if clips.cell is None else clips.cell
        h_clip = math.inf if clips.projection is None or projection is None else clips.projection
        directions, steps, rows, _ = products.shape
        gates = torch.empty_like(products)
        cells = c.new_empty(directions, steps + 1, rows, c.shape[-1])
        m = products.new_empty(directions, steps, rows, c.shape[-1])
        cells[:, 0] = c
        # One place more than steps: each starts from the output of the one before, the first from the state.
        outputs = products.new_empty(directions, steps + 1, rows, h.shape[-1])
        outputs[:, 0] = h
        for t in range(steps):
            # Not baddbmm, which would copy the products first.
            recurred = torch.bmm(outputs[:, t], recurrent)
            step = Step(gates[:, t], cells[:, t], cells[:, t + 1], m[:, t])
            cell_forward(products[:, t], recurred, bias, step, clip=cell_clip)
            if projection is None:
                outputs[:, t + 1] = m[:, t]
            else:
                clip_forward(torch.bmm(m[:, t], projection), outputs[:, t + 1], clip=h_clip)
        ctx.save_for_backward(gates, cells, m, outputs, recurrent, projection)
        ctx.clips = cell_clip, h_clip
        ctx.bias_dtype = bias.dtype
        last = cells[:, -1].clone()
        ctx.mark_non_differentiable(last)
        return outputs[:, 1:], last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gates, cells, m, outputs, recurrent, projection = ctx.saved_tensors
        cell_clip, h_clip = ctx.clips
        steps = gates.shape[1]
        d_outputs = d_outputs.contiguous()  # a gradient may come as one number for all
        back_recurrent = recurrent.transpose(1, 2)
        d_products = torch.empty_like(gates)
        d_h = torch.zeros_like(outputs[:, 0])
        d_c = torch.zeros_like(cells[:, 0])
        d_projected = d_outputs.new_empty(d_outputs.shape)  # (G, T, B, P) of m @ projection
        for t in reversed(range(steps)):
            clip_backward(d_outputs[:, t], d_h, outputs[:, t + 1], d_projected[:, t], clip=h_clip)
            d_m = d_projected[:, t]
            if projection is not None:
                d_m = torch.bmm(d_m, projection.transpose(1, 2))
            step = Step(gates[:, t], cells[:, t], cells[:, t + 1], m[:, t])
            cell_backward(d_m, d_c, step, d_products[:, t], clip=cell_clip)
            d_h = torch.bmm(d_products[:, t], back_recurrent)
        before = outputs[:, :-1].flatten(1, 2)  # (G, T * B, P) what each step started from
        d_recurrent = torch.bmm(before.transpose(1, 2), d_products.flatten(1, 2))
        d_projection = None
        if projection is not None:
            d_projection = torch.bmm(m.flatten(1, 2).transpose(1, 2), d_projected.flatten(1, 2))
        d_bias = d_products.sum(dim=(1, 2), dtype=ctx.bias_dtype)
        return d_products, None, None, d_recurrent, d_bias, d_projection, None
