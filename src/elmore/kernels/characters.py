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

from elmore.kernels.strongest import strongest_backward, strongest_forward


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
    table = pad(table, (0, 0, 0, -len(table) % 8))  # products of odd sizes are slow
    every_letter = torch.arange(len(table), device=letters.device)
    x = (letters[..., None] == every_letter).to(dtype) @ table.to(dtype)  # (W, M, C)
    x = pad(x, (0, 0, 0, max(widths) - 1))
    # A narrow filter is a wide one whose last columns are zero.
    matrix = torch.cat([pad(weight, (0, max(widths) - weight.shape[2])) for weight, _ in filters])  # (F, C, widest)
    # No filter may look beyond the last character, so a wide one has fewer places.
    lasts = torch.cat([matrix.new_full((len(bias),), letters.shape[1] - weight.shape[2]) for weight, bias in filters])
    strongest: Tensor = _StrongestProduct.apply(  # type: ignore[no-untyped-call]
        x, matrix.transpose(1, 2).flatten(1).to(dtype), lasts.int(), letters
    )
    return strongest + torch.cat([bias for _, bias in filters]).to(dtype)


class _StrongestProduct(torch.autograd.Function):
    """Of what `strongest` makes, nothing but the places is kept for the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, lasts: Tensor, letters: Tensor) -> Tensor:
        values, places = strongest_forward(x, matrix, lasts, letters)
        ctx.save_for_backward(places, x, matrix, letters)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_values: Tensor) -> tuple[Tensor | None, ...]:
        return *strongest_backward(d_values, *ctx.saved_tensors), None, None
