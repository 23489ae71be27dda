"""`softmax` as a Triton kernel: a program for each position reads its row twice and writes it once."""

# Triton has no types and would take annotations for its own, and no records, so kernels take all they need one by one.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 8192  # as many as a training draws by default, so that one pass of the loop will do


def softmax_(logits: Tensor, offsets: Tensor, target_logits: Tensor, target_columns: Tensor) -> Tensor:
    """See `softmax.softmax_`."""
    log_sums = torch.empty_like(target_logits)
    _normalize[(len(logits),)](
        logits,
        logits.stride(0),
        offsets,
        target_logits,
        target_columns,
        log_sums,
        logits.shape[1],
        BLOCK=BLOCK,
        num_warps=16,
    )
    return log_sums


@triton.jit
def _normalize(logits, stride, offsets, target_logits, target_columns, log_sums, candidates, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    target = tl.load(target_logits + row)
    column = tl.load(target_columns + row)
    highest = target
    summed = tl.exp(target - highest)
    for start in range(0, candidates, BLOCK):
        x = _logits(logits, offsets, column, candidates, start, BLOCK)
        higher = tl.maximum(highest, tl.max(x))
        summed = summed * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher))
        highest = higher
    log_sum = highest + tl.log(summed)
    tl.store(log_sums + row, log_sum)
    for start in range(0, candidates, BLOCK):
        x = _logits(logits, offsets, column, candidates, start, BLOCK)
        column_index = start + tl.arange(0, BLOCK)
        tl.store(logits + column_index, tl.exp(x - log_sum), column_index < candidates)


@triton.jit
def _logits(logits, offsets, column, candidates, start, BLOCK: tl.constexpr):
    column_index = start + tl.arange(0, BLOCK)
    # The right column is loaded too and only then left out: with it in the mask, each thread would load one by one.
    inside = column_index < candidates
    x = tl.load(logits + column_index, inside, 0.0).to(tl.float32) + tl.load(offsets + column_index, inside, 0.0)
    return tl.where(inside & (column_index != column), x, -float("inf"))
