"""Cross-entropy, full and sampled: its value and gradients against torch's own, and TensorFlow's numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.engine.native_library import Precision, why_unavailable
from elmore.errors import InputError
from elmore.nn import cross_entropy as module
from elmore.nn.cross_entropy import Candidates, cross_entropy
from elmore.nn.native_training import differentiate_natively
from reference.strategies import patiently, seeds
from thread_count import using_threads

needs_native = pytest.mark.skipif(
    why_unavailable(Precision.FLOAT32) is not None, reason=f"native kernels: {why_unavailable(Precision.FLOAT32)}"
)

GROUPS, POSITIONS, SIZE, CLASSES = 2, 13, 4, 20


def drawn(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hidden vectors, targets, weight and bias."""
    random = torch.Generator().manual_seed(7)
    hidden, weight, bias = (
        torch.randn(shape, generator=random, dtype=dtype).requires_grad_()
        for shape in ((GROUPS, POSITIONS, SIZE), (CLASSES, SIZE), (CLASSES,))
    )
    return hidden, torch.randint(0, CLASSES, (GROUPS, POSITIONS), generator=random), weight, bias


def some_candidates(targets: Tensor) -> Candidates:
    """A few classes, among which the right class of some positions is, of others not."""
    classes = torch.tensor([8, 1, 5, 0])
    among = (targets[..., None] == classes).any(dim=-1)
    assert among.any()
    assert not among.all()
    return Candidates(classes, -torch.rand(CLASSES, generator=torch.Generator().manual_seed(8), dtype=torch.float64))


def plain(hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, candidates: Candidates | None) -> Tensor:
    """Over all classes, with those that are no candidates left out; for torch and autograd to work on."""
    scores = hidden @ weight.t() + bias
    if candidates is not None:
        scores = scores - candidates.log_expected_counts
        allowed = torch.nn.functional.one_hot(targets, CLASSES).bool()
        allowed[..., candidates.classes] = True
        scores = scores.masked_fill(~allowed, -torch.inf)
    return (
        torch.nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), reduction="none")
        .view(targets.shape)
        .sum(1)
    )


