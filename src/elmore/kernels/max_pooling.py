"""Max-over-time pooling: the largest product of a filter over all positions of a word, forth and back.

    values[w, f] = max over p <= last_positions[f] of x[w, p : p + widest] · matrix[f]

The products are the largest tensor of a word encoder, and each filter needs but one of a word's. In Triton they are
made, compared and forgotten in one kernel, and on the way back one position of each word and filter has a gradient.
Here stands the same in plain torch; `MaxPooling` is what both are.

W words, M positions, C size of a character, F filters, K = widest * C: what a filter sees at a position.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Pooled(NamedTuple):
    """The largest products, where they were found, and in which order the words were taken."""

    values: Tensor  # (W, F)
    argmax: Tensor  # (W, F) int16
    plan: tuple[Tensor, ...] = ()  # what the way back needs again; each kernel has its own


class MaxPooling(NamedTuple):
    """A way to find the largest products, and to lead their gradients back.

    `forward(x, matrix, last_positions, characters)` takes characters (W, M) as vectors x (W, M + widest - 1, C), zero
    beyond the last, and filters (F, K). `backward(d_values, argmax, x, matrix, plan)` gives the gradients of what the
    filters saw (W, M, K), and of the filters (F, K).
    """

    forward: Callable[[Tensor, Tensor, Tensor, Tensor], Pooled]
    backward: Callable[[Tensor, Tensor, Tensor, Tensor, tuple[Tensor, ...]], tuple[Tensor, Tensor]]


def max_over_time(
    x: Tensor, matrix: Tensor, last_positions: Tensor, characters: Tensor, *, pooling: MaxPooling
) -> Tensor:
    """(W, F) the largest products, with gradients for x and the filters."""
    values: Tensor = _MaxOverTime.apply(x, matrix, last_positions, characters, pooling)  # type: ignore[no-untyped-call]
    return values


def pool(x: Tensor, matrix: Tensor, last_positions: Tensor, characters: Tensor) -> Pooled:  # noqa: ARG001  # all words alike
    """See `MaxPooling`."""
    products = _spans(x, matrix) @ matrix.t()  # (W, M, F)
    positions = torch.arange(products.shape[1], device=x.device)[:, None]
    values, argmax = products.masked_fill_(positions > last_positions, -torch.inf).max(dim=1)
    return Pooled(values, argmax.short())


def pool_backward(
    d_values: Tensor, argmax: Tensor, x: Tensor, matrix: Tensor, plan: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """See `MaxPooling`."""
    assert not plan
    spans = _spans(x, matrix)
    d_products = d_values.new_zeros(*spans.shape[:2], len(matrix))
    d_products.scatter_(1, argmax.long()[:, None], d_values[:, None])
    return d_products @ matrix, d_products.flatten(0, 1).t() @ spans.flatten(0, 1)


TORCH_MAX_POOLING = MaxPooling(pool, pool_backward)


def fold(d_spans: Tensor, x: Tensor) -> Tensor:
    """The gradient of x from that of what the filters saw at each position (W, M, K), which overlap."""
    size = x.shape[2]
    # Sums over positions, and so never rounded on the way.
    d_x = torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
    for offset in range(d_spans.shape[2] // size):
        d_x[:, offset : offset + d_spans.shape[1]] += d_spans[..., offset * size : (offset + 1) * size]
    return d_x.to(x.dtype)


class _MaxOverTime(torch.autograd.Function):
    """Of what is pooled, nothing but the argmax is kept for the way back."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, matrix: Tensor, last_positions: Tensor, characters: Tensor, pooling: MaxPooling
    ) -> Tensor:
        values, argmax, plan = pooling.forward(x, matrix, last_positions, characters)
        ctx.save_for_backward(argmax, x, matrix, *plan)
        ctx.pooling = pooling
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_values: Tensor) -> tuple[Tensor | None, ...]:
        argmax, x, matrix, *plan = ctx.saved_tensors
        d_spans, d_matrix = ctx.pooling.backward(d_values, argmax, x, matrix, tuple(plan))
        return fold(d_spans, x), d_matrix, None, None, None


def _spans(x: Tensor, matrix: Tensor) -> Tensor:
    """(W, M, K) what a filter sees at each position."""
    return x.unfold(1, matrix.shape[1] // x.shape[2], 1).transpose(2, 3).flatten(2)
