"""`max_pooling` as three Triton kernels.

A program takes a few words and, of each, sixteen places at a time. Most words are short: where all further characters
are padding, all further products are alike, and nobody needs them. Words are therefore taken in the order of their
length, and a group of short ones ends after its first sixteen places.
"""

# Triton has no types and would take annotations for its own, and no records, so kernels take all they need one by one.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from elmore.kernels.max_pooling import MaxPooling, Pooled

WORDS, PLACES = 8, 16  # of one tile
FILTERS = 128
SPLITS = 32  # programs that share the sum over all words


class Plan(NamedTuple):
    """The order in which words are taken, and how far each group of them has to be read."""

    order: Tensor  # (W,) by length
    rounds: Tensor  # (groups,) each of PLACES places


def plan_for(characters: Tensor) -> Plan:
    """For characters (W, M)."""
    words, length = characters.shape
    rounds = torch.ones(words, dtype=torch.int32, device=characters.device)
    for start in range(PLACES, length, PLACES):
        # At start - 1, the last place before, every filter has seen what it would see from there on.
        rounds += (characters[:, start - 1 :] != characters[:, start - 1 : start]).any(dim=1)
    rounds, order = torch.sort(rounds, stable=True)
    last = torch.arange(WORDS - 1, words + WORDS - 1, WORDS, device=characters.device).clamp_(max=words - 1)
    return Plan(order, rounds[last])


def pool(x: Tensor, matrix: Tensor, lasts: Tensor, characters: Tensor) -> Pooled:
    """See `max_pooling.MaxPooling`."""
    plan = plan_for(characters)
    words, filters = len(x), len(matrix)
    values = x.new_empty(words, filters)
    places = torch.empty(words, filters, dtype=torch.int16, device=x.device)
    grid = (triton.cdiv(words, WORDS), triton.cdiv(filters, FILTERS))
    _pool_forward[grid](
        x, matrix.contiguous(), lasts, plan.order, plan.rounds, values, places, words, *_sizes(x, matrix),
        BLOCK_K=min(128, triton.next_power_of_2(matrix.shape[1])),
        WORDS=WORDS, PLACES=PLACES, FILTERS=FILTERS, num_warps=8,
    )  # fmt: skip
    return Pooled(values, places, plan)


