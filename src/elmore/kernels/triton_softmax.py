"""`softmax` as a Triton kernel: a program for each position reads its row twice and writes it once."""

# Triton has no types and would take annotations for its own, and no records, so kernels take all they need one by one.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 8192  # as many as a training draws by default, so that one pass of the loop will do


def normalize_(scores: Tensor, offsets: Tensor, true: Tensor, columns: Tensor) -> Tensor:
    """See `softmax.normalize_`."""
    total = torch.empty_like(true)
    _normalize[(len(scores),)](
        scores, scores.stride(0), offsets, true, columns, total, scores.shape[1], BLOCK=BLOCK, num_warps=16
    )
    return total


@triton.jit
def _normalize(scores, stride, offsets, true, columns, total, candidates, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    scores += row * stride
    right = tl.load(true + row)
    column = tl.load(columns + row)
    highest = right
    summed = tl.exp(right - highest)
    for start in range(0, candidates, BLOCK):
        x = _scores(scores, offsets, column, candidates, start, BLOCK)
        higher = tl.maximum(highest, tl.max(x))
        summed = summed * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher))
        highest = higher
    whole = highest + tl.log(summed)
    tl.store(total + row, whole)
    for start in range(0, candidates, BLOCK):
        x = _scores(scores, offsets, column, candidates, start, BLOCK)
        place = start + tl.arange(0, BLOCK)
        tl.store(scores + place, tl.exp(x - whole), place < candidates)


@triton.jit
def _scores(scores, offsets, column, candidates, start, BLOCK: tl.constexpr):
    place = start + tl.arange(0, BLOCK)
    # The right column is loaded too and only then left out: with it in the mask, each thread would load one by one.
    inside = place < candidates
    x = tl.load(scores + place, inside, 0.0).to(tl.float32) + tl.load(offsets + place, inside, 0.0)
    return tl.where(inside & (place != column), x, -float("inf"))
