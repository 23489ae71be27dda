"""Max-over-time pooling for training on a CPU: words of one length at a time.

The padding behind a short word is not read, and the products, by far the largest tensor in a word encoder, never leave
the cache. What is computed is what `max_pooling` says.

W words, M positions, C size of a character, F filters, K = widest * C: what a filter sees at a position.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

PRODUCTS_AT_ONCE = 2**20


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
        # Sums over all words, and so never rounded on the way.
        exact = torch.promote_types(table.dtype, torch.float32)
        d_table, d_matrix = torch.zeros_like(table, dtype=exact), torch.zeros_like(matrix, dtype=exact)
        for rows, spelled, spans in _groups(characters[order], table, matrix):
            n, length, _ = spans.shape
            d_products = table.new_zeros(n, length, len(matrix))
            d_products.scatter_(1, argmax[rows, None], d_pooled[rows, None])
            d_products = d_products.flatten(0, 1)
            d_matrix += d_products.t() @ spans.flatten(0, 1)
            d_spans = (d_products @ matrix).view(n, length, -1, table.shape[1])
            d_x = torch.zeros(*spelled.shape, table.shape[1], dtype=exact)
            for offset in range(d_spans.shape[2]):
                d_x[:, offset : offset + length] += d_spans[:, :, offset]
            d_table.index_add_(0, spelled.flatten(), d_x.flatten(0, 1))
        return None, d_table.to(table.dtype), d_matrix.to(matrix.dtype), None


class _Group(NamedTuple):
    """Words of one length."""

    rows: slice
    characters: Tensor  # (n, positions + widest - 1)
    spans: Tensor  # (n, positions, K)


def _lengths(characters: Tensor) -> Tensor:
    """(W,) how many characters stand before the last one begins to repeat itself, as padding does."""
    positions = torch.arange(1, characters.shape[1] + 1)
    return torch.where(characters != characters[:, -1:], positions, 0).amax(dim=1)


def _groups(characters: Tensor, table: Tensor, matrix: Tensor) -> Iterator[_Group]:
    """Words that stand by length, those of one length together, as many at a time as the cache holds products of."""
    widest = matrix.shape[1] // table.shape[1]
    padded = pad(characters, (0, widest - 1))
    start = 0
    for length, count in enumerate(_lengths(characters).bincount().tolist()):
        # A span of nothing but padding gives what the first such span gave: positions behind that are left out.
        positions = min(length + 1, characters.shape[1])
        at_once = max(PRODUCTS_AT_ONCE // (positions * len(matrix)), 1)
        for first in range(start, start + count, at_once):
            rows = slice(first, min(first + at_once, start + count))
            spelled = padded[rows, : positions + widest - 1]
            x = table.index_select(0, spelled.flatten()).view(len(spelled), -1)
            yield _Group(rows, spelled, x.unfold(1, matrix.shape[1], table.shape[1]))
        start += count
