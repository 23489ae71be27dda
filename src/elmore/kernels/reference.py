"""The recurrence of one LSTM layer in plain torch: the truth that every other kernel must agree with.

Differentiated by autograd, for any kind of number. `recurrence` has the equations and the signature.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmore.kernels.recurrence import Clips, HiddenState, LstmWeights, Recurrence, rows_at_each_step

# The products of the inputs do not wait for the recurrence, so they are made for many steps at once; yet not for all,
# or a single long sentence would need gigabytes.
STEPS_AT_ONCE = 32


def prepare(weights: LstmWeights, dtype: torch.dtype) -> LstmWeights:  # noqa: ARG001  # autocast rounds by itself
    """The weights as they are."""
    return weights


def recur(
    weights: LstmWeights,
    inputs: Tensor,  # (G, T, B, P)
    lengths: Sequence[int],
    state: HiddenState,
) -> tuple[Tensor, HiddenState]:
    """Read every row to its own end; see `Recurrence`."""
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
            new_h, new_c = _cell(gates, c[:, :n], weights.projection, weights.clips)
            outputs.append(torch.nn.functional.pad(new_h, (0, 0, 0, len(lengths) - n)))
            # Rows that have ended keep the state after their own last step.
            h = torch.cat([new_h, h[:, n:]], dim=1)
            c = torch.cat([new_c, c[:, n:]], dim=1)
    return torch.stack(outputs, dim=1), (h, c)


RECURRENCE = Recurrence(prepare, recur)


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
