"""Max-over-time pooling (`character_cnn.MaxPooling`) as three Triton kernels.

A program computes sixteen positions of a few words at a time. Most words are short: where all further characters are
padding, all further products are equal. Words are therefore sorted by length, and a group of short ones ends after its
first sixteen positions.
"""

# Triton has no types, would misread annotations, and has no records: kernels take every pointer and size separately.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmore.nn.character_cnn import MaxPooling, Pooled

WORDS, POSITIONS = 8, 16  # of one tile
FILTERS = 128
SPLITS = 32  # programs that share the sum over all words


class Plan(NamedTuple):
    """The order of the words, and the number of rounds of each group."""

    order: Tensor  # (W,) by length
    rounds: Tensor  # (groups,) each of POSITIONS positions


def plan_for(characters: Tensor) -> Plan:
    """For characters (W, M)."""
    words, length = characters.shape
    rounds = torch.ones(words, dtype=torch.int32, device=characters.device)
    for start in range(POSITIONS, length, POSITIONS):
        # If all characters from start - 1 on are equal, all further products equal the one at start - 1.
        rounds += (characters[:, start - 1 :] != characters[:, start - 1 : start]).any(dim=1)
    rounds, order = torch.sort(rounds, stable=True)
    last = torch.arange(WORDS - 1, words + WORDS - 1, WORDS, device=characters.device).clamp_(max=words - 1)
    return Plan(order, rounds[last])


def pool(x: Tensor, matrix: Tensor, last_positions: Tensor, characters: Tensor) -> Pooled:
    """See `character_cnn.MaxPooling`."""
    plan = plan_for(characters)
    words, filters = len(x), len(matrix)
    values = x.new_empty(words, filters)
    argmax = torch.empty(words, filters, dtype=torch.int16, device=x.device)
    grid = (triton.cdiv(words, WORDS), triton.cdiv(filters, FILTERS))
    _pool_forward[grid](
        x, matrix.contiguous(), last_positions, plan.order, plan.rounds, values, argmax, words, *_sizes(x, matrix),
        BLOCK_K=_block_k(matrix.shape[1]),
        WORDS=WORDS, POSITIONS=POSITIONS, FILTERS=FILTERS, num_warps=8,
    )  # fmt: skip
    return Pooled(values, argmax, plan)


