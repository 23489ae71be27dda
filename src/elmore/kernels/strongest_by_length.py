"""The largest product of a filter over all places of a word, for training on a CPU: words of one length at a time.

The padding behind a short word is not read, and the products, by far the largest tensor in a word encoder, never leave
the cache. What is computed is what `strongest` says.

W words, M places, C size of a letter, F filters, K = widest * C: what a filter sees at a place.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

PRODUCTS_AT_ONCE = 2**20


def strongest_by_length(letters: Tensor, table: Tensor, matrix: Tensor, lasts: Tensor) -> Tensor:
    """(W, F) from letters (W, M), their table (letters, C), filters (F, K) and the last place of each (F,)."""
    strongest: Tensor = _StrongestByLength.apply(letters, table, matrix, lasts)  # type: ignore[no-untyped-call]
    return strongest


class _StrongestByLength(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, letters: Tensor, table: Tensor, matrix: Tensor, lasts: Tensor) -> Tensor:
        order = _lengths(letters).argsort(stable=True)
        strongest = table.new_empty(len(letters), len(matrix))
        places = torch.empty(strongest.shape, dtype=torch.int64)
        beyond = torch.where(torch.arange(letters.shape[1])[:, None] > lasts, float("-inf"), 0.0).to(table.dtype)
        for where, _, windows in _groups(letters[order], table, matrix):
            products = (windows.flatten(0, 1) @ matrix.t()).view(*windows.shape[:2], -1)  # (n, places, F)
            if windows.shape[1] > letters.shape[1] - matrix.shape[1] // table.shape[1] + 1:
                products += beyond[: windows.shape[1]]
            torch.max(products, dim=1, out=(strongest[where], places[where]))
        ctx.save_for_backward(letters, table, matrix, order, places)
        return strongest.index_select(0, order.argsort())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_strongest: Tensor) -> tuple[Tensor | None, ...]:
        letters, table, matrix, order, places = ctx.saved_tensors
        d_strongest = d_strongest.index_select(0, order)
        # Sums over all words, and so never rounded on the way.
        exact = torch.promote_types(table.dtype, torch.float32)
        d_table, d_matrix = torch.zeros_like(table, dtype=exact), torch.zeros_like(matrix, dtype=exact)
        for where, spelled, windows in _groups(letters[order], table, matrix):
            n, length, _ = windows.shape
            d_products = table.new_zeros(n, length, len(matrix))
            d_products.scatter_(1, places[where, None], d_strongest[where, None])
            d_products = d_products.flatten(0, 1)
            d_matrix += d_products.t() @ windows.flatten(0, 1)
            d_windows = (d_products @ matrix).view(n, length, -1, table.shape[1])
            d_x = torch.zeros(*spelled.shape, table.shape[1], dtype=exact)
            for offset in range(d_windows.shape[2]):
                d_x[:, offset : offset + length] += d_windows[:, :, offset]
            d_table.index_add_(0, spelled.flatten(), d_x.flatten(0, 1))
        return None, d_table.to(table.dtype), d_matrix.to(matrix.dtype), None


class _Group(NamedTuple):
    """Words of one length."""

    where: slice
    letters: Tensor  # (n, places + widest - 1)
    windows: Tensor  # (n, places, K)


def _lengths(letters: Tensor) -> Tensor:
    """(W,) how many letters stand before the last one begins to repeat itself, as padding does."""
    places = torch.arange(1, letters.shape[1] + 1)
    return torch.where(letters != letters[:, -1:], places, 0).amax(dim=1)


def _groups(letters: Tensor, table: Tensor, matrix: Tensor) -> Iterator[_Group]:
    """Words that stand by length, those of one length together, as many at a time as the cache holds products of."""
    widest = matrix.shape[1] // table.shape[1]
    padded = pad(letters, (0, widest - 1))
    start = 0
    for length, count in enumerate(_lengths(letters).bincount().tolist()):
        # A window of nothing but padding gives what the first such window gave: places behind that are left out.
        places = min(length + 1, letters.shape[1])
        at_once = max(PRODUCTS_AT_ONCE // (places * len(matrix)), 1)
        for first in range(start, start + count, at_once):
            where = slice(first, min(first + at_once, start + count))
            spelled = padded[where, : places + widest - 1]
            x = table.index_select(0, spelled.flatten()).view(len(spelled), -1)
            yield _Group(where, spelled, x.unfold(1, matrix.shape[1], table.shape[1]))
        start += count
