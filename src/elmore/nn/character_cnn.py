"""The parts of a word encoder that kernels exist for: the character CNN, and highways.

Three functions compute the largest response of each filter over a word:

    pool_by_convolution   one convolution for each width, as in the equations
    pool_by_product       all filters as one matrix over spans of the widest width, for GPUs: summing the gradients of
                          261 characters by index is slow there, and a product with their one-hot form is fast
    pool_by_length        the same products for words of one length at a time, for training on a CPU

A highway is out = g * relu(x @ transform) + (1 - g) * x, where g = σ(x @ gate), each with its bias.

W words, M characters, C size of a character, F filters, K = widest * C: the numbers under a filter at one position.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv1d, linear, pad

from elmore.nn.devices import compute_dtype

Filters = Sequence[tuple[Tensor, Tensor]]  # weight (n, C, width) and bias (n,)
Linear = tuple[Tensor, Tensor]  # weight (out, in) and bias (out,)
HighwayKernel = Callable[[Tensor, Linear, Linear], Tensor]  # `run_highway`, or a function with the same results

PRODUCTS_AT_ONCE = 2**20  # by length: as many as a CPU's cache holds


def run_highway(x: Tensor, transform: Linear, gate: Linear) -> Tensor:
    """(W, F) for x (W, F), weights (F, F) and biases (F,)."""
    g = torch.sigmoid(linear(x, *gate))
    return g * torch.relu(linear(x, *transform)) + (1 - g) * x


def pool_by_convolution(characters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    """(W, F) the maximum over all positions of each filter, before any activation, for characters (W, M)."""
    x = table.index_select(0, characters.flatten()).view(*characters.shape, table.shape[1]).transpose(1, 2)  # (W, C, M)
    with _exact_convolutions(x):
        return torch.cat([conv1d(x, weight, bias).max(dim=-1).values for weight, bias in filters], dim=-1)


def _exact_convolutions(x: Tensor) -> AbstractContextManager[object]:
    """Prevent cuDNN from rounding float32 to TF32, its default for convolutions."""
    if x.device.type != "cuda" or x.dtype != torch.float32:
        return nullcontext()
    cudnn = torch.backends.cudnn
    flags: AbstractContextManager[object] = cudnn.flags(
        enabled=cudnn.enabled, benchmark=cudnn.benchmark, deterministic=cudnn.deterministic, allow_tf32=False
    )
    return flags


# By product.


class Pooled(NamedTuple):
    """The largest products and their positions."""

    values: Tensor  # (W, F)
    argmax: Tensor  # (W, F) int16
    plan: tuple[Tensor, ...] = ()  # further tensors that a kernel saves for the backward pass


class MaxPooling(NamedTuple):
    """A way to find the largest products, and to propagate their gradients.

    values[w, f] = max over p <= last_positions[f] of x[w, p : p + widest] · matrix[f]

    `forward(x, matrix, last_positions, characters)` takes characters (W, M) as vectors x (W, M + widest - 1, C), zero
    beyond the last, and filters (F, K). `backward(d_values, argmax, x, matrix, plan)` returns the gradients of the
    numbers under the filters (W, M, K), and of the filters (F, K).

    The products are the largest tensor of a word encoder, and each filter needs one of a word's. `triton_max_pooling`
    computes and compares them in one kernel.
    """

    forward: Callable[[Tensor, Tensor, Tensor, Tensor], Pooled]
    backward: Callable[[Tensor, Tensor, Tensor, Tensor, tuple[Tensor, ...]], tuple[Tensor, Tensor]]


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


def pool_by_product(
    characters: Tensor, table: Tensor, filters: Filters, *, pooling: MaxPooling = TORCH_MAX_POOLING
) -> Tensor:
    """As `pool_by_convolution`, as one product over spans of the widest filter's width."""
    dtype = compute_dtype(table)
    matrix, last_positions = _as_one(filters, characters.shape[1])
    table = pad(table, (0, 0, 0, -len(table) % 8))  # products of odd sizes are slow
    every_character = torch.arange(len(table), device=characters.device)
    x = (characters[..., None] == every_character).to(dtype) @ table.to(dtype)  # (W, M, C)
    x = pad(x, (0, 0, 0, matrix.shape[1] // table.shape[1] - 1))
    pooled = max_over_time(x, matrix.to(dtype), last_positions, characters, pooling=pooling)
    return pooled + torch.cat([bias for _, bias in filters]).to(dtype)


def max_over_time(
    x: Tensor, matrix: Tensor, last_positions: Tensor, characters: Tensor, *, pooling: MaxPooling
) -> Tensor:
    """(W, F) the largest products, with gradients for x and the filters."""
    values: Tensor = _MaxOverTime.apply(x, matrix, last_positions, characters, pooling)  # type: ignore[no-untyped-call]
    return values


class _MaxOverTime(torch.autograd.Function):
    """Saves the argmax for the backward pass, and no products."""

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


def fold(d_spans: Tensor, x: Tensor) -> Tensor:
    """The gradient of x from the gradients of the overlapping spans at each position (W, M, K)."""
    size = x.shape[2]
    # Sums over positions are not rounded in between.
    d_x = torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
    for offset in range(d_spans.shape[2] // size):
        d_x[:, offset : offset + d_spans.shape[1]] += d_spans[..., offset * size : (offset + 1) * size]
    return d_x.to(x.dtype)


def _as_one(filters: Filters, characters: int) -> tuple[Tensor, Tensor]:
    """All filters as one matrix (F, widest * C), and the last position (F,) of each."""
    widest = max(weight.shape[2] for weight, _ in filters)
    # A narrow filter is a wide one whose last columns are zero; it has more positions.
    matrix = torch.cat([pad(weight, (0, widest - weight.shape[2])) for weight, _ in filters])
    last_positions = [
        torch.full_like(bias, characters - weight.shape[2], dtype=torch.int32) for weight, bias in filters
    ]
    return matrix.transpose(1, 2).flatten(1), torch.cat(last_positions)


def _spans(x: Tensor, matrix: Tensor) -> Tensor:
    """(W, M, K) the numbers under a filter at each position."""
    return x.unfold(1, matrix.shape[1] // x.shape[2], 1).transpose(2, 3).flatten(2)


# By length: the padding after a short word is not read, and the products never leave the cache.


def pool_by_length(characters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    """As `pool_by_product`, for words of one length at a time."""
    dtype = compute_dtype(table)
    matrix, last_positions = _as_one(filters, characters.shape[1])
    pooled = max_over_time_by_length(characters, table.to(dtype), matrix.to(dtype), last_positions)
    return pooled + torch.cat([bias for _, bias in filters]).to(dtype)


def max_over_time_by_length(characters: Tensor, table: Tensor, matrix: Tensor, last_positions: Tensor) -> Tensor:
    """(W, F) from characters (W, M), their table (characters, C), filters (F, K) and the last position of each (F,)."""
    pooled: Tensor = _MaxOverTimeByLength.apply(characters, table, matrix, last_positions)  # type: ignore[no-untyped-call]
    return pooled


class _MaxOverTimeByLength(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, characters: Tensor, table: Tensor, matrix: Tensor, last_positions: Tensor) -> Tensor:
        order = _lengths(characters).argsort(stable=True)
        pooled = table.new_empty(len(characters), len(matrix))
        argmax = torch.empty(pooled.shape, dtype=torch.int64)
        beyond = torch.where(torch.arange(characters.shape[1])[:, None] > last_positions, float("-inf"), 0.0).to(
            table.dtype
        )
        for rows, _, spans in _groups(characters[order], table, matrix):
            products = (spans.flatten(0, 1) @ matrix.t()).view(*spans.shape[:2], -1)  # (n, positions, F)
            if spans.shape[1] > characters.shape[1] - matrix.shape[1] // table.shape[1] + 1:
                products += beyond[: spans.shape[1]]
            torch.max(products, dim=1, out=(pooled[rows], argmax[rows]))
        ctx.save_for_backward(characters, table, matrix, order, argmax)
        return pooled.index_select(0, order.argsort())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_pooled: Tensor) -> tuple[Tensor | None, ...]:
        characters, table, matrix, order, argmax = ctx.saved_tensors
        d_pooled = d_pooled.index_select(0, order)
        # Sums over all words are not rounded in between.
        exact = torch.promote_types(table.dtype, torch.float32)
        d_table, d_matrix = torch.zeros_like(table, dtype=exact), torch.zeros_like(matrix, dtype=exact)
        for rows, group_characters, spans in _groups(characters[order], table, matrix):
            n, length, _ = spans.shape
            d_products = table.new_zeros(n, length, len(matrix))
            d_products.scatter_(1, argmax[rows, None], d_pooled[rows, None])
            d_products = d_products.flatten(0, 1)
            d_matrix += d_products.t() @ spans.flatten(0, 1)
            d_spans = (d_products @ matrix).view(n, length, -1, table.shape[1])
            d_x = torch.zeros(*group_characters.shape, table.shape[1], dtype=exact)
            for offset in range(d_spans.shape[2]):
                d_x[:, offset : offset + length] += d_spans[:, :, offset]
            d_table.index_add_(0, group_characters.flatten(), d_x.flatten(0, 1))
        return None, d_table.to(table.dtype), d_matrix.to(matrix.dtype), None


class _Group(NamedTuple):
    """Words of one length."""

    rows: slice
    characters: Tensor  # (n, positions + widest - 1)
    spans: Tensor  # (n, positions, K)


def _lengths(characters: Tensor) -> Tensor:
    """(W,) how many characters come before the last one starts to repeat itself, as padding does."""
    positions = torch.arange(1, characters.shape[1] + 1)
    return torch.where(characters != characters[:, -1:], positions, 0).amax(dim=1)


def _groups(characters: Tensor, table: Tensor, matrix: Tensor) -> Iterator[_Group]:
    """Words sorted by length in groups of one length, each no larger than the cache has room for its products."""
    widest = matrix.shape[1] // table.shape[1]
    padded = pad(characters, (0, widest - 1))
    start = 0
    for length, count in enumerate(_lengths(characters).bincount().tolist()):
        # All spans of padding have the same product, so one such position suffices.
        positions = min(length + 1, characters.shape[1])
        at_once = max(PRODUCTS_AT_ONCE // (positions * len(matrix)), 1)
        for first in range(start, start + count, at_once):
            rows = slice(first, min(first + at_once, start + count))
            group_characters = padded[rows, : positions + widest - 1]
            x = table.index_select(0, group_characters.flatten()).view(len(group_characters), -1)
            yield _Group(rows, group_characters, x.unfold(1, matrix.shape[1], table.shape[1]))
        start += count
