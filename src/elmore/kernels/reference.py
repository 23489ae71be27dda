"""The recurrence of one LSTM layer, both directions at once, in plain torch.

    i, j, f, o = split(x @ input + h @ recurrent + bias)
    c = clip(σ(f) * c + σ(i) * tanh(j))
    h = clip((σ(o) * tanh(c)) @ projection)

The clipped c and h are both carried on and given out. Without a projection h = σ(o) * tanh(c), unclipped.
Not torch.nn.LSTM: it cannot clip, and the published weights were trained with clipping.

G directions, B sentences, T positions, P vector size, D cells.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# The products of the inputs do not wait for the recurrence, so they are made for many steps at once; yet not for all,
# or a single long sentence would need gigabytes.
STEPS_AT_ONCE = 32


class LstmWeights(NamedTuple):
    """The weights of one layer for all directions; the bias is complete, forget bias included."""

    input: Tensor  # (G, P, 4D)
    recurrent: Tensor  # (G, P, 4D)
    bias: Tensor  # (G, 4D)
    projection: Tensor | None  # (G, D, P)


class Clips(NamedTuple):
    """Bounds on the cell and on its projection; None means none."""

    cell: float | None
    projection: float | None


def recur(
    inputs: Tensor,  # (G, B, T, P) each direction in its own reading order
    lengths: Sequence[int],  # (B,) never rising
    state: tuple[Tensor, Tensor],  # h (G, B, P) and c (G, B, D)
    weights: LstmWeights,
    clips: Clips,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Read every row to its own end; return all outputs (G, B, T, P), zero beyond a row's end, and the last state."""
    h, c = state
    outputs = []
    for start in range(0, inputs.shape[2], STEPS_AT_ONCE):
        awake = _rows_longer_than(start, lengths)
        window = inputs[:, :awake, start : start + STEPS_AT_ONCE]  # (G, awake, S, P)
        products = torch.einsum("gbsp,gpd->gbsd", window, weights.input) + weights.bias[:, None, None]
        for step, product in enumerate(products.unbind(dim=2), start):
            n = _rows_longer_than(step, lengths)
            gates = product[:, :n] + torch.bmm(h[:, :n], weights.recurrent)
            new_h, new_c = _cell(gates, c[:, :n], weights.projection, clips)
            outputs.append(torch.nn.functional.pad(new_h, (0, 0, 0, len(lengths) - n)))
            # Rows that have ended keep the state after their own last step.
            h = torch.cat([new_h, h[:, n:]], dim=1)
            c = torch.cat([new_c, c[:, n:]], dim=1)
    return torch.stack(outputs, dim=2), (h, c)


def _cell(gates: Tensor, c: Tensor, projection: Tensor | None, clips: Clips) -> tuple[Tensor, Tensor]:
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


def _rows_longer_than(step: int, lengths: Sequence[int]) -> int:
    return sum(length > step for length in lengths)
