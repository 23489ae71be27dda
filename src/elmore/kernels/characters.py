"""The strongest response of every character filter over a word.

Two ways to the same numbers. With convolutions, one for each width, as the equations read. With products: all filters
as one matrix over windows of the widest width, which a GPU likes better, most of all on the way back, where adding up
the gradients of a table of 261 letters by index is slow and a product with their one-hot form is not.

W words, M characters, C size of a letter, F filters.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
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
    x = table[letters].transpose(1, 2)  # (W, C, M)
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
    responses = windows @ matrix.flatten(1).to(dtype).t()  # (W, M, F)
    # No filter may look beyond the last character, so a wide one has fewer positions.
    groups = zip(responses.split([len(bias) for _, bias in filters], dim=-1), widths, strict=True)
    strongest = [group[:, : letters.shape[1] - width + 1].max(dim=1).values for group, width in groups]
    return torch.cat(strongest, dim=-1) + torch.cat([bias for _, bias in filters]).to(dtype)
