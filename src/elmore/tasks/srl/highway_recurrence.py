"""The recurrence of an LSTM with a highway around each cell, which carries the input past the cell.

    o, t, i, f = σ of their parts of  W x + U h + b,    g = tanh of its part
    c = f * c + i * g
    h = dropout mask * (t * o * tanh(c) + (1 - t) * V x)

Zhang et al., 2016, as in He et al., 2017. `reference_recurrence` computes these equations step by step.
`highway_recurrence` has a hand-written backward pass. Its loop computes only what depends on the step before; all
gradients of weights are computed once, after the loop. On a GPU a step is one kernel (`triton_highway_recurrence`);
elsewhere it is one product and six pointwise operations in the forward pass, one product and seven in the backward
pass.

Sentences are packed: all first tokens, then all second tokens, and so on, the longest sentence first, so that sentences
that have ended are the last rows of a step and are left out. N tokens, B non-empty sentences, H units.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.nn.devices import send
from elmore.nn.kernels import triton_runs_on

GATES = 5  # o, t, i, f, g: sigmoid gates first; o and t, whose gradients come from h only, before the others


def reference_recurrence(
    products: Tensor, carried: Tensor, recurrent: Tensor, dropout_mask: Tensor | None, batch_sizes: Sequence[int]
) -> Tensor:  # (N, 5 H), (N, H), (5 H, H), (B, H) -> (N, H)
    """The outputs of all tokens, from the products W x + b and V x; h is multiplied by `dropout_mask` in training."""
    h = c = products.new_zeros(batch_sizes[0] if batch_sizes else 0, carried.shape[1])
    outputs = []
    sizes = list(batch_sizes)
    for product, carry in zip(torch.split(products, sizes), torch.split(carried, sizes), strict=True):
        rows = len(product)
        o, t, i, f, g = (product + h[:rows] @ recurrent.t()).chunk(GATES, dim=1)
        c = f.sigmoid() * c[:rows] + i.sigmoid() * g.tanh()
        h = t.sigmoid() * o.sigmoid() * c.tanh() + (1 - t.sigmoid()) * carry
        if dropout_mask is not None:
            h = h * dropout_mask[:rows]
        outputs.append(h)
    return torch.cat(outputs) if outputs else carried


def highway_recurrence(
    products: Tensor, carried: Tensor, recurrent: Tensor, dropout_mask: Tensor | None, batch_sizes: Sequence[int]
) -> Tensor:  # (N, 5 H), (N, H), (5 H, H), (B, H) -> (N, H)
    """As `reference_recurrence`, faster. At least float32 (also under autocast): rounding errors accumulate."""
    if not batch_sizes:
        return carried
    with torch.autocast(products.device.type, enabled=False):
        dtype = torch.promote_types(products.dtype, torch.float32)
        function = _recurrence_for(products.device, dtype)
        outputs: Tensor = function.apply(  # type: ignore[no-untyped-call]
            products.to(dtype), carried.to(dtype), recurrent.to(dtype), dropout_mask, tuple(batch_sizes)
        )
    return outputs


def _recurrence_for(device: torch.device, dtype: torch.dtype) -> type[torch.autograd.Function]:
    if not triton_runs_on(device, dtype):
        return TorchRecurrence
    # Imported here: not every machine has Triton.
    from elmore.tasks.srl.triton_highway_recurrence import TritonRecurrence

    return TritonRecurrence


class TorchRecurrence(torch.autograd.Function):
    """The loop over steps in torch, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,
        carried: Tensor,
        recurrent: Tensor,
        dropout_mask: Tensor | None,
        batch_sizes: tuple[int, ...],
    ) -> Tensor:
        units = carried.shape[1]
        gates, cells, outputs = torch.empty_like(products), torch.empty_like(carried), torch.empty_like(carried)
        into = recurrent.t()
        start, h, c = 0, outputs, cells
        for rows in batch_sizes:
            here = slice(start, start + rows)
            gate, cell, output = gates[here], cells[here], outputs[here]
            if start:
                torch.addmm(products[here], h[:rows], into, out=gate)
            else:
                gate.copy_(products[here])
            gate[:, : 4 * units].sigmoid_()
            gate[:, 4 * units :].tanh_()
            o, t, i, f, g = gate.chunk(GATES, dim=1)
            torch.mul(i, g, out=cell)
            if start:
                cell.addcmul_(f, c[:rows])
            torch.tanh(cell, out=output).mul_(o)
            torch.lerp(carried[here], output, t, out=output)
            if dropout_mask is not None:
                output.mul_(dropout_mask[:rows])
            start, h, c = start + rows, output, cell
        ctx.save_for_backward(carried, recurrent, dropout_mask, gates, cells, outputs)
        ctx.batch_sizes = batch_sizes
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> tuple[Tensor | None, ...]:
        carried, recurrent, dropout_mask, gates, cells, outputs = ctx.saved_tensors
        before = steps_before(ctx.batch_sizes, cells.device)
        first = ctx.batch_sizes[0]  # number of first tokens, which have no token before them
        _, t, _, f, _ = gates.chunk(GATES, dim=1)
        into_cell, factors = _factors(carried, gates, cells, before)
        d_h, d_gates = d_outputs.clone(), torch.empty_like(factors)
        d_h_after = d_c_after = d_h[:0]
        start = len(d_h)
        for rows in reversed(ctx.batch_sizes):
            here, after = slice(start - rows, start), len(d_h_after)
            d_h_here, d_gate = d_h[here], d_gates[here]
            d_h_here[:after] += d_h_after
            if dropout_mask is not None:
                d_h_here *= dropout_mask[:rows]
            d_c = d_h_here * into_cell[here]
            d_c[:after] += d_c_after
            torch.mul(d_h_here.unsqueeze(1), factors[here, :2], out=d_gate[:, :2])
            torch.mul(d_c.unsqueeze(1), factors[here, 2:], out=d_gate[:, 2:])
            if here.start:
                d_h_after, d_c_after = d_gate.flatten(1) @ recurrent, d_c * f[here]
            start = here.start
        d_products = d_gates.flatten(1)
        d_recurrent = d_products[first:].t() @ outputs.index_select(0, before)
        return d_products, d_h * (1 - t), d_recurrent, None, None


def _factors(carried: Tensor, gates: Tensor, cells: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """The factors of the gradients of a step: (N, H) from h to c, and (N, 5, H) to the gates."""
    o, t, i, f, g = gates.chunk(GATES, dim=1)
    squashed = cells.tanh()
    cells_before = torch.zeros_like(cells)
    cells_before[len(cells) - len(before) :] = cells.index_select(0, before)
    from_h = (squashed * t * o * (1 - o), (o * squashed - carried) * t * (1 - t))
    from_c = (g * i * (1 - i), cells_before * f * (1 - f), i * (1 - g * g))
    return t * o * (1 - squashed * squashed), torch.stack([*from_h, *from_c], dim=1)


def steps_before(batch_sizes: Sequence[int], device: torch.device) -> Tensor:
    """For every token except the first of each sentence, the index of the token before it."""
    sizes = np.array(batch_sizes)
    numbers = np.arange(sizes[0], sizes.sum()) - np.repeat(sizes[:-1], sizes[1:])
    return send(torch.from_numpy(numbers), device)
