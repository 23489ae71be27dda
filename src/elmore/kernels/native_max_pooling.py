"""Max-over-time pooling by tables, forth and back, by the native CPU kernels: for training in float32.

What a filter makes of one character at one of its places is a number, and there are few characters: tables of those
numbers are made in every step, and a response is as many additions as the filter is wide. On the way back each response
has one position, and gives its gradient to as many entries of the tables; from their gradients follow those of filters
and characters, by products as small as the ones that made the tables.

W words, M characters of a word, V characters there are, C size of a character, F filters, n filters of one width w.
"""

from ctypes import c_int64
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from elmore.kernels.character_cnn import Filters
from elmore.kernels.native_library import FilterTables, Number, opened_native_library
from elmore.kernels.native_products import multiply


def pool_by_table(characters: Tensor, table: Tensor, filters: Filters) -> Tensor:
    """(W, F) the largest responses, before any activation, for characters (W, M) and their table (V, C)."""
    parts = [part for pair in filters for part in pair]
    pooled: Tensor = _MaxOverTime.apply(characters.contiguous(), table, *parts)  # type: ignore[no-untyped-call]
    return pooled


class _MaxOverTime(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, characters: Tensor, table: Tensor, *parts: Tensor) -> Tensor:
        weights, biases = parts[::2], parts[1::2]
        width = 4 * opened_native_library().lanes(Number.FLOAT32)
        tables = torch.cat([_responses(table, weight, width).flatten() for weight in weights])
        bias = torch.cat([pad(one, (0, -len(one) % width)) for one in biases])
        shape = len(characters), sum(map(len, biases))
        pooled, positions = (table.new_empty(shape) for _ in range(2))
        filters = _as_filters(table, weights, tables, bias)
        opened_native_library().pool_characters(filters, characters, pooled, positions)
        ctx.save_for_backward(characters, positions, table, *weights)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_pooled: Tensor) -> tuple[Tensor | None, ...]:
        characters, positions, table, *weights = ctx.saved_tensors
        width = 4 * opened_native_library().lanes(Number.FLOAT32)
        shapes = [(-(-len(weight) // width), weight.shape[2], len(table), width) for weight in weights]
        d_pooled = d_pooled.contiguous()
        sizes = [chunks * places * size * width for chunks, places, size, _ in shapes]
        d_tables = table.new_zeros(sum(sizes))
        filters = _as_filters(table, weights, d_tables, d_pooled)
        opened_native_library().pool_characters_backward(filters, characters, d_pooled, positions, d_tables)
        d_table, d_parts = torch.zeros_like(table), []
        d_biases = torch.split(d_pooled.sum(0), [len(weight) for weight in weights])
        for weight, part, shape, d_bias in zip(weights, torch.split(d_tables, sizes), shapes, d_biases, strict=True):
            # (chunks, w, V, width) -> (V, n, w)
            d_responses = part.view(shape).permute(2, 0, 3, 1).flatten(1, 2)[:, : len(weight)].flatten(1)
            multiply(d_responses, weight.transpose(1, 2).flatten(0, 1), d_table, adds=True)
            d_weight = table.new_empty(d_responses.shape[1], table.shape[1])
            multiply(d_responses.t(), table, d_weight)
            d_parts += [d_weight.view(len(weight), weight.shape[2], -1).transpose(1, 2), d_bias]
        return None, d_table, *d_parts


def _responses(table: Tensor, weight: Tensor, width: int) -> Tensor:
    """(chunks of filters, w, V, width) what each filter makes of each character at each of its places."""
    filled = pad(weight, (0, 0, 0, 0, 0, -len(weight) % width))  # (n, C, w)
    made = table.new_empty(len(table), filled.shape[0] * filled.shape[2])
    multiply(table, filled.permute(1, 0, 2).flatten(1), made)
    return made.view(len(table), -1, width, weight.shape[2]).permute(1, 3, 0, 2)


def _as_filters(
    table: Tensor, weights: tuple[Tensor, ...] | list[Tensor], tables: Tensor, bias: Tensor
) -> FilterTables:
    """As the library reads them; the tensors must outlive it."""
    widths, counts = zip(*((weight.shape[2], len(weight)) for weight in weights), strict=True)
    groups = len(weights)
    own_widths, own_counts = (c_int64 * groups)(*widths), (c_int64 * groups)(*counts)
    return FilterTables(len(table), groups, own_widths, own_counts, tables.data_ptr(), bias.data_ptr(), 0)
