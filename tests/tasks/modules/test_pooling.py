"""Poolings over the tokens of a sentence, against plain NumPy."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from elmore.tasks.modules.pooling import SelfAttentivePooling, masked_max, masked_mean, masked_min
from ragged_batches import ragged_mask, random_tensor, some_lengths
from reference.strategies import patiently, seeds


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
