"""The strongest response of every character filter over a word.

Three ways to the same numbers. With convolutions, one for each width, as the equations read. With products: all filters
as one matrix over windows of the widest width, which a GPU likes better, most of all on the way back, where adding up
the gradients of a table of 261 letters by index is slow and a product with their one-hot form is not. And with products
of a few words at a time, all of one length, for training on a CPU: the padding behind a short word is not read, and
the responses, which are by far the largest tensor in the word encoder, never leave the cache.

W words, M characters, C size of a letter, F filters.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv1d, pad

RESPONSES_AT_ONCE = 2**20


def strongest_responses(
    letters: Tensor,  # (W, M)
    table: Tensor,  # (letters, C)
    filters: Sequence[tuple[Tensor, Tensor]],  # weight (n, C, width) and bias (n,)
) -> Tensor:
    """(W, F) the maximum over all positions of each filter, before any activation."""
    if torch.is_grad_enabled() and letters.is_cuda:
        return by_products(letters, table, filters)
    if torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu"):
        return by_lengths(letters, table, filters)
    return by_convolutions(letters, table, filters)


def by_convolutions(letters: Tensor, table: Tensor, filters: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """As the equations read."""
    # Not table[letters]: on the way back its threads would add up in any order, and no two trainings were the same.
    x = table.index_select(0, letters.flatten()).view(*letters.shape, table.shape[1]).transpose(1, 2)  # (W, C, M)
    return torch.cat([conv1d(x, weight, bias).max(dim=-1).values for weight, bias in filters], dim=-1)


def by_products(letters: Tensor, table: Tensor, filters: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """As one product over windows of the widest filter's width."""
    device = letters.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else table.dtype
    widths = [weight.shape[2] for weight, _ in filters]
    every_letter = torch.arange(len(table), device=letters.device)
    x = (letters[..., None] == every_letter).to(dtype) @ table.to(dtype)  # (W, M, C)
    windows = pad(x, (0, 0, 0, max(widths) - 1)).unfold(1, max(widths), 1).flatten(2)  # (W, M, C * widest)
    # A narrow filter is a wide one whose last columns are zero.
    matrix = torch.cat([pad(weight, (0, max(widths) - weight.shape[2])) for weight, _ in filters])
    # No filter may look beyond the last character, so a wide one has fewer positions.
    lasts = torch.cat([matrix.new_full((len(bias),), letters.shape[1] - weight.shape[2]) for weight, bias in filters])
    strongest: Tensor = _StrongestProduct.apply(  # type: ignore[no-untyped-call]
        windows, matrix.flatten(1).to(dtype), lasts, max(widths) - 1
    )
    return strongest + torch.cat([bias for _, bias in filters]).to(dtype)


class _StrongestProduct(torch.autograd.Function):
    """The maximum over positions of windows @ matrix, for each row of the matrix up to its own last position.

    windows (W, M, K), matrix (F, K), lasts (F,); only the last `reach` positions can lie beyond one's last. Of the
    responses, the largest tensor in the word encoder, nothing but the places of the maxima is kept.
    """

    @staticmethod
    def forward(ctx: Any, windows: Tensor, matrix: Tensor, lasts: Tensor, reach: int) -> Tensor:
        responses = windows @ matrix.t()  # (W, M, F)
        positions = torch.arange(windows.shape[1], device=windows.device)[:, None]
        beyond = torch.where(positions > lasts, float("-inf"), 0.0).to(responses.dtype)  # (M, F)
        responses[:, -reach:] += beyond[-reach:]
        strongest, places = responses.max(dim=1)
        ctx.save_for_backward(windows, matrix, places)
        return strongest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_strongest: Tensor) -> tuple[Tensor | None, ...]:
        windows, matrix, places = ctx.saved_tensors
        shape = (*windows.shape[:2], len(matrix))
        d_responses = d_strongest.new_zeros(shape).scatter_(1, places[:, None], d_strongest[:, None])
        d_matrix = d_responses.flatten(0, 1).t() @ windows.flatten(0, 1)
        return d_responses @ matrix, d_matrix, None, None