def pool_backward(
    d_values: Tensor, places: Tensor, x: Tensor, matrix: Tensor, plan: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    """See `max_pooling.MaxPooling`."""
    order, rounds = plan
    words, (filters, seen) = len(x), matrix.shape
    block_k = min(128, triton.next_power_of_2(seen))
    d_seen = x.new_zeros(words, x.shape[1] - seen // x.shape[2] + 1, seen)
    parts = torch.empty(SPLITS, filters, seen, dtype=torch.float32, device=x.device)
    shared = d_values.contiguous(), places, order, rounds
    groups = triton.cdiv(words, WORDS)
    sizes = {"BLOCK_K": block_k, "WORDS": WORDS, "PLACES": PLACES}
    _pool_to_seen[(groups, triton.cdiv(seen, block_k))](
        *shared, matrix.contiguous(), d_seen, words, d_seen.shape[1], filters, seen, **sizes,
        FILTERS=64, num_warps=8,
    )  # fmt: skip
    _pool_to_filters[(triton.cdiv(filters, FILTERS), triton.cdiv(seen, block_k), SPLITS)](
        *shared, x, parts, words, groups, *_sizes(x, matrix), **sizes, FILTERS=FILTERS, SPLITS=SPLITS, num_warps=8
    )
    return d_seen, parts.sum(dim=0).to(matrix.dtype)


TRITON_MAX_POOLING = MaxPooling(pool, pool_backward)


def _sizes(x: Tensor, matrix: Tensor) -> tuple[int, ...]:
    assert x.is_contiguous()
    filters, seen = matrix.shape
    return x.shape[1] - seen // x.shape[2] + 1, x.shape[1], x.shape[2], filters, seen


@triton.jit
def _seen(x, word, place, k, words, characters, padded, size, seen):
    # What a filter sees at the next place begins one character later: the spans overlap, and need not be laid out.
    inside = ((word < words) & (place < characters))[:, None] & (k < seen)[None, :]
    return tl.load(x + (word * padded * size + place * size)[:, None] + k[None, :], inside, 0.0)


@triton.jit
def _pool_forward(
    x, matrix, lasts, order, rounds, values, places, words, characters, padded, size, filters, seen,
    BLOCK_K: tl.constexpr, WORDS: tl.constexpr, PLACES: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    row = tl.arange(0, WORDS * PLACES)
    rank = group * WORDS + row // PLACES
    word = tl.load(order + rank, rank < words, words)
    f = tl.program_id(1) * FILTERS + tl.arange(0, FILTERS)
    last = tl.load(lasts + f, f < filters, 0)
    best = tl.full((WORDS, FILTERS), -float("inf"), tl.float32)
    found = tl.zeros((WORDS, FILTERS), tl.int32)
    for one in range(tl.load(rounds + group)):
        place = one * PLACES + row % PLACES
        products = tl.zeros((WORDS * PLACES, FILTERS), tl.float32)
        for start in range(0, seen, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            span = _seen(x, word, place, k, words, characters, padded, size, seen)
            weight = tl.load(matrix + f[None, :] * seen + k[:, None], (f < filters)[None, :] & (k < seen)[:, None], 0.0)
            products = tl.dot(span, weight, products, input_precision="ieee")
        products = tl.where(place[:, None] <= last[None, :], products, -float("inf"))
        highest, at = tl.max(tl.reshape(products, (WORDS, PLACES, FILTERS)), axis=1, return_indices=True)
        found = tl.where(highest > best, one * PLACES + at, found)
        best = tl.maximum(best, highest)
    rank = group * WORDS + tl.arange(0, WORDS)
    word = tl.load(order + rank, rank < words, words)
    inside = (word < words)[:, None] & (f < filters)[None, :]
    to = word[:, None] * filters + f[None, :]
    tl.store(values + to, best, inside)
    tl.store(places + to, found, inside)


@triton.jit
def _sparse(
    d_values, places, order, group, one, f, words, filters,
    WORDS: tl.constexpr, PLACES: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    """(WORDS * PLACES, FILTERS) the gradients of the products: of each word and filter one place has any."""
    rank = group * WORDS + tl.arange(0, WORDS)
    word = tl.load(order + rank, rank < words, words)
    inside = (word < words)[:, None] & (f < filters)[None, :]
    to = word[:, None] * filters + f[None, :]
    d = tl.load(d_values + to, inside, 0.0)
    at = tl.load(places + to, inside, -1).to(tl.int32) - one * PLACES
    place = tl.arange(0, PLACES)
    spread = tl.where(at[:, None, :] == place[None, :, None], d[:, None, :], 0.0)
    return tl.reshape(spread, (WORDS * PLACES, FILTERS))


@triton.jit
def _pool_to_seen(
    d_values, places, order, rounds, matrix, d_seen, words, characters, filters, seen,
    BLOCK_K: tl.constexpr, WORDS: tl.constexpr, PLACES: tl.constexpr, FILTERS: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    row = tl.arange(0, WORDS * PLACES)
    rank = group * WORDS + row // PLACES
    word = tl.load(order + rank, rank < words, words)
    for one in range(tl.load(rounds + group)):
        total = tl.zeros((WORDS * PLACES, BLOCK_K), tl.float32)
        for start in range(0, filters, FILTERS):
            f = start + tl.arange(0, FILTERS)
            d = _sparse(d_values, places, order, group, one, f, words, filters, WORDS, PLACES, FILTERS)
            weight = tl.load(matrix + f[:, None] * seen + k[None, :], (f < filters)[:, None] & (k < seen)[None, :], 0.0)
            total = tl.dot(d.to(weight.dtype), weight, total, input_precision="ieee")
        place = one * PLACES + row % PLACES
        inside = ((word < words) & (place < characters))[:, None] & (k < seen)[None, :]
        tl.store(d_seen + (word * characters + place)[:, None] * seen + k[None, :], total, inside)


@triton.jit
def _pool_to_filters(
    d_values, places, order, rounds, x, parts, words, groups, characters, padded, size, filters, seen,
    BLOCK_K: tl.constexpr, WORDS: tl.constexpr, PLACES: tl.constexpr, FILTERS: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    f = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS)
    k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    split = tl.program_id(2)
    row = tl.arange(0, WORDS * PLACES)
    total = tl.zeros((FILTERS, BLOCK_K), tl.float32)
    # Every so manieth group, so that each program has short words and long ones.
    for group in range(split, groups, SPLITS):
        rank = group * WORDS + row // PLACES
        word = tl.load(order + rank, rank < words, words)
        for one in range(tl.load(rounds + group)):
            d = _sparse(d_values, places, order, group, one, f, words, filters, WORDS, PLACES, FILTERS)
            span = _seen(x, word, one * PLACES + row % PLACES, k, words, characters, padded, size, seen)
            total = tl.dot(tl.trans(d.to(span.dtype)), span, total, input_precision="ieee")
    to = (split * filters + f)[:, None] * seen + k[None, :]
    tl.store(parts + to, total, (f < filters)[:, None] & (k < seen)[None, :])
