"""`strongest` as three Triton kernels.

A program takes a few words and, of each, sixteen places at a time. Most words are short: where all further letters are
padding, all further products are alike, and nobody needs them. Words are therefore taken in the order of their length,
and a group of short ones ends after its first sixteen places.
"""

# Triton has no types, and would take annotations for its own.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

WORDS, PLACES = 8, 16  # of one tile
FILTERS = 128
SPLITS = 32  # programs that share the sum over all words


class Plan(NamedTuple):
    """The order in which words are taken, and how far each group of them has to be read."""

    order: Tensor  # (W,) by length
    rounds: Tensor  # (groups,) each of PLACES places


def plan(letters: Tensor) -> Plan:
    """For letters (W, M)."""
    words, characters = letters.shape
    rounds = torch.ones(words, dtype=torch.int32, device=letters.device)
    for start in range(PLACES, characters, PLACES):
        # At start - 1, the last place before, every filter has seen what it would see from there on.
        rounds += (letters[:, start - 1 :] != letters[:, start - 1 : start]).any(dim=1)
    rounds, order = torch.sort(rounds, stable=True)
    last = torch.arange(WORDS - 1, words + WORDS - 1, WORDS, device=letters.device).clamp_(max=words - 1)
    return Plan(order, rounds[last])


def forward(x: Tensor, matrix: Tensor, lasts: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """The values and the places."""
    words, filters = len(x), len(matrix)
    values = x.new_empty(words, filters)
    places = torch.empty(words, filters, dtype=torch.int16, device=x.device)
    grid = (triton.cdiv(words, WORDS), triton.cdiv(filters, FILTERS))
    _strongest_forward[grid](
        x, matrix.contiguous(), lasts, plan.order, plan.rounds, values, places, words, *_sizes(x, matrix),
        BLOCK_K=min(128, triton.next_power_of_2(matrix.shape[1])),
        WORDS=WORDS, PLACES=PLACES, FILTERS=FILTERS, num_warps=8,
    )  # fmt: skip
    return values, places


def backward(d_values: Tensor, places: Tensor, x: Tensor, matrix: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
    """The gradients of what the filters saw (W, M, K), and of the filters (F, K)."""
    words, (filters, seen) = len(x), matrix.shape
    block_k = min(128, triton.next_power_of_2(seen))
    d_windows = x.new_zeros(words, x.shape[1] - seen // x.shape[2] + 1, seen)
    parts = torch.empty(SPLITS, filters, seen, dtype=torch.float32, device=x.device)
    shared = d_values.contiguous(), places, plan.order, plan.rounds
    groups = triton.cdiv(words, WORDS)
    sizes = {"BLOCK_K": block_k, "WORDS": WORDS, "PLACES": PLACES}
    _strongest_to_windows[(groups, triton.cdiv(seen, block_k))](
        *shared, matrix.contiguous(), d_windows, words, d_windows.shape[1], filters, seen, **sizes,
        FILTERS=64, num_warps=8,
    )  # fmt: skip
    _strongest_to_filters[(triton.cdiv(filters, FILTERS), triton.cdiv(seen, block_k), SPLITS)](
        *shared, x, parts, words, groups, *_sizes(x, matrix), **sizes, FILTERS=FILTERS, SPLITS=SPLITS, num_warps=8
    )
    return d_windows, parts.sum(dim=0).to(matrix.dtype)


def _sizes(x: Tensor, matrix: Tensor) -> tuple[int, ...]:
    assert x.is_contiguous()
    filters, seen = matrix.shape
    return x.shape[1] - seen // x.shape[2] + 1, x.shape[1], x.shape[2], filters, seen


@triton.jit
def _seen(x, word, place, k, words, characters, padded, size, seen):
    # What a filter sees at the next place begins one letter later: the windows overlap, and need not be laid out.
    inside = ((word < words) & (place < characters))[:, None] & (k < seen)[None, :]
    return tl.load(x + (word * padded * size + place * size)[:, None] + k[None, :], inside, 0.0)


@triton.jit
def _strongest_forward(
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
            letters = _seen(x, word, place, k, words, characters, padded, size, seen)
            weight = tl.load(matrix + f[None, :] * seen + k[:, None], (f < filters)[None, :] & (k < seen)[:, None], 0.0)
            products = tl.dot(letters, weight, products, input_precision="ieee")
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
def _strongest_to_windows(
    d_values, places, order, rounds, matrix, d_windows, words, characters, filters, seen,
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
        tl.store(d_windows + (word * characters + place)[:, None] * seen + k[None, :], total, inside)


@triton.jit
def _strongest_to_filters(
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
            letters = _seen(x, word, one * PLACES + row % PLACES, k, words, characters, padded, size, seen)
            total = tl.dot(tl.trans(d.to(letters.dtype)), letters, total, input_precision="ieee")
    to = (split * filters + f)[:, None] * seen + k[None, :]
    tl.store(parts + to, total, (f < filters)[:, None] & (k < seen)[None, :])
