"""The character CNN of a word encoder: the largest response of every filter over a word.

Three ways to the same numbers. By convolution, one for each width, as the equations read. By product: all filters as
one matrix over spans of the widest width, which a GPU likes better, most of all on the way back, where adding up the
gradients of a table of 261 characters by index is slow and a product with their one-hot form is not. And by products
of words of one length at a time, for training on a CPU.

W words, M characters, C size of a character, F filters.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from elmore.kernels.autocast import compute_dtype
from elmore.kernels.max_pooling import TORCH_MAX_POOLING, MaxPooling, max_over_time
from elmore.kernels.max_pooling_by_length import max_over_time_by_length

Filters = Sequence[tuple[Tensor, Tensor]]  # weight (n, C, width) and bias (n,)


def pool_by_convolution(characters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    """(W, F) the maximum over all positions of each filter, before any activation, for characters (W, M)."""
    x = table.index_select(0, characters.flatten()).view(*characters.shape, table.shape[1]).transpose(1, 2)  # (W, C, M)
    with _exact_convolutions(x):
        return torch.cat([conv1d(x, weight, bias).max(dim=-1).values for weight, bias in filters], dim=-1)


def _exact_convolutions(x: Tensor) -> AbstractContextManager[object]:
    """Keep cuDNN from rounding float32 to TF32, which it does with convolutions, unlike matrix products, by default."""
    if x.device.type != "cuda" or x.dtype != torch.float32:
        return nullcontext()
    cudnn = torch.backends.cudnn
    flags: AbstractContextManager[object] = cudnn.flags(
        enabled=cudnn.enabled, benchmark=cudnn.benchmark, deterministic=cudnn.deterministic, allow_tf32=False
    )
    return flags


def pool_by_product(
    characters: Tensor, table: Tensor, filters: Filters, *, pooling: MaxPooling = TORCH_MAX_POOLING
) -> Tensor:
    """The same as one product over spans of the widest filter's width."""
    dtype = compute_dtype(table)
    matrix, last_positions = _as_one(filters, characters.shape[1])
    table = pad(table, (0, 0, 0, -len(table) % 8))  # products of odd sizes are slow
    every_character = torch.arange(len(table), device=characters.device)
    x = (characters[..., None] == every_character).to(dtype) @ table.to(dtype)  # (W, M, C)
    x = pad(x, (0, 0, 0, matrix.shape[1] // table.shape[1] - 1))
    pooled = max_over_time(x, matrix.to(dtype), last_positions, characters, pooling=pooling)
    return pooled + torch.cat([bias for _, bias in filters]).to(dtype)


def pool_by_length(characters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    """The same as products over spans of the widest filter's width, of words of one length at a time."""
    dtype = compute_dtype(table)
    matrix, last_positions = _as_one(filters, characters.shape[1])
    pooled = max_over_time_by_length(characters, table.to(dtype), matrix.to(dtype), last_positions)
    return pooled + torch.cat([bias for _, bias in filters]).to(dtype)


def _as_one(filters: Filters, characters: int) -> tuple[Tensor, Tensor]:
    """All filters as one matrix (F, widest * C), and the last position (F,) where each may stand."""
    widest = max(weight.shape[2] for weight, _ in filters)
    # A narrow filter is a wide one whose last columns are zero; it may stand at more positions.
    matrix = torch.cat([pad(weight, (0, widest - weight.shape[2])) for weight, _ in filters])
    last_positions = [
        torch.full_like(bias, characters - weight.shape[2], dtype=torch.int32) for weight, bias in filters
    ]
    return matrix.transpose(1, 2).flatten(1), torch.cat(last_positions)