# Chunks of one position, of five so that the last is cut short, and all at once.
@pytest.mark.parametrize("at_once", [1, 50, 2**27])
@pytest.mark.parametrize("sampled", [False, True])
def test_loss_and_gradients_are_torchs_however_the_positions_are_cut(sampled, at_once, monkeypatch):
    monkeypatch.setitem(module.LOGITS_AT_ONCE, "cpu", at_once)
    hidden, targets, weight, bias = drawn()
    candidates = some_candidates(targets) if sampled else None
    loss = cross_entropy(hidden, targets, weight, bias, candidates)
    expected = plain(hidden, targets, weight, bias, candidates)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=0)
    leaves = [hidden, weight, bias]
    # Weighed, each group in its own way, so that the gradient from above is seen to count.
    weights = torch.tensor([0.7, -0.2], dtype=torch.float64)
    ours, theirs = (torch.autograd.grad(weights @ value, leaves) for value in (loss, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(hidden, targets, weight, bias, candidates), loss, rtol=1e-14, atol=0)


@needs_native
@patiently
@given(
    seed=seeds,
    positions=st.sampled_from([1, 13, 60]),
    classes=st.sampled_from([5, 64, 150]),
    size=st.sampled_from([1, 4, 70]),
    sampled=st.booleans(),
)
def test_loss_and_gradients_by_the_native_kernels_are_the_same(seed, positions, classes, size, sampled):
    random = torch.Generator().manual_seed(seed)
    hidden, weight, bias = (
        torch.randn(shape, generator=random).double().requires_grad_()
        for shape in ((2, positions, size), (classes, size), (classes,))
    )
    targets = torch.randint(0, classes, (2, positions), generator=random)
    candidates = None
    if sampled:
        chosen = torch.randperm(classes, generator=random)[: 1 + classes // 2]
        candidates = Candidates(chosen, -torch.rand(classes, generator=random))
    exact = [hidden, weight, bias]
    own = [one.detach().float().requires_grad_() for one in exact]
    weights = torch.tensor([0.7, -0.2])
    losses = cross_entropy(own[0], targets, *own[1:], candidates, loss_kernel=differentiate_natively)
    expected = cross_entropy(hidden, targets, weight, bias, candidates)
    torch.testing.assert_close(losses.double(), expected, rtol=1e-5, atol=1e-5)
    ours = torch.autograd.grad(weights @ losses, own)
    for a, b in zip(ours, torch.autograd.grad(weights.double() @ expected, exact), strict=True):
        assert (a - b).norm() <= 1e-4 * b.norm() + 1e-7


def natively_on(threads: int) -> list[Tensor]:
    hidden, targets, weight, bias = drawn(torch.float32)
    with using_threads(threads):
        # Many rows, so that there is something to share.
        many, own_targets = hidden.repeat(1, 40, 1), targets.repeat(1, 40)
        losses = cross_entropy(many, own_targets, weight, bias, loss_kernel=differentiate_natively)
        return list(torch.autograd.grad(losses.sum(), [many, weight, bias]))


@needs_native
def test_native_gradients_have_the_same_bits_with_any_number_of_threads():
    alone = natively_on(1)
    for threads in (2, 3, 8):
        assert all(torch.equal(a, b) for a, b in zip(natively_on(threads), alone, strict=True))


@needs_native
def test_native_scores_far_apart_neither_overflow_nor_vanish():
    hidden, targets, weight, bias = drawn(torch.float32)
    losses = cross_entropy(1e4 * hidden, targets, weight, bias, loss_kernel=differentiate_natively)
    torch.testing.assert_close(losses, cross_entropy(1e4 * hidden, targets, weight, bias), rtol=1e-4, atol=0)
    assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(losses.sum(), [hidden, weight, bias]))


@needs_native
@pytest.mark.parametrize("strange", [float("nan"), float("inf")])
def test_a_number_that_is_none_makes_a_native_loss_that_is_none(strange):
    hidden, targets, weight, bias = drawn(torch.float32)
    with torch.no_grad():
        weight[3, 1] = strange
    losses = cross_entropy(hidden, targets, weight, bias, loss_kernel=differentiate_natively)
    assert not torch.isfinite(losses).any()


def test_the_sampled_loss_is_tensorflows_for_the_same_sample(fixtures: Path):
    stored = np.load(fixtures / "training" / "sampled_softmax.npz")
    weight, bias, hidden, targets, sampled = (
        torch.from_numpy(stored[key]) for key in ("W", "b", "h", "targets", "sampled")
    )
    expected = torch.zeros(len(bias))
    expected[sampled] = torch.from_numpy(stored["sampled_expected_count"]).log()
    expected[targets.flatten()] = torch.from_numpy(stored["target_expected_count"]).flatten().log()
    candidates = Candidates(sampled.long(), expected)
    # Every position a group of its own.
    losses = cross_entropy(hidden[:, None], targets.long().view(-1, 1), weight, bias, candidates)
    torch.testing.assert_close(losses, torch.from_numpy(stored["losses"]), rtol=2e-6, atol=0)


def test_classes_that_take_no_part_have_no_gradient():
    hidden, targets, weight, bias = drawn()
    candidates = some_candidates(targets)
    cross_entropy(hidden, targets, weight, bias, candidates).sum().backward()
    idle = [n for n in range(CLASSES) if n not in candidates.classes and n not in targets]
    assert idle
    assert (weight.grad[idle] == 0).all()
    assert (bias.grad[idle] == 0).all()


def test_scores_far_apart_neither_overflow_nor_vanish():
    hidden, targets, weight, bias = drawn(torch.float32)
    loss = cross_entropy(1e4 * hidden, targets, weight, bias)
    assert torch.isfinite(loss).all()
    grads = torch.autograd.grad(loss.sum(), [hidden, weight, bias])
    assert all(torch.isfinite(grad).all() for grad in grads)


@pytest.mark.parametrize("sampled", [False, True])
def test_rounded_vectors_give_a_loss_in_float32_that_is_close(sampled):
    hidden, targets, weight, bias = drawn(torch.float32)
    candidates = some_candidates(targets) if sampled else None
    loss = cross_entropy(hidden.bfloat16(), targets, weight, bias, candidates)
    assert loss.dtype == torch.float32
    expected = cross_entropy(hidden, targets, weight, bias, candidates)
    torch.testing.assert_close(loss, expected, rtol=0.002, atol=0)
    ours, theirs = (torch.autograd.grad(value.sum(), [hidden, weight, bias]) for value in (loss, expected))
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        assert 0 < (a - b).norm() / b.norm() < 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": torch.ones(2, 13)}, r"hidden has shape \(2, 13\)"),
        ({"targets": torch.zeros(2, 12, dtype=torch.int64)}, r"targets has shape \(2, 12\); .* \(2, 13\)"),
        ({"targets": torch.zeros(2, 13)}, r"targets has dtype torch\.float32"),
        ({"targets": torch.full((2, 13), -1)}, "targets contains -1; it must be from 0 to 19"),
        ({"weight": torch.ones(20, 5)}, r"weight has shape \(20, 5\); .* \(any, 4\)"),
        ({"bias": torch.ones(21)}, r"bias has shape \(21,\); .* \(20\)"),
        ({"candidates": Candidates(torch.tensor([20]), torch.zeros(20))}, "classes contains 20"),
        ({"candidates": Candidates(torch.tensor([1]), torch.zeros(19))}, r"log_expected_counts has shape \(19,\)"),
    ],
)
def test_cross_entropy_rejects_wrong_tensors(change, message):
    arguments = dict(zip(("hidden", "targets", "weight", "bias"), drawn(torch.float32), strict=True))
    with pytest.raises(InputError, match=message):
        cross_entropy(**(arguments | change))
