"""How well the next word is predicted: cross-entropy over all classes, or over a sample of them.

Both are one computation: the right class against a set of candidates, each score lowered by the logarithm of how often
its class was to be expected among them (by nothing for the full softmax). The scores of a chunk of positions are made,
used for loss and gradients at once, and forgotten: kept, they would be the largest tensor of a training by far.

G groups of positions (directions), N positions in each, P vector size, V classes, K candidates.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.kernels.softmax import Normalize, normalize_

# On a GPU as many as memory has room for; on a CPU as many as stay in the cache until they have been used.
SCORES_AT_ONCE = {"cuda": 2**27, "cpu": 2**21}


class Candidates(NamedTuple):
    """The classes to choose among, and the logarithm of how often each class of all was to be expected there."""

    classes: Tensor  # (K,) distinct
    log_expected_counts: Tensor  # (V,)


def cross_entropy(
    hidden: Tensor,  # (G, N, P)
    targets: Tensor,  # (G, N)
    weight: Tensor,  # (V, P)
    bias: Tensor,  # (V,)
    candidates: Candidates | None = None,
    *,
    normalize: Normalize = normalize_,
) -> Tensor:
    """(G,) the sum of -log p(target) over the positions of each group, in float32 or better.

    Without candidates it is over all classes. The groups share weight and bias, whose gradients are as large as they
    are, so that it pays to make them once for all.
    """
    choice = _Choice.of(hidden, targets, weight, bias, candidates)
    losses: Tensor
    if not torch.is_grad_enabled():
        losses = choice.offsets.new_zeros(len(hidden))
        for part in choice.parts(hidden, normalize):
            losses[part.group] += part.losses.sum()
        return losses
    losses = _CrossEntropy.apply(hidden, targets, weight, bias, choice, normalize)  # type: ignore[no-untyped-call]
    return losses


class _Part(NamedTuple):
    """A chunk of n positions of one group."""

    group: int
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
    right: Tensor  # (G, N, P)
    right_offsets: Tensor  # (G, N)
    columns: Tensor  # (G, N) where the right class is itself a candidate
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

    def parts(self, hidden: Tensor, normalize: Normalize) -> Iterator[_Part]:
        """All positions, a chunk at a time."""
        exact = self.offsets.dtype
        at_once = max(SCORES_AT_ONCE["cuda" if hidden.is_cuda else "cpu"] // len(self.rows), 1)
        for group, vectors in enumerate(hidden):
            for start in range(0, len(vectors), at_once):
                where = slice(start, start + at_once)
                right, h = self.right[group, where], vectors[where]
                true = (h.to(exact) * right.to(exact)).sum(-1) + self.right_offsets[group, where]
                scores = torch.mm(h, self.rows.t())
                total = normalize(scores, self.offsets, true, self.columns[group, where])
                yield _Part(group, where, scores, true, total)


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
        normalize: Normalize,
    ) -> Tensor:
        groups = len(hidden)
        losses = choice.offsets.new_zeros(groups)
        d_hidden = torch.empty_like(hidden)
        d_right = torch.empty_like(choice.right_offsets)
        # Of each group its own: what the gradient from above is, nobody knows yet.
        d_rows = choice.offsets.new_zeros(groups, *choice.rows.shape)
        d_offsets = choice.offsets.new_zeros(groups, len(choice.offsets))
        for part in choice.parts(hidden, normalize):
            place = part.group, part.where
            d_scores = part.probabilities  # of every candidate its own: none of them is right
            losses[part.group] += part.losses.sum()
            d_right[place] = d_true = (-part.losses).exp() - 1
            d_hidden[place] = torch.addmm(d_true[:, None].to(hidden.dtype) * choice.right[place], d_scores, choice.rows)
            d_rows[part.group] += torch.mm(d_scores.t(), hidden[place])
            d_offsets[part.group] += d_scores.sum(0, dtype=d_offsets.dtype)
        ctx.save_for_backward(hidden, targets, d_hidden, d_right, d_rows, d_offsets)
        ctx.classes, ctx.weight_shape = choice.classes, weight.shape
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_losses: Tensor) -> tuple[Tensor | None, ...]:
        hidden, targets, d_hidden, d_right, d_rows, d_offsets = ctx.saved_tensors
        # All that is small is weighed first, and only then spread over the classes, which may be a million.
        d_hidden = d_hidden * d_losses[:, None, None].to(hidden.dtype)
        d_right = (d_right * d_losses[:, None]).flatten()
        d_rows, d_offsets = torch.tensordot(d_losses, d_rows, 1), d_losses @ d_offsets
        if ctx.classes is None:
            d_weight, d_bias = d_rows, d_offsets
        else:
            d_weight = d_rows.new_zeros(ctx.weight_shape).index_copy_(0, ctx.classes, d_rows)
            d_bias = d_rows.new_zeros(ctx.weight_shape[0]).index_copy_(0, ctx.classes, d_offsets)
        d_weight.index_add_(0, targets.flatten(), d_right[:, None] * hidden.flatten(0, 1).to(d_right.dtype))
        d_bias.index_add_(0, targets.flatten(), d_right)
        return d_hidden, None, d_weight, d_bias, None, None


def _columns(classes: Tensor, vocabulary: int) -> Tensor:
    """(V,) the place of each class among the candidates; beyond the last where it is not among them."""
    columns = torch.full((vocabulary,), len(classes), device=classes.device)
    columns[classes] = torch.arange(len(classes), device=classes.device)
    return columns
