"""Attention, against plain NumPy."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.tasks.modules.attention import (
    BiAttention,
    SelfAttentivePooling,
    TrilinearSimilarity,
    masked_max,
    masked_mean,
    masked_min,
    masked_softmax,
)
from ragged_batches import ragged_mask, random_tensor, some_lengths
from reference.strategies import patiently, seeds

pairs_of_lengths = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4)


def softmax(scores: np.ndarray) -> np.ndarray:
    """By row."""
    powers = np.exp(scores)
    return powers / powers.sum(axis=1, keepdims=True)


def plain_similarity(x: np.ndarray, y: np.ndarray, trilinear: TrilinearSimilarity | None) -> np.ndarray:
    if trilinear is None:
        return x @ y.T
    w1, w2, w3, b = (one.detach().numpy() for one in trilinear.parameters())
    return np.array([[w1 @ u + w2 @ v + (w3 * u) @ v + b for v in y] for u in x]).reshape(len(x), len(y))


def random_trilinear(seed: int) -> TrilinearSimilarity:
    torch.manual_seed(seed)
    similarity = TrilinearSimilarity(3).double()
    torch.nn.init.normal_(similarity.bias)
    return similarity


def padded(x: Tensor, mask: Tensor) -> Tensor:
    return x.masked_fill(~mask[..., None], 50)


def test_the_trilinear_similarity_of_every_pair_is_that_of_its_equation() -> None:
    similarity, x, y = random_trilinear(0), random_tensor(0, 2, 3, 3), random_tensor(1, 2, 5, 3)
    expected = [plain_similarity(own.numpy(), other.numpy(), similarity) for own, other in zip(x, y, strict=True)]
    np.testing.assert_allclose(similarity(x, y).detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("trilinear", [False, True])
@patiently
@given(seed=seeds, lengths=pairs_of_lengths)
def test_two_sentences_see_averages_of_each_other(trilinear: bool, seed: int, lengths: list[tuple[int, int]]) -> None:
    similarity = random_trilinear(seed) if trilinear else None
    attention = BiAttention(similarity) if similarity else BiAttention()
    x_lengths, y_lengths = ([*one] for one in zip(*lengths, strict=True))
    x_mask, y_mask = ragged_mask(x_lengths), ragged_mask(y_lengths)
    x, y = random_tensor(seed, *x_mask.shape, 3), random_tensor(seed + 1, *y_mask.shape, 3)
    found = attention(padded(x, x_mask), padded(y, y_mask), x_mask, y_mask)
    for row, (s, t) in enumerate(lengths):
        own, other = x[row, :s].numpy(), y[row, :t].numpy()
        scores = plain_similarity(own, other, similarity)
        for side, length, expected in (
            (found.x, s, softmax(scores) @ other if t else np.zeros((s, 3))),  # nothing to see is zeros
            (found.y, t, softmax(scores.T) @ own if s else np.zeros((t, 3))),
        ):
            np.testing.assert_allclose(side[row, :length].detach(), expected, rtol=0, atol=1e-10)


@patiently
@given(seeds, st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_a_sentence_sees_itself_as_in_the_biattentive_network(seed: int, lengths: list[int]) -> None:
    mask = ragged_mask(lengths)
    x = random_tensor(seed, *mask.shape, 3)
    found = BiAttention().attend_self(padded(x, mask), mask)
    for row, length in enumerate(lengths):
        own = x[row, :length].numpy()
        expected = softmax(own @ own.T) @ own  # A = X X^T, softmax by row, C = A X
        np.testing.assert_allclose(found[row, :length], expected.reshape(length, 3), rtol=0, atol=1e-10)


def test_the_softmax_of_nothing_is_zeros_with_gradients_of_zero() -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    mask = torch.tensor([[True, False, True], [False, False, False]])
    with torch.autograd.set_detect_anomaly(True):
        weights = masked_softmax(scores, mask)
    share = 1 / (1 + np.exp(2.0))  # of 1 beside 3
    np.testing.assert_allclose(weights.detach(), [[share, 0, 1 - share], [0, 0, 0]], rtol=0, atol=1e-7)
    with torch.autograd.set_detect_anomaly(True):  # no NaN on the way either
        weights[:, 0].sum().backward()
    steep = share * (1 - share)
    np.testing.assert_allclose(scores.grad, [[steep, 0, -steep], [0, 0, 0]], rtol=0, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_masked_softmax_holds_for_large_scores_of_every_kind_of_number(dtype: torch.dtype) -> None:
    scores = torch.tensor([[-6e4, -6e4, 6e4], [6e4, -6e4, 0.0]], dtype=dtype)
    mask = torch.tensor([[True, True, False], [True, True, True]])
    assert masked_softmax(scores, mask).tolist() == [[0.5, 0.5, 0], [1, 0, 0]]


def test_the_gradients_of_attention_are_those_of_differences() -> None:
    similarity, mask = random_trilinear(4), ragged_mask([3, 0, 1])
    x, y = random_tensor(4, 3, 3, 3).requires_grad_(), random_tensor(5, 3, 3, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: tuple(BiAttention(similarity)(x, y, mask, mask)), (x, y))


def self_attentive(x: Tensor, mask: Tensor) -> Tensor:
    torch.manual_seed(0)
    pooling = SelfAttentivePooling(3).double()
    torch.nn.init.normal_(pooling.scores.bias)
    pooled: Tensor = pooling(x, mask)
    return pooled


def plain_self_attentive(sentence: np.ndarray) -> np.ndarray:
    torch.manual_seed(0)
    weight = SelfAttentivePooling(3).scores.weight.detach().double().numpy()[0]
    powers = np.exp(sentence @ weight)  # what all scores have in common, the bias, has no say
    return powers @ sentence / powers.sum()


POOLINGS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "max": (masked_max, lambda sentence: sentence.max(axis=0)),
    "min": (masked_min, lambda sentence: sentence.min(axis=0)),
    "mean": (masked_mean, lambda sentence: sentence.mean(axis=0)),
    "self-attentive": (self_attentive, plain_self_attentive),
}


@pytest.mark.parametrize("name", POOLINGS)
@pytest.mark.parametrize("padding", [-50.0, 50.0])
@patiently
@given(seed=seeds, lengths=some_lengths)
def test_a_sentence_is_pooled_over_its_tokens_alone(name: str, padding: float, seed: int, lengths: list[int]) -> None:
    pool, plain = POOLINGS[name]
    mask = ragged_mask(lengths)
    x = random_tensor(seed, *mask.shape, 3)
    found = pool(x.masked_fill(~mask[..., None], padding), mask).detach()
    for row, length in enumerate(lengths):
        expected = plain(x[row, :length].numpy()) if length else np.zeros(3)  # nothing is zeros
        np.testing.assert_allclose(found[row], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", POOLINGS)
def test_the_gradients_of_a_pooling_are_those_of_differences(name: str) -> None:
    mask = ragged_mask([3, 0, 1])
    x = random_tensor(2, 3, 3, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: POOLINGS[name][0](x, mask), (x,))
