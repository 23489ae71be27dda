"""The loss of a language model: cross-entropy over all classes, or over a sample of them.

Both are one computation: the target class against a set of candidates. From each logit the logarithm of the expected
count of its class among the candidates is subtracted (nothing for the full softmax). The logits of a chunk of positions
are computed, used for loss and gradients, and freed: together they would be the largest tensor of a training step.

G groups of positions (directions), N positions in each, n of a chunk, P vector size, V classes, K candidates.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmore.engine.array_checks import check_indices, check_shape
from elmore.errors import InputError

SoftmaxKernel = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # `softmax_`, or a function with the same results

# On a GPU as many as memory has room for; on a CPU as many as the cache holds.
LOGITS_AT_ONCE = {"cuda": 2**27, "cpu": 2**21}


class Candidates(NamedTuple):
    """The candidate classes, and the logarithm of the expected count of every class among them."""

    classes: Tensor  # (K,) distinct
    log_expected_counts: Tensor  # (V,)


def softmax_(logits: Tensor, offsets: Tensor, target_logits: Tensor, target_columns: Tensor) -> Tensor:
    """Turn logits (n, K) in place into the probabilities of the candidates and a target with a logit (n,).

    `offsets` (K,) are added first. The candidate in column `target_columns` (n,) of each row is the target again and
    gets 0. Returns (n,) the logarithm of the sum by which everything was divided.
    """
    exact = logits.to(offsets.dtype)  # the logits themselves, if they are exact already
    exact += offsets
    repeated = (target_columns < logits.shape[1]).nonzero()[:, 0]
    exact[repeated, target_columns[repeated]] = float("-inf")
    highest = torch.maximum(exact.amax(-1), target_logits)
    exact.sub_(highest[:, None]).exp_()
    sums = exact.sum(-1) + (target_logits - highest).exp()
    exact /= sums[:, None]
    if exact is not logits:
        logits.copy_(exact)
    return highest + sums.log()


def cross_entropy(
    hidden: Tensor,  # (G, N, P)
    targets: Tensor,  # (G, N)
    weight: Tensor,  # (V, P)
    bias: Tensor,  # (V,)
    candidates: Candidates | None = None,
    *,
    softmax: SoftmaxKernel = softmax_,
    loss_kernel: "LossKernel | None" = None,
) -> Tensor:
    """(G,) the sum of -log p(target) over the positions of each group, in float32 or better.

    Without candidates it is over all classes. The groups share weight and bias, and the large gradients of these are
    computed once for all groups. `loss_kernel` replaces the computation of losses and gradients.
    """
    _check(hidden, targets, weight, bias, candidates)
    logits = CandidateLogits.of(hidden, targets, weight, bias, candidates)
    losses: Tensor
    if not torch.is_grad_enabled():
        losses = logits.offsets.new_zeros(len(hidden))
        for chunk in logits.chunks(hidden, softmax):
            losses[chunk.group] += chunk.losses.sum()
        return losses
    kernel = loss_kernel or partial(differentiate_by_chunks, softmax=softmax)
    losses = _CrossEntropy.apply(hidden, targets, weight, bias, logits, kernel)  # type: ignore[no-untyped-call]
    return losses


def _check(hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, candidates: Candidates | None) -> None:
    check_shape("hidden", hidden.shape, (None, None, None))
    check_shape("targets", targets.shape, hidden.shape[:2])
    check_shape("the softmax's weight", weight.shape, (None, hidden.shape[2]))
    check_shape("the softmax's bias", bias.shape, (len(weight),))
    indices = {"targets": targets}
    if candidates is not None:
        check_shape("the candidates' classes", candidates.classes.shape, (None,))
        check_shape("the candidates' log_expected_counts", candidates.log_expected_counts.shape, (len(weight),))
        indices["the candidates' classes"] = candidates.classes
    for name, tensor in indices.items():
        if tensor.dtype != torch.int64:
            raise InputError(f"{name} has dtype {tensor.dtype}; it must be torch.int64")
        # On a GPU, reading the indices would wait for all work launched before.
        if tensor.device.type == "cpu":
            check_indices(name, tensor.numpy(), len(weight))


class _Chunk(NamedTuple):
    """A chunk of n positions of one group."""

    group: int
    positions: slice
    probabilities: Tensor  # (n, K) of the candidates; 0 for the target class
    target_logits: Tensor  # (n,) the logit of the target class
    log_sum: Tensor  # (n,) the logarithm of the sum over the target and all candidates

    @property
    def losses(self) -> Tensor:
        return self.log_sum - self.target_logits


class CandidateLogits(NamedTuple):
    """The tensors that the logits of targets and candidates are computed from."""

    candidate_weight: Tensor  # (K, P)
    offsets: Tensor  # (K,) added to the logits of the candidates
    target_weight: Tensor  # (G, N, P)
    target_offsets: Tensor  # (G, N)
    target_columns: Tensor  # (G, N) the candidate that is the target class, K if there is none
    classes: Tensor | None  # (K,) of the candidates; None for all

    @classmethod
    @torch.no_grad()
    def of(
        cls, hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, candidates: Candidates | None
    ) -> "CandidateLogits":
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


class LossGradients(NamedTuple):
    """Losses and their gradients, by group: the backward pass multiplies them by the gradient of each group's loss."""

    losses: Tensor  # (G,)
    hidden: Tensor  # (G, N, P)
    target_offsets: Tensor  # (G, N)
    candidates: Tensor  # (G, K, P) of their weights
    offsets: Tensor  # (G, K)