def by_lengths(letters: Tensor, table: Tensor, filters: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
    """As products over windows of the widest filter's width, of words of one length at a time."""
    widest = max(weight.shape[2] for weight, _ in filters)
    # Letter after letter, as the windows lie in memory.
    matrix = torch.cat([pad(weight, (0, widest - weight.shape[2])).transpose(1, 2).flatten(1) for weight, _ in filters])
    lasts = torch.cat([torch.full((len(bias),), letters.shape[1] - weight.shape[2]) for weight, bias in filters])
    strongest: Tensor = _StrongestByLength.apply(letters, table, matrix, lasts)  # type: ignore[no-untyped-call]
    return strongest + torch.cat([bias for _, bias in filters])


class _StrongestByLength(torch.autograd.Function):
    """The maximum over positions of windows @ matrix, for each row of the matrix up to its own last position.

    letters (W, M), table (letters, C), matrix (F, widest * C), lasts (F,).
    """

    @staticmethod
    def forward(ctx: Any, letters: Tensor, table: Tensor, matrix: Tensor, lasts: Tensor) -> Tensor:
        order = _lengths(letters).argsort(stable=True)
        strongest = table.new_empty(len(letters), len(matrix))
        places = torch.empty(strongest.shape, dtype=torch.int64)
        beyond = torch.where(torch.arange(letters.shape[1])[:, None] > lasts, float("-inf"), 0.0).to(table.dtype)
        for where, _, windows in _groups(letters[order], table, matrix):
            responses = (windows.flatten(0, 1) @ matrix.t()).view(*windows.shape[:2], -1)  # (n, positions, F)
            if windows.shape[1] > letters.shape[1] - matrix.shape[1] // table.shape[1] + 1:
                responses += beyond[: windows.shape[1]]
            torch.max(responses, dim=1, out=(strongest[where], places[where]))
        ctx.save_for_backward(letters, table, matrix, order, places)
        return strongest.index_select(0, order.argsort())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_strongest: Tensor) -> tuple[Tensor | None, ...]:
        letters, table, matrix, order, places = ctx.saved_tensors
        d_strongest = d_strongest.index_select(0, order)
        d_table, d_matrix = torch.zeros_like(table), torch.zeros_like(matrix)
        for where, spelled, windows in _groups(letters[order], table, matrix):
            positions = windows.shape[1]
            d_responses = table.new_zeros(*windows.shape[:2], len(matrix))
            d_responses.scatter_(1, places[where, None], d_strongest[where, None])
            d_responses = d_responses.flatten(0, 1)
            d_matrix.addmm_(d_responses.t(), windows.flatten(0, 1))
            d_windows = (d_responses @ matrix).view(len(windows), positions, -1, table.shape[1])
            d_x = table.new_zeros(*spelled.shape, table.shape[1])
            for place in range(d_windows.shape[2]):
                d_x[:, place : place + positions] += d_windows[:, :, place]
            d_table.index_add_(0, spelled.flatten(), d_x.flatten(0, 1))
        return None, d_table, d_matrix, None


class _Group(NamedTuple):
    """Words of one length."""

    where: slice
    letters: Tensor  # (n, positions + widest - 1)
    windows: Tensor  # (n, positions, widest * C)


def _lengths(letters: Tensor) -> Tensor:
    """(W,) how many letters stand before the last one begins to repeat itself, as padding does."""
    places = torch.arange(1, letters.shape[1] + 1)
    return torch.where(letters != letters[:, -1:], places, 0).amax(dim=1)


def _groups(letters: Tensor, table: Tensor, matrix: Tensor) -> Iterator[_Group]:
    """Words that stand by length, those of one length together, as many at a time as the cache holds responses of."""
    widest = matrix.shape[1] // table.shape[1]
    padded = pad(letters, (0, widest - 1))
    start = 0
    for length, count in enumerate(_lengths(letters).bincount().tolist()):
        # A window of nothing but padding gives what the first such window gave: positions behind that are left out.
        positions = min(length + 1, letters.shape[1])
        at_once = max(RESPONSES_AT_ONCE // (positions * len(matrix)), 1)
        for first in range(start, start + count, at_once):
            where = slice(first, min(first + at_once, start + count))
            spelled = padded[where, : positions + widest - 1]
            x = table.index_select(0, spelled.flatten()).view(len(spelled), -1)
            yield _Group(where, spelled, x.unfold(1, matrix.shape[1], table.shape[1]))
        start += count
