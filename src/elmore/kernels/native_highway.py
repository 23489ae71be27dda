"""A highway and its backward pass by the native CPU kernels, for training in float32.

Its six products are most of the work of a training step of the small model. Activations and their gradients are made in
one pass each, over products that are kept in place. `highway` has the equations, `native/highway_training.h` the code.

W words, F features.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.kernels.native_library import HighwayParts, opened_native_library
from elmore.kernels.native_products import multiply
from elmore.kernels.word_encoding import Linear


def run_native_highway(x: Tensor, transform: Linear, gate: Linear) -> Tensor:
    """(W, F) for x (W, F); see `highway.run_highway`."""
    out: Tensor = _Highway.apply(x, *transform, *gate)  # type: ignore[no-untyped-call]
    return out


class _Highway(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, transform: Tensor, transform_bias: Tensor, gate: Tensor, gate_bias: Tensor
    ) -> Tensor:
        words, features = x.shape
        x = x.contiguous()
        both = x.new_empty(words, 2, features)
        multiply(x, transform.t(), both[:, 0])
        multiply(x, gate.t(), both[:, 1])
        bias, out = torch.cat([transform_bias, gate_bias]), x.new_empty(words, features)
        opened_native_library().run_highway(
            HighwayParts(words, features, *(part.data_ptr() for part in (x, bias, both, out)))
        )
        ctx.save_for_backward(x, both, transform, gate)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        x, both, transform, gate = ctx.saved_tensors
        words, features = x.shape
        d_x, d_both, d_bias = (x.new_empty(shape) for shape in (x.shape, both.shape, (2, features)))
        d_out = d_out.contiguous()
        opened_native_library().run_highway(
            HighwayParts(
                words,
                features,
                x.data_ptr(),
                None,
                both.data_ptr(),
                None,
                *(part.data_ptr() for part in (d_out, d_x, d_both, d_bias)),
            )
        )
        d_transform, d_gate = torch.empty_like(transform), torch.empty_like(gate)
        for which, (weight, d_weight) in enumerate(((transform, d_transform), (gate, d_gate))):
            multiply(d_both[:, which], weight, d_x, adds=True)
            multiply(d_both[:, which].t(), x, d_weight)
        return d_x, d_transform, d_bias[0], d_gate, d_bias[1]
