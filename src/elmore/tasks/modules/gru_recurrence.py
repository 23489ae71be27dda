"""The recurrence of a bidirectional GRU layer, as in `torch.nn.GRU`.

    r, z = σ(x_r + U_r h + b_r), σ(x_z + U_z h + b_z)
    m    = U_n h + b_n
    n    = tanh(x_n + r * m)
    h    = (1 - z) * n + z * h

x = W x' + b' are the products of the inputs, computed for all tokens at once. Cho et al., 2014, with the reset gate
after the product. `reference_recurrence` computes these equations step by step. `fused_recurrence` is one Triton kernel
for all steps of both directions, and one for the backward pass; cuDNN launches several kernels for each step.

Sentences are packed: all first tokens, then all second tokens, and so on, the longest sentence first. N tokens, T
steps, B sentences, none empty, H units in each direction. Tensors of both directions store the forward direction first.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from elmore.nn.devices import send
from elmore.nn.kernels import triton_runs_on

GATES = 3  # r, z, n
MAX_UNITS = 128  # the weights of more units do not fit into the registers of a GPU's multiprocessor


class PackedSteps(NamedTuple):
    """The positions of the tokens of packed sentences."""

    batch_sizes: tuple[int, ...]  # the sentences that have a token at each step
    starts: Tensor  # (T,), the first token of each step
    lengths: Tensor  # (B,), the tokens of each sentence

    @classmethod
    def of(cls, batch_sizes: Sequence[int], device: torch.device) -> "PackedSteps":
        """From the number of tokens of each step. Does not wait for the device.

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
            # In the forward direction sentences end during the loop, in the backward direction they begin.
            h = torch.cat([h[: len(x)], h.new_zeros(max(len(x) - len(h), 0), h.shape[1])])
            x_r, x_z, x_n = x.chunk(GATES, dim=1)
            m_r, m_z, m = (h @ recurrent[direction].t() + bias[direction]).chunk(GATES, dim=1)
            r, z = (x_r + m_r).sigmoid(), (x_z + m_z).sigmoid()
            h = (1 - z) * (x_n + r * m).tanh() + z * h
            outputs.append(h)
        directions.append(torch.cat(outputs[::order]))
    return torch.cat(directions, dim=1)


def fused_recurrence_runs_on(device: torch.device, dtype: torch.dtype, units: int) -> bool:
    """Whether `fused_recurrence` supports this device, this type of weights and this number of units a direction."""
    return units <= MAX_UNITS and dtype == torch.float32 and triton_runs_on(device, dtype)


def fused_recurrence(
    products: Tensor, recurrent: Tensor, bias: Tensor, steps: PackedSteps
) -> Tensor:  # (N, 2, 3 H), (2, 3 H, H), (2, 3 H) -> (N, 2 H)
    """As `reference_recurrence`, always in float32, also under autocast: rounding errors of states accumulate."""
    # Imported here: not every machine has Triton.
    from elmore.tasks.modules.triton_gru_recurrence import TritonGruRecurrence

    with torch.autocast(products.device.type, enabled=False):
        outputs: Tensor = TritonGruRecurrence.apply(  # type: ignore[no-untyped-call]
            products.float(), recurrent.float(), bias.float(), steps
        )
    return outputs
