"""The strongest response of every character filter over a word.

Two ways to the same numbers. With convolutions, one for each width, as the equations read. With products: all filters
as one matrix over windows of the widest width, which a GPU likes better, most of all on the way back, where adding up
the gradients of a table of 261 letters by index is slow and a product with their one-hot form is not.

W words, M characters, C size of a letter, F filters.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv1d, pad


def strongest_responses(
    letters: Tensor,  # (W, M)
    table: Tensor,  # (letters, C)
    filters: Sequence[tuple[Tensor, Tensor]],  # weight (n, C, width) and bias (n,)
) -> Tensor:
    """(W, F) the maximum over all positions of each filter, before any activation."""
    if letters.is_cuda and torch.is_grad_enabled():
        return by_products(letters, table, filters)
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
