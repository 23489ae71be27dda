"""The pointwise parts of an LSTM step, forth and back, into tensors that are given.

    i, j, f, o = σ, tanh, σ, σ of the four parts of x + r + bias, x and r the products of the input and the last output
    c_after = clip(f * c_before + i * j)
    m = o * tanh(c_after)
    h = clip(projected), where projected = m @ projection

Here in plain torch; `triton_cell` has the same as one GPU kernel each, and `CellFunctions` is what both are.

G directions, B rows, D cells, P vector size. Products and gates may be rounded; the cells never are: they add up over a
text.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class LstmStep(NamedTuple):
    """What is kept of one step, to be filled on the way forth and read on the way back."""

    gates: Tensor  # (G, B, 4D) i, j, f, o
    c_before: Tensor  # (G, B, D)
    c_after: Tensor  # (G, B, D)
    m: Tensor  # (G, B, D)


def cell_forward(x: Tensor, r: Tensor, bias: Tensor, step: LstmStep, *, clip: float) -> None:
    """From the products x and r (G, B, 4D), the bias (G, 4D) and `step.c_before` fill the rest of the step."""
    # Where nothing is rounded, in the tensors themselves.
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


def cell_backward(d_m: Tensor, d_c: Tensor, step: LstmStep, d_z: Tensor, *, clip: float) -> None:
    """From d_m (G, B, D) and the d_c that the next step left, fill d_z (G, B, 4D) and carry d_c one step back."""
    i, j, f, o = step.gates.to(d_c.dtype).chunk(4, dim=-1)
    d_m = d_m.to(d_c.dtype)
    squashed = torch.tanh(step.c_after)
    d_c += torch.ops.aten.tanh_backward(d_m * o, squashed)
    # Where the clip held the cell, its gradient stops.
    d_c.masked_fill_(step.c_after.abs() >= clip, 0)
    d_i, d_j, d_f, d_o = d_z.chunk(4, dim=-1)
    d_i.copy_(torch.ops.aten.sigmoid_backward(d_c * j, i))
    d_j.copy_(torch.ops.aten.tanh_backward(d_c * i, j))
    d_f.copy_(torch.ops.aten.sigmoid_backward(d_c * step.c_before, f))
    d_o.copy_(torch.ops.aten.sigmoid_backward(d_m * squashed, o))
    d_c *= f


def clip_output(projected: Tensor, h: Tensor, *, clip: float) -> None:
    """Fill h (G, B, P) with what lies within the bounds."""
    torch.clamp(projected, -clip, clip, out=h)


def clip_output_backward(d_h: Tensor, d_next: Tensor, h: Tensor, d_projected: Tensor, *, clip: float) -> None:
    """Add up the gradients of h, from above and from the next step; where the clip held h, they stop."""
    torch.add(d_h, d_next, out=d_projected)
    d_projected.masked_fill_(h.abs() >= clip, 0)


class _CellForward(Protocol):
    def __call__(self, x: Tensor, r: Tensor, bias: Tensor, step: LstmStep, *, clip: float) -> None: ...


class _CellBackward(Protocol):
    def __call__(self, d_m: Tensor, d_c: Tensor, step: LstmStep, d_z: Tensor, *, clip: float) -> None: ...


class _ClipOutput(Protocol):
    def __call__(self, projected: Tensor, h: Tensor, *, clip: float) -> None: ...


class _ClipOutputBackward(Protocol):
    def __call__(self, d_h: Tensor, d_next: Tensor, h: Tensor, d_projected: Tensor, *, clip: float) -> None: ...


class CellFunctions(NamedTuple):
    """The four functions above, or four that do the same."""

    forward: _CellForward
    backward: _CellBackward
    clip: _ClipOutput
    clip_backward: _ClipOutputBackward


TORCH_CELL = CellFunctions(cell_forward, cell_backward, clip_output, clip_output_backward)
