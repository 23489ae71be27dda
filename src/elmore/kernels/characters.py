"""The strongest response of every character filter over a word.

Three ways to the same numbers. With convolutions, one for each width, as the equations read. With products: all filters
as one matrix over windows of the widest width, which a GPU likes better, most of all on the way back, where adding up
the gradients of a table of 261 letters by index is slow and a product with their one-hot form is not. And with products
of words of one length at a time, for training on a CPU.

W words, M characters, C size of a letter, F filters.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import conv1d, pad

from elmore.kernels.strongest import strongest_backward, strongest_forward
from elmore.kernels.strongest_by_length import strongest_by_length

Filters = Sequence[tuple[Tensor, Tensor]]  # weight (n, C, width) and bias (n,)


def strongest_responses(
    letters: Tensor,  # (W, M)
    table: Tensor,  # (letters, C)
    filters: Filters,
) -> Tensor:
    """(W, F) the maximum over all positions of each filter, before any activation."""
    if torch.is_grad_enabled() and letters.is_cuda:
        return by_products(letters, table, filters)
    if torch.is_grad_enabled() and letters.device.type == "cpu":
        return by_lengths(letters, table, filters)
    return by_convolutions(letters, table, filters)


def by_convolutions(letters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    """As the equations read."""
    x = table.index_select(0, letters.flatten()).view(*letters.shape, table.shape[1]).transpose(1, 2)  # (W, C, M)
    return torch.cat([conv1d(x, weight, bias).max(dim=-1).values for weight, bias in filters], dim=-1)


def by_products(letters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    """As one product over windows of the widest filter's width."""
    dtype = _dtype(letters.device.type, table)
    matrix, lasts = _as_one(filters, letters.shape[1])
    table = pad(table, (0, 0, 0, -len(table) % 8))  # products of odd sizes are slow
    every_letter = torch.arange(len(table), device=letters.device)
    x = (letters[..., None] == every_letter).to(dtype) @ table.to(dtype)  # (W, M, C)
    x = pad(x, (0, 0, 0, matrix.shape[1] // table.shape[1] - 1))
    strongest: Tensor = _StrongestProduct.apply(  # type: ignore[no-untyped-call]
        x, matrix.to(dtype), lasts, letters
    )
    return strongest + torch.cat([bias for _, bias in filters]).to(dtype)


def by_lengths(letters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    """As products over windows of the widest filter's width, of words of one length at a time."""
    dtype = _dtype(letters.device.type, table)
    matrix, lasts = _as_one(filters, letters.shape[1])
    strongest = strongest_by_length(letters, table.to(dtype), matrix.to(dtype), lasts)
    return strongest + torch.cat([bias for _, bias in filters]).to(dtype)


def _as_one(filters: Filters, characters: int) -> tuple[Tensor, Tensor]:
    """All filters as one matrix (F, widest * C), letter after letter, and the last place (F,) where each may stand."""
    widest = max(weight.shape[2] for weight, _ in filters)
    # A narrow filter is a wide one whose last columns are zero; it may stand at more places.
    matrix = torch.cat([pad(weight, (0, widest - weight.shape[2])) for weight, _ in filters])
    lasts = [torch.full_like(bias, characters - weight.shape[2], dtype=torch.int32) for weight, bias in filters]
    return matrix.transpose(1, 2).flatten(1), torch.cat(lasts)


def _dtype(device: str, table: Tensor) -> torch.dtype:
    """The kind of numbers to multiply, which autocast may ask for."""
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else table.dtype


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
