"""A highway: let a gate decide, feature by feature, between a transformed value and the value itself.

    out = g * relu(x @ transform) + (1 - g) * x, where g = σ(x @ gate), each with its bias

Here in plain torch; `native_highway` is the same for training on a CPU.

W words, F features.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear

from elmore.kernels.word_encoding import Linear

HighwayKernel = Callable[[Tensor, Linear, Linear], Tensor]  # `run_highway`, or what does the same


def run_highway(x: Tensor, transform: Linear, gate: Linear) -> Tensor:
    """(W, F) for x (W, F), weights (F, F) and biases (F,)."""
    g = torch.sigmoid(linear(x, *gate))
    return g * torch.relu(linear(x, *transform)) + (1 - g) * x
