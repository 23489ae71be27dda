"""How well the next word is predicted: cross-entropy over all classes, or over a sample of them.

Both are one computation: the right class against a set of candidates, each score lowered by the logarithm of how often
its class was to be expected among them (by nothing for the full softmax). The scores of a chunk of positions are made,
used for loss and gradients at once, and forgotten: kept, they would be the largest tensor of a training by far.

N positions, P vector size, V classes, K candidates.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.kernels.scores import normalize_

# On a GPU as many as memory has room for; on a CPU as many as stay in the cache until they have been used.
SCORES_AT_ONCE = {"cuda": 2**27, "cpu": 2**21}


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
    choice = _Choice.of(hidden, targets, weight, bias, candidates)
    if not torch.is_grad_enabled():
        return torch.stack([part.losses.sum() for part in choice.parts(hidden)]).sum()
    loss: Tensor = _CrossEntropy.apply(hidden, targets, weight, bias, choice)  # type: ignore[no-untyped-call]
    return loss


class _Part(NamedTuple):
    """A chunk of n positions."""

    where: slice
    probabilities: Tensor  # (n, K) of the candidates; 0 for the right class, which is counted by itself
    true: Tensor  # (n,) the score of the right class
    total: Tensor  # (n,) the logarithm of the sum over all

    @property
    def losses(self) -> Tensor:
        return self.total - self.true


class _Choice(NamedTuple):
    """The right class of each position, and what it stands against."""

    rows: Tensor  # (K, P) the candidates
    offsets: Tensor  # (K,) what is added to their scores
    right: Tensor  # (N, P)
    right_offsets: Tensor  # (N,)
    columns: Tensor  # (N,) where the right class is itself a candidate
    classes: Tensor | None  # (K,) which classes the candidates are; None for all

    @classmethod
    @torch.no_grad()
    def of(
        cls, hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, candidates: Candidates | None
    ) -> "_Choice":
        exact = torch.promote_types(hidden.dtype, torch.float32)
        right, right_bias = weight[targets].to(hidden.dtype), bias[targets].to(exact)
        if candidates is None:
            return cls(weight.to(hidden.dtype), bias.to(exact), right, right_bias, targets, None)
        classes, expected = candidates.classes, candidates.log_expected_counts.to(exact)
        return cls(
            rows=weight[classes].to(hidden.dtype),
            offsets=bias[classes].to(exact) - expected[classes],
            right=right,
            right_offsets=right_bias - expected[targets],
            columns=_columns(classes, len(weight))[targets],
            classes=classes,
        )

    def parts(self, hidden: Tensor) -> Iterator[_Part]:
        """All positions, a chunk at a time."""
        exact = self.offsets.dtype
        at_once = max(SCORES_AT_ONCE["cuda" if hidden.is_cuda else "cpu"] // len(self.rows), 1)
        for start in range(0, len(hidden), at_once):
            where = slice(start, start + at_once)
            true = (hidden[where].to(exact) * self.right[where].to(exact)).sum(-1) + self.right_offsets[where]
            scores = torch.mm(hidden[where], self.rows.t())
            total = normalize_(scores, self.offsets, true, self.columns[where])
            yield _Part(where, scores, true, total)


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradients in one pass over the scores."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor,  # noqa: ARG004  # its numbers are in the choice; here it is named for its gradient
        choice: _Choice,
    ) -> Tensor:
        loss = choice.offsets.new_zeros(())
        d_hidden = torch.empty_like(hidden)
        d_right = torch.empty_like(choice.right_offsets)
        d_rows = choice.offsets.new_zeros(choice.rows.shape)
        d_offsets = torch.zeros_like(choice.offsets)
        for part in choice.parts(hidden):
            where, d_scores = part.where, part.probabilities  # of every candidate its own: none of them is right
            loss += part.losses.sum()
            d_right[where] = d_true = (-part.losses).exp() - 1
            d_hidden[where] = torch.addmm(d_true[:, None].to(hidden.dtype) * choice.right[where], d_scores, choice.rows)
            d_rows += torch.mm(d_scores.t(), hidden[where])
            d_offsets += d_scores.sum(0, dtype=d_offsets.dtype)
        ctx.save_for_backward(hidden, targets, d_hidden, d_right, d_rows, d_offsets)
        ctx.classes, ctx.weight_shape = choice.classes, weight.shape
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        hidden, targets, d_hidden, d_right, d_rows, d_offsets = ctx.saved_tensors
        # Before they are spread over all classes, of which a sample has few.
        d_right, d_rows, d_offsets = d_right * d_loss, d_rows * d_loss, d_offsets * d_loss
        if ctx.classes is None:
            d_weight, d_bias = d_rows, d_offsets
        else:
            d_weight = d_rows.new_zeros(ctx.weight_shape).index_copy_(0, ctx.classes, d_rows)
            d_bias = d_rows.new_zeros(ctx.weight_shape[0]).index_copy_(0, ctx.classes, d_offsets)
        d_weight.index_add_(0, targets, d_right[:, None] * hidden.to(d_right.dtype))
        d_bias.index_add_(0, targets, d_right)
        return (d_hidden * d_loss).to(hidden.dtype), None, d_weight, d_bias, None


def _columns(classes: Tensor, vocabulary: int) -> Tensor:
    """(V,) the place of each class among the candidates; beyond the last where it is not among them."""
    columns = torch.full((vocabulary,), len(classes), device=classes.device)
    columns[classes] = torch.arange(len(classes), device=classes.device)
    return columns
