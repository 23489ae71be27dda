"""How well the next word is predicted: cross-entropy over all classes, or over a sample of them.

Both are one computation: the right class against a set of candidates, each score lowered by the logarithm of how often
its class was to be expected among them (by nothing for the full softmax). The scores of a chunk of positions are made,
used for loss and gradients at once, and forgotten: kept, they would be the largest tensor of a training by far.

N positions, P vector size, V classes, K candidates.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

POSITIONS_AT_ONCE = 4096


class Candidates(NamedTuple):
    """The classes to choose among, and the logarithm of how often each class of all was to be expected there."""

    classes: Tensor  # (K,) distinct
    log_expected_counts: Tensor  # (V,)


def cross_entropy(
    hidden: Tensor,  # (N, P)
    targets: Tensor,  # (N,)
    weight: Tensor,  # (V, P)
    bias: Tensor,  # (V,)
    candidates: Candidates | None = None,
) -> Tensor:
    """() the sum over all positions of -log p(target), in float32 or better; without candidates over all classes."""
    loss: Tensor = _CrossEntropy.apply(hidden, targets, weight, bias, candidates)  # type: ignore[no-untyped-call]
    return loss


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, candidates: Candidates | None
    ) -> Tensor:
        exact = torch.promote_types(hidden.dtype, torch.float32)
        right = weight[targets].to(hidden.dtype)  # (N, P)
        right_bias = bias[targets].to(exact)
        if candidates is None:
            rows, offsets, column = weight.to(hidden.dtype), bias.to(exact), targets
        else:
            classes, expected = candidates.classes, candidates.log_expected_counts.to(exact)
            rows = weight[classes].to(hidden.dtype)  # (K, P)
            offsets = bias[classes].to(exact) - expected[classes]
            right_bias = right_bias - expected[targets]
            column = _columns(classes, len(weight))[targets]  # (N,) where the target is a candidate
        loss = torch.zeros((), dtype=exact, device=hidden.device)
        d_hidden = torch.empty_like(hidden)
        d_right = torch.empty(len(targets), dtype=exact, device=hidden.device)
        d_rows = torch.zeros(rows.shape, dtype=exact, device=hidden.device)
        d_offsets = torch.zeros_like(offsets)
        for start in range(0, len(targets), POSITIONS_AT_ONCE):
            part = slice(start, start + POSITIONS_AT_ONCE)
            h = hidden[part]
            true = (h.to(exact) * right[part].to(exact)).sum(-1) + right_bias[part]  # (n,)
            scores = torch.mm(h, rows.t()).to(exact) + offsets  # (n, K)
            # The right class is counted by itself, so it must not stand among the candidates too.
            places = torch.arange(scores.shape[1], device=scores.device)
            scores = scores.masked_fill(places == column[part, None], float("-inf"))
            total = torch.logaddexp(scores.logsumexp(-1), true)
            loss += (total - true).sum()
            d_scores = (scores - total[:, None]).exp().to(hidden.dtype)
            d_true = (true - total).exp() - 1
            d_right[part] = d_true
            d_hidden[part] = torch.addmm(d_true[:, None].to(hidden.dtype) * right[part], d_scores, rows)
            d_rows += torch.mm(d_scores.t(), h)
            d_offsets += d_scores.sum(0, dtype=exact)
        ctx.save_for_backward(hidden, targets, d_hidden, d_right, d_rows, d_offsets)
        ctx.classes = None if candidates is None else candidates.classes
        ctx.weight_shape = weight.shape
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        hidden, targets, d_hidden, d_right, d_rows, d_offsets = ctx.saved_tensors
        if ctx.classes is None:
            d_weight, d_bias = d_rows.clone(), d_offsets.clone()
        else:
            d_weight = d_rows.new_zeros(ctx.weight_shape).index_copy_(0, ctx.classes, d_rows)
            d_bias = d_rows.new_zeros(ctx.weight_shape[0]).index_copy_(0, ctx.classes, d_offsets)
        d_weight.index_add_(0, targets, d_right[:, None] * hidden.to(d_right.dtype))
        d_bias.index_add_(0, targets, d_right)
        return (d_hidden * d_loss).to(hidden.dtype), None, d_weight * d_loss, d_bias * d_loss, None


def _columns(classes: Tensor, vocabulary: int) -> Tensor:
    """(V,) the place of each class among the candidates; beyond the last where it is not among them."""
    columns = torch.full((vocabulary,), len(classes), device=classes.device)
    columns[classes] = torch.arange(len(classes), device=classes.device)
    return columns
