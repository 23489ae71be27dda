"""How well the next word is predicted: cross-entropy over all classes, or over a sample of them.

Both are one computation: the right class against a set of candidates, each logit lowered by the logarithm of how often
its class was to be expected among them (by nothing for the full softmax). The logits of a chunk of positions are made,
used for loss and gradients at once, and forgotten: kept, they would be the largest tensor of a training by far.

G groups of positions (directions), N positions in each, P vector size, V classes, K candidates.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.kernels.softmax import SoftmaxKernel, softmax_

# On a GPU as many as memory has room for; on a CPU as many as stay in the cache until they have been used.
LOGITS_AT_ONCE = {"cuda": 2**27, "cpu": 2**21}


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
    softmax: SoftmaxKernel = softmax_,
    differentiate: "DifferentiateChoice | None" = None,
) -> Tensor:
    """(G,) the sum of -log p(target) over the positions of each group, in float32 or better.

    Without candidates it is over all classes. The groups share weight and bias, whose gradients are as large as they
    are, so that it pays to make them once for all. `differentiate` makes losses and gradients in a way of its own.
    """
    choice = Choice.of(hidden, targets, weight, bias, candidates)
    losses: Tensor
    if not torch.is_grad_enabled():
        losses = choice.offsets.new_zeros(len(hidden))
        for chunk in choice.chunks(hidden, softmax):
            losses[chunk.group] += chunk.losses.sum()
        return losses
    differentiate = differentiate or partial(differentiate_by_chunks, softmax=softmax)
    losses = _CrossEntropy.apply(hidden, targets, weight, bias, choice, differentiate)  # type: ignore[no-untyped-call]
    return losses


class _Chunk(NamedTuple):
    """A chunk of n positions of one group."""

    group: int
    positions: slice
    probabilities: Tensor  # (n, K) of the candidates; 0 for the right class, which is counted by itself
    target_logits: Tensor  # (n,) the logit of the right class
    log_sum: Tensor  # (n,) the logarithm of the sum over all

    @property
    def losses(self) -> Tensor:
        return self.log_sum - self.target_logits


class Choice(NamedTuple):
    """The right class of each position, and what it stands against."""

    candidate_weight: Tensor  # (K, P)
    offsets: Tensor  # (K,) what is added to the logits of the candidates
    target_weight: Tensor  # (G, N, P)
    target_offsets: Tensor  # (G, N)
    target_columns: Tensor  # (G, N) where the right class is itself a candidate
    classes: Tensor | None  # (K,) which classes the candidates are; None for all

    @classmethod
    @torch.no_grad()
    def of(
        cls, hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, candidates: Candidates | None
    ) -> "Choice":
        exact = torch.promote_types(hidden.dtype, torch.float32)
        target_weight, target_bias = weight[targets].to(hidden.dtype), bias[targets].to(exact)
        if candidates is None:
            return cls(weight.to(hidden.dtype), bias.to(exact), target_weight, target_bias, targets, None)
        classes, expected = candidates.classes, candidates.log_expected_counts.to(exact)
        return cls(
            candidate_weight=weight[classes].to(hidden.dtype),
            offsets=bias[classes].to(exact) - expected[classes],
            target_weight=target_weight,
            target_offsets=target_bias - expected[targets],
            target_columns=_columns(classes, len(weight))[targets],
            classes=classes,
        )

    def chunks(self, hidden: Tensor, softmax: SoftmaxKernel) -> Iterator[_Chunk]:
        """All positions, a chunk at a time."""
        exact = self.offsets.dtype
        at_once = max(LOGITS_AT_ONCE["cuda" if hidden.is_cuda else "cpu"] // len(self.candidate_weight), 1)
        for group, vectors in enumerate(hidden):
            for start in range(0, len(vectors), at_once):
                positions = slice(start, start + at_once)
                weight, h = self.target_weight[group, positions], vectors[positions]
                target_logits = (h.to(exact) * weight.to(exact)).sum(-1) + self.target_offsets[group, positions]
                logits = torch.mm(h, self.candidate_weight.t())
                log_sum = softmax(logits, self.offsets, target_logits, self.target_columns[group, positions])
                yield _Chunk(group, positions, logits, target_logits, log_sum)


class ChoiceGradients(NamedTuple):
    """What a choice costs, and the gradients of that; of weights and offsets for each group its own, because what the
    gradient from above is, nobody knows yet.
    """

    losses: Tensor  # (G,)
    hidden: Tensor  # (G, N, P)
    target_offsets: Tensor  # (G, N)
    candidates: Tensor  # (G, K, P) of their weights
    offsets: Tensor  # (G, K)


DifferentiateChoice = Callable[[Tensor, Choice], ChoiceGradients]  # hidden vectors (G, N, P) and what they stand before


def differentiate_by_chunks(hidden: Tensor, choice: Choice, *, softmax: SoftmaxKernel) -> ChoiceGradients:
    """Loss and gradients in one pass over the logits, chunk by chunk."""
    groups = len(hidden)
    losses = choice.offsets.new_zeros(groups)
    d_hidden = torch.empty_like(hidden)
    d_target_offsets = torch.empty_like(choice.target_offsets)
    d_candidates = choice.offsets.new_zeros(groups, *choice.candidate_weight.shape)
    d_offsets = choice.offsets.new_zeros(groups, len(choice.offsets))
    for chunk in choice.chunks(hidden, softmax):
        at = chunk.group, chunk.positions
        d_logits = chunk.probabilities  # of every candidate its own: none of them is right
        losses[chunk.group] += chunk.losses.sum()
        d_target_offsets[at] = d_target = (-chunk.losses).exp() - 1
        d_hidden[at] = torch.addmm(
            d_target[:, None].to(hidden.dtype) * choice.target_weight[at], d_logits, choice.candidate_weight
        )
        d_candidates[chunk.group] += torch.mm(d_logits.t(), hidden[at])
        d_offsets[chunk.group] += d_logits.sum(0, dtype=d_offsets.dtype)
    return ChoiceGradients(losses, d_hidden, d_target_offsets, d_candidates, d_offsets)


class _CrossEntropy(torch.autograd.Function):
    """The gradients are made with the losses, and wait for the one from above."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor,  # noqa: ARG004  # its numbers are in the choice; here it is named for its gradient
        choice: Choice,
        differentiate: DifferentiateChoice,
    ) -> Tensor:
        losses, *gradients = differentiate(hidden, choice)
        ctx.save_for_backward(hidden, targets, *gradients)
        ctx.classes, ctx.weight_shape = choice.classes, weight.shape
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_losses: Tensor) -> tuple[Tensor | None, ...]:
        hidden, targets, d_hidden, d_target_offsets, d_candidates, d_offsets = ctx.saved_tensors
        # All that is small is weighed first, and only then spread over the classes, which may be a million.
        d_hidden = d_hidden * d_losses[:, None, None].to(hidden.dtype)
        d_target_offsets = (d_target_offsets * d_losses[:, None]).flatten()
        d_candidates, d_offsets = torch.tensordot(d_losses, d_candidates, 1), d_losses @ d_offsets
        if ctx.classes is None:
            d_weight, d_bias = d_candidates, d_offsets
        else:
            d_weight = d_candidates.new_zeros(ctx.weight_shape).index_copy_(0, ctx.classes, d_candidates)
            d_bias = d_candidates.new_zeros(ctx.weight_shape[0]).index_copy_(0, ctx.classes, d_offsets)
        d_weight.index_add_(
            0, targets.flatten(), d_target_offsets[:, None] * hidden.flatten(0, 1).to(d_target_offsets.dtype)
        )
        d_bias.index_add_(0, targets.flatten(), d_target_offsets)
        return d_hidden, None, d_weight, d_bias, None, None


def _columns(classes: Tensor, vocabulary: int) -> Tensor:
    """(V,) the place of each class among the candidates; beyond the last positions it is not among them."""
    columns = torch.full((vocabulary,), len(classes), device=classes.device)
    columns[classes] = torch.arange(len(classes), device=classes.device)
    return columns
