"""The recurrence of a layer of gated recurrent units in both directions, as `torch.nn.GRU` has it.

    r, z = σ of their parts of  x + U h + b,    m = U_n h + b_n of the third
    n = tanh(x_n + r * m)
    h = (1 - z) * n + z * h

where x = W x' + b' are the products of the inputs, made for all tokens at once; Cho et al., 2014, with the reset gate
behind the product. `reference_recurrence` is that, step by step. `fused_recurrence` is one kernel for all steps of both
directions, and one for the way back (`triton_gru_recurrence`); torch's own, by cuDNN, launches several for each step.

Sentences come packed: all first tokens, then all second ones, and so on, the longest sentence first. N tokens, T steps,
B sentences, none of them empty, H units in each direction; what has a part for each direction has forward's first.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from elmore.nn.devices import send
from elmore.nn.kernels import triton_runs_on

GATES = 3  # r, z, n
MOST_UNITS = 128  # whose weights a GPU's processor holds in its registers


class PackedSteps(NamedTuple):
    """Where the tokens of packed sentences stand."""

    batch_sizes: tuple[int, ...]  # the sentences that have a token at each step
    starts: Tensor  # (T,), the first token of each step
    lengths: Tensor  # (B,), the tokens of each sentence

    @classmethod
    def of(cls, batch_sizes: Sequence[int], device: torch.device) -> "PackedSteps":
        """Of steps with so many tokens; the tensors are on a device, which is not waited for.

        >>> PackedSteps.of([3, 1], torch.device("cpu"))
        PackedSteps(batch_sizes=(3, 1), starts=tensor([0, 3]), lengths=tensor([2, 1, 1]))
        """
        sizes = np.array(batch_sizes, dtype=np.int64)
        lengths = (sizes[:, None] > np.arange(sizes.max(initial=0))).sum(axis=0)
        starts = np.cumsum(sizes) - sizes
        return cls(tuple(batch_sizes), send(torch.from_numpy(starts), device), send(torch.from_numpy(lengths), device))


def reference_recurrence(
    products: Tensor, recurrent: Tensor, bias: Tensor, steps: PackedSteps
) -> Tensor:  # (N, 2, 3 H), (2, 3 H, H), (2, 3 H) -> (N, 2 H)
    """The states at all tokens, forward then backward, from the products, U and b."""
    directions = []
    for direction in range(2):
        order = -1 if direction else 1
        h = products.new_zeros(0, recurrent.shape[2])
        outputs = []
        for x in torch.split(products[:, direction], list(steps.batch_sizes))[::order]:
            # Forward, sentences end as the steps go on; backward, they begin.
            h = torch.cat([h[: len(x)], h.new_zeros(max(len(x) - len(h), 0), h.shape[1])])
            x_r, x_z, x_n = x.chunk(GATES, dim=1)
            m_r, m_z, m = (h @ recurrent[direction].t() + bias[direction]).chunk(GATES, dim=1)
            r, z = (x_r + m_r).sigmoid(), (x_z + m_z).sigmoid()
            h = (1 - z) * (x_n + r * m).tanh() + z * h
            outputs.append(h)
        directions.append(torch.cat(outputs[::order]))
    return torch.cat(directions, dim=1)


def fused_recurrence_runs_on(device: torch.device, dtype: torch.dtype, units: int) -> bool:
    """Whether `fused_recurrence` can be used there, for weights of a kind of number and so many units a direction."""
    return units <= MOST_UNITS and dtype == torch.float32 and triton_runs_on(device, dtype)


def fused_recurrence(
    products: Tensor, recurrent: Tensor, bias: Tensor, steps: PackedSteps
) -> Tensor:  # (N, 2, 3 H), (2, 3 H, H), (2, 3 H) -> (N, 2 H)
    """As `reference_recurrence`, in float32 under autocast too: states add up over a sentence."""
    # Not every machine has Triton.
    from elmore.tasks.modules.triton_gru_recurrence import TritonGruRecurrence

    with torch.autocast(products.device.type, enabled=False):
        outputs: Tensor = TritonGruRecurrence.apply(  # type: ignore[no-untyped-call]
            products.float(), recurrent.float(), bias.float(), steps
        )
    return outputs