def pool_backward(
    d_values: Tensor, argmax: Tensor, x: Tensor, matrix: Tensor, plan: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """See `character_cnn.MaxPooling`."""
    order, rounds = plan
    words, (filters, span_size) = len(x), matrix.shape
    block_k = _block_k(span_size)
    d_spans = x.new_zeros(words, x.shape[1] - span_size // x.shape[2] + 1, span_size)
    partial_sums = torch.empty(SPLITS, filters, span_size, dtype=torch.float32, device=x.device)
    shared = d_values.contiguous(), argmax, order, rounds
    groups = triton.cdiv(words, WORDS)
    sizes = {"BLOCK_K": block_k, "WORDS": WORDS, "POSITIONS": POSITIONS}
    _pool_to_spans[(groups, triton.cdiv(span_size, block_k))](
        *shared, matrix.contiguous(), d_spans, words, d_spans.shape[1], filters, span_size, **sizes,
        FILTERS=64, num_warps=8,
    )  # fmt: skip
    _pool_to_filters[(triton.cdiv(filters, FILTERS), triton.cdiv(span_size, block_k), SPLITS)](
        *shared, x, partial_sums, words, groups, *_sizes(x, matrix), **sizes,
        FILTERS=FILTERS, SPLITS=SPLITS, num_warps=8,
    )  # fmt: skip
    return d_spans, partial_sums.sum(dim=0).to(matrix.dtype)


TRITON_MAX_POOLING = MaxPooling(pool, pool_backward)


def _block_k(span_size: int) -> int:
    # A GPU multiplies blocks of at least 16, however few numbers a filter of a tiny model sees.
    return max(16, min(128, int(triton.next_power_of_2(span_size))))


def _sizes(x: Tensor, matrix: Tensor) -> tuple[int, ...]:
    assert x.is_contiguous()
    filters, span_size = matrix.shape
    return x.shape[1] - span_size // x.shape[2] + 1, x.shape[1], x.shape[2], filters, span_size


@triton.jit
def _spans(x, word, position, k, words, characters, padded, size, span_size):
    # The span of the next position begins one character later: the spans overlap in x and are not copied.
    inside = ((word < words) & (position < characters))[:, None] & (k < span_size)[None, :]
    return tl.load(x + (word * padded * size + position * size)[:, None] + k[None, :], inside, 0.0)


@triton.jit
def _pool_forward(
    x, matrix, last_positions, order, rounds, values, argmax, words, characters, padded, size, filters, span_size,
    BLOCK_K: tl.constexpr, WORDS: tl.constexpr, POSITIONS: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    row = tl.arange(0, WORDS * POSITIONS)
    rank = group * WORDS + row // POSITIONS
    word = tl.load(order + rank, rank < words, words)
    f = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    last = tl.load(last_positions + f, f < filters, 0)
    best = tl.full((WORDS, FILTERS), -float("inf"), tl.float32)
    best_position = tl.zeros((WORDS, FILTERS), tl.int32)
    for round_number in range(tl.load(rounds + group)):
        position = round_number * POSITIONS + row % POSITIONS
        products = tl.zeros((WORDS * POSITIONS, FILTERS), tl.float32)
        for start in range(0, span_size, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            span = _spans(x, word, position, k, words, characters, padded, size, span_size)
            weight = tl.load(
                matrix + f[None, :] * span_size + k[:, None], (f < filters)[None, :] & (k < span_size)[:, None], 0.0
            )
            products = tl.dot(span, weight, products, input_precision="ieee")
        products = tl.where(position[:, None] <= last[None, :], products, -float("inf"))
        highest, at = tl.max(tl.reshape(products, (WORDS, POSITIONS, FILTERS)), axis=1, return_indices=True)
        best_position = tl.where(highest > best, round_number * POSITIONS + at, best_position)
        best = tl.maximum(best, highest)
    rank = group * WORDS + tl.arange(0, WORDS)
    word = tl.load(order + rank, rank < words, words)
    inside = (word < words)[:, None] & (f < filters)[None, :]
    to = word[:, None] * filters + f[None, :]
    tl.store(values + to, best, inside)
    tl.store(argmax + to, best_position, inside)


@triton.jit
def _sparse(
    d_values, argmax, order, group, round_number, f, words, filters,
    WORDS: tl.constexpr, POSITIONS: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """(WORDS * POSITIONS, FILTERS) the gradients of the products: for each word and filter only one is not zero."""
    rank = group * WORDS + tl.arange(0, WORDS)
    word = tl.load(order + rank, rank < words, words)
    inside = (word < words)[:, None] & (f < filters)[None, :]
    to = word[:, None] * filters + f[None, :]
    d = tl.load(d_values + to, inside, 0.0)
    at = tl.load(argmax + to, inside, -1).to(tl.int32) - round_number * POSITIONS
    position = tl.arange(0, POSITIONS)
    scattered = tl.where(at[:, None, :] == position[None, :, None], d[:, None, :], 0.0)
    return tl.reshape(scattered, (WORDS * POSITIONS, FILTERS))


@triton.jit
def _pool_to_spans(
    d_values, argmax, order, rounds, matrix, d_spans, words, characters, filters, span_size,
    BLOCK_K: tl.constexpr, WORDS: tl.constexpr, POSITIONS: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    row = tl.arange(0, WORDS * POSITIONS)
    rank = group * WORDS + row // POSITIONS
    word = tl.load(order + rank, rank < words, words)
    for round_number in range(tl.load(rounds + group)):
        total = tl.zeros((WORDS * POSITIONS, BLOCK_K), tl.float32)
        for start in range(0, filters, FILTERS):
            f = start + tl.arange(0, FILTERS)
            d = _sparse(d_values, argmax, order, group, round_number, f, words, filters, WORDS, POSITIONS, FILTERS)
            weight = tl.load(
                matrix + f[:, None] * span_size + k[None, :], (f < filters)[:, None] & (k < span_size)[None, :], 0.0
            )
            total = tl.dot(d.to(weight.dtype), weight, total, input_precision="ieee")
        position = round_number * POSITIONS + row % POSITIONS
        inside = ((word < words) & (position < characters))[:, None] & (k < span_size)[None, :]
        tl.store(d_spans + (word * characters + position)[:, None] * span_size + k[None, :], total, inside)


@triton.jit
def _pool_to_filters(
    d_values, argmax, order, rounds, x, partial_sums, words, groups, characters, padded, size, filters, span_size,
    BLOCK_K: tl.constexpr, WORDS: tl.constexpr, POSITIONS: tl.constexpr, FILTERS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    f = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    split = tl.program_id(2)
    row = tl.arange(0, WORDS * POSITIONS)
    total = tl.zeros((FILTERS, BLOCK_K), tl.float32)
    # Every SPLITS-th group, so that each program has short words and long ones.
    for group in range(split, groups, SPLITS):
        rank = group * WORDS + row // POSITIONS
        word = tl.load(order + rank, rank < words, words)
        for round_number in range(tl.load(rounds + group)):
            d = _sparse(d_values, argmax, order, group, round_number, f, words, filters, WORDS, POSITIONS, FILTERS)
            span = _spans(
                x, word, round_number * POSITIONS + row % POSITIONS, k, words, characters, padded, size, span_size
            )
            total = tl.dot(tl.trans(d.to(span.dtype)), span, total, input_precision="ieee")
    to = (split * filters + f)[:, None] * span_size + k[None, :]
    tl.store(partial_sums + to, total, (f < filters)[:, None] & (k < span_size)[None, :])
