"""The recurrence over a window of equal lengths, for training: the backward pass is written out by hand.

The same equations as `reference.recur`. What makes it fast is the order of work: the products of the inputs are made
before the loop, the gradients of all weights once after it, and between them the loop holds two products and one
pointwise function a step. Nothing in it depends on values, so that the whole can be captured in a CUDA graph.

G directions, T steps, B rows, P vector size, D cells.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.kernels.reference import Clips, LstmWeights


def recur_window(
    inputs: Tensor,  # (G, T, B, P) each direction in its own reading order
    state: tuple[Tensor, Tensor],  # h (G, B, P) and c (G, B, D), which may be more exact; no gradient flows into it
    weights: LstmWeights,
    clips: Clips,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Read all rows to the end of the window; return all outputs (G, T, B, P) and the last state, cut off from both."""
    directions, steps, rows, _ = inputs.shape
    products = torch.baddbmm(weights.bias[:, None], inputs.flatten(1, 2), weights.input)  # (G, T * B, 4D)
    products = products.view(directions, steps, rows, -1)
    h, c = state
    outputs, last_c = _Window.apply(products, h.detach(), c.detach(), weights.recurrent, weights.projection, clips)
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
        projection: Tensor | None,  # (G, D, P)
        clips: Clips,
    ) -> tuple[Tensor, Tensor]:
        cell = _fused(_cell_forward, products.device.type)
        cell_clip = clips.cell if clips.cell is not None else float("inf")
        h_clip = clips.projection if clips.projection is not None and projection is not None else float("inf")
        first_h, first_c = h, c
        gates, cells, outs, hs = [], [], [], []
        for step in range(products.shape[1]):
            z = torch.baddbmm(products[:, step], h, recurrent)
            activated, c, m = cell(z, c, cell_clip)
            h = m if projection is None else torch.bmm(m, projection).clamp(-h_clip, h_clip)
            gates.append(activated)
            cells.append(c)
            outs.append(m)
            hs.append(h)
        outputs = torch.stack(hs, dim=1)  # (G, T, B, P)
        ctx.save_for_backward(
            outputs,
            first_h,
            first_c,
            torch.stack(outs, dim=1) if projection is not None else None,
            recurrent,
            projection,
            *gates,
            *cells,
        )
        ctx.clips = cell_clip, h_clip
        ctx.mark_non_differentiable(c)
        return outputs, c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        outputs, first_h, first_c, outs, recurrent, projection, *rest = ctx.saved_tensors
        steps = outputs.shape[1]
        gates, cells = rest[:steps], rest[steps:]
        cell_clip, h_clip = ctx.clips
        cell = _fused(_cell_backward, outputs.device.type)
        back_recurrent = recurrent.transpose(1, 2)
        back_projection = None if projection is None else projection.transpose(1, 2)

        d_h = torch.zeros_like(first_h)
        d_c = torch.zeros_like(first_c)
        d_gates, d_projected = [], []
        for step in reversed(range(steps)):
            d_p = d_outputs[:, step] + d_h
            if back_projection is None:
                d_m = d_p
            else:
                # Where the clip held h, its gradient stops.
                d_p = d_p.masked_fill(outputs[:, step].abs() >= h_clip, 0)
                d_m = torch.bmm(d_p, back_projection)
                d_projected.append(d_p)
            d_z, d_c = cell(d_m, d_c, gates[step], cells[step - 1] if step else first_c, cells[step], cell_clip)
            d_h = torch.bmm(d_z, back_recurrent)
            d_gates.append(d_z)
        d_products = torch.stack(d_gates[::-1], dim=1)  # (G, T, B, 4D)
        before = torch.cat([first_h[:, None], outputs[:, :-1]], dim=1)  # (G, T, B, P) what each step started from
        d_recurrent = torch.bmm(before.flatten(1, 2).transpose(1, 2), d_products.flatten(1, 2))
        d_projection = None
        if projection is not None:
            d_all = torch.stack(d_projected[::-1], dim=1).flatten(1, 2)
            d_projection = torch.bmm(outs.flatten(1, 2).transpose(1, 2), d_all)
        return d_products, None, None, d_recurrent, d_projection, None


def _cell_forward(z: Tensor, c: Tensor, clip: float) -> tuple[Tensor, Tensor, Tensor]:
    i, j, f, o = z.to(c.dtype).chunk(4, dim=-1)
    i, j, f, o = torch.sigmoid(i), torch.tanh(j), torch.sigmoid(f), torch.sigmoid(o)
    c = (f * c + i * j).clamp(-clip, clip)  # c is never rounded down: it adds up over a text
    return torch.cat([i, j, f, o], dim=-1).to(z.dtype), c, (o * torch.tanh(c)).to(z.dtype)


def _cell_backward(
    d_m: Tensor, d_c: Tensor, gates: Tensor, before: Tensor, after: Tensor, clip: float
) -> tuple[Tensor, Tensor]:
    i, j, f, o = gates.to(after.dtype).chunk(4, dim=-1)
    d_m = d_m.to(after.dtype)
    squashed = torch.tanh(after)
    d_c = d_c + d_m * o * (1 - squashed * squashed)
    d_c = torch.where(after.abs() < clip, d_c, 0.0)
    d_z = [d_c * j * i * (1 - i), d_c * i * (1 - j * j), d_c * before * f * (1 - f), d_m * squashed * o * (1 - o)]
    return torch.cat(d_z, dim=-1).to(gates.dtype), d_c * f


@cache
def _fused(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    """The pointwise function as one kernel on a GPU; on a CPU as it is."""
    return torch.compile(function, dynamic=False) if device == "cuda" else function