LossKernel = Callable[[Tensor, CandidateLogits], LossGradients]  # of hidden vectors (G, N, P)


def differentiate_by_chunks(hidden: Tensor, logits: CandidateLogits, *, softmax: SoftmaxKernel) -> LossGradients:
    """Loss and gradients in one pass over the logits, chunk by chunk."""
    groups = len(hidden)
    losses = logits.offsets.new_zeros(groups)
    d_hidden = torch.empty_like(hidden)
    d_target_offsets = torch.empty_like(logits.target_offsets)
    d_candidates = logits.offsets.new_zeros(groups, *logits.candidate_weight.shape)
    d_offsets = logits.offsets.new_zeros(groups, len(logits.offsets))
    for chunk in logits.chunks(hidden, softmax):
        at = chunk.group, chunk.positions
        d_logits = chunk.probabilities  # none of the candidates is the target
        losses[chunk.group] += chunk.losses.sum()
        d_target_offsets[at] = d_target = (-chunk.losses).exp() - 1
        d_hidden[at] = torch.addmm(
            d_target[:, None].to(hidden.dtype) * logits.target_weight[at], d_logits, logits.candidate_weight
        )
        d_candidates[chunk.group] += torch.mm(d_logits.t(), hidden[at])
        d_offsets[chunk.group] += d_logits.sum(0, dtype=d_offsets.dtype)
    return LossGradients(losses, d_hidden, d_target_offsets, d_candidates, d_offsets)


class _CrossEntropy(torch.autograd.Function):
    """The gradients are computed with the losses, and multiplied in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor,  # noqa: ARG004  # an argument for its gradient; the logits contain its values
        logits: CandidateLogits,
        kernel: LossKernel,
    ) -> Tensor:
        losses, *gradients = kernel(hidden, logits)
        ctx.save_for_backward(hidden, targets, *gradients)
        ctx.classes, ctx.weight_shape = logits.classes, weight.shape
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_losses: Tensor) -> tuple[Tensor | None, ...]:
        hidden, targets, d_hidden, d_target_offsets, d_candidates, d_offsets = ctx.saved_tensors
        # The small tensors are multiplied first, and then distributed over the classes, which may be a million.
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
    """(V,) the position of each class among the candidates; K for all others."""
    columns = torch.full((vocabulary,), len(classes), device=classes.device)
    columns[classes] = torch.arange(len(classes), device=classes.device)
    return columns
