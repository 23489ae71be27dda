"""Three ways to the largest responses, and a plain one in float64 that shares nothing with any."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.nn import character_cnn
from elmore.nn.character_cnn import fold, pool_by_convolution, pool_by_length, pool_by_product
from reference.strategies import patiently, seeds

CHARACTERS, SIZE = 11, 3
WAYS = (pool_by_convolution, pool_by_product, pool_by_length)


def random_word_part(
    seed: int, *, widths: list[int], words: int = 4, length: int = 7
) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=torch.float64).requires_grad_()

    characters = torch.randint(0, CHARACTERS, (words, length), generator=random)
    return (
        characters,
        draw(CHARACTERS, SIZE),
        [(draw(n + 1, SIZE, width), draw(n + 1)) for n, width in enumerate(widths)],
    )


def plain_responses(characters: Tensor, table: Tensor, filters: list[tuple[Tensor, Tensor]]) -> np.ndarray:
    x = table.detach().numpy()[characters.numpy()]  # (W, M, C)
    features = []
    for weight, bias in filters:
        w, b = weight.detach().numpy(), bias.detach().numpy()
        places = range(x.shape[1] - w.shape[2] + 1)
        at_each = [np.einsum("wkc,nck->wn", x[:, place : place + w.shape[2]], w) + b for place in places]
        features.append(np.max(at_each, axis=0))
    return np.concatenate(features, axis=1)


several_widths = st.lists(st.integers(1, 7), min_size=1, max_size=4)


@pytest.mark.parametrize("way", WAYS)
@patiently
@given(seed=seeds, widths=several_widths)
def test_each_way_gives_the_maximum_over_all_places_a_filter_fits(way, seed, widths):
    characters, table, filters = random_word_part(seed, widths=widths)
    expected = torch.from_numpy(plain_responses(characters, table, filters))
    torch.testing.assert_close(way(characters, table, filters).detach(), expected, rtol=1e-10, atol=1e-12)


@patiently
@given(seed=seeds, widths=several_widths)
def test_all_ways_have_the_same_gradients(seed, widths):
    characters, table, filters = random_word_part(seed, widths=widths)
    assert_same_gradients(characters, table, filters)


@pytest.mark.parametrize("at_once", [1, 2**20])
def test_all_ways_have_the_same_gradients_of_words_with_much_padding_and_with_none(at_once, monkeypatch):
    monkeypatch.setattr(character_cnn, "PRODUCTS_AT_ONCE", at_once)
    characters, table, filters = random_word_part(4, widths=[1, 3, 5], words=12, length=9)
    for row, own in enumerate([3, 1, 0, 3, 9, 8, 7, 5, 4, 3, 9, 6]):
        characters[row, own:] = 10
    assert_same_gradients(characters, table, filters)


def assert_same_gradients(characters: Tensor, table: Tensor, filters: list[tuple[Tensor, Tensor]]) -> None:
    leaves = [table, *(part for pair in filters for part in pair)]
    slopes = torch.randn(len(characters), sum(len(bias) for _, bias in filters), dtype=torch.float64)
    convolved = torch.autograd.grad(pool_by_convolution(characters, table, filters), leaves, slopes)
    for way in (pool_by_product, pool_by_length):
        gradients = torch.autograd.grad(way(characters, table, filters), leaves, slopes)
        for a, b in zip(convolved, gradients, strict=True):
            assert a.abs().sum() > 0
            torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-12)


def test_padding_at_the_end_changes_no_way():
    characters, table, filters = random_word_part(1, widths=[1, 2, 4], length=5)
    padded = torch.cat([characters, torch.zeros(4, 4, dtype=torch.int64)], dim=1)
    longer = torch.cat([padded, torch.zeros(4, 3, dtype=torch.int64)], dim=1)
    for way in WAYS:
        torch.testing.assert_close(way(padded, table, filters), way(longer, table, filters), rtol=1e-12, atol=0)


@pytest.mark.parametrize("way", [pool_by_product, pool_by_length])
def test_products_follow_autocast(way):
    characters, table, filters = random_word_part(2, widths=[1, 3])
    table, filters = table.float(), [(weight.float(), bias.float()) for weight, bias in filters]
    with torch.autocast("cpu", torch.bfloat16):
        rounded = way(characters, table, filters)
    assert rounded.dtype == torch.bfloat16
    exact = way(characters, table, filters)
    assert 0 < (rounded - exact).norm() / exact.norm() < 0.01


def test_a_character_again_and_again_gets_its_gradient_once():
    """All spans of such a word are equals, and only one of them may be the largest."""
    _, table, filters = random_word_part(6, widths=[1, 2])
    characters = torch.tensor([[5, 5, 5, 5, 5, 5, 0], [0, 0, 0, 0, 0, 0, 0]])
    assert_same_gradients(characters, table, filters)


def test_no_words_are_no_trouble():
    _, table, filters = random_word_part(3, widths=[1, 3])
    assert pool_by_length(torch.empty(0, 6, dtype=torch.int64), table, filters).shape == (0, 3)


def test_gradients_are_the_same_bits_every_time_on_several_threads():
    """In a process of its own, because the number of threads holds for a whole one."""
    program = (
        "import torch\n"
        "from elmore.nn.character_cnn import pool_by_length\n"
        "torch.set_num_threads(2)\n"
        "torch.manual_seed(1)\n"
        "characters, table = torch.randint(0, 30, (600, 20)), torch.randn(261, 16, requires_grad=True)\n"
        "filters = [(torch.randn(64, 16, 1), torch.randn(64))]\n"
        "slopes = torch.randn(600, 64)\n"
        "def gradient():\n"
        "    return torch.autograd.grad(pool_by_length(characters, table, filters), table, slopes)[0]\n"
        "first = gradient()\n"
        "print(all(torch.equal(gradient(), first) for _ in range(30)))\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    assert answer.stdout.strip() == "True"


@pytest.mark.parametrize("way", [pool_by_product, pool_by_length])
def test_the_gradient_of_a_frequent_character_is_summed_exactly_also_in_bfloat16(way, monkeypatch):
    """A sum in bfloat16 would stop at 256: one more is rounded away."""
    monkeypatch.setattr(character_cnn, "PRODUCTS_AT_ONCE", 1)
    characters = torch.full((600, 3), 4)
    table = torch.zeros(8, 2, requires_grad=True)
    filters = [(torch.ones(1, 2, 1), torch.zeros(1))]
    with torch.autocast("cpu", torch.bfloat16):
        pooled = way(characters, table, filters)
    (gradient,) = torch.autograd.grad(pooled, table, torch.ones_like(pooled))
    assert gradient[4].tolist() == [600, 600]


def test_gradients_that_overlap_are_summed_exactly_also_in_bfloat16():
    d_seen = torch.zeros(1, 3, 3, dtype=torch.bfloat16)  # of three places, what a filter of three characters saw
    d_seen[0, 2, 0], d_seen[0, 1, 1], d_seen[0, 0, 2] = 256, 1, 1  # all of the third character
    folded = fold(d_seen, torch.zeros(1, 5, 1, dtype=torch.bfloat16))
    assert folded.flatten().tolist() == [0, 0, 258, 0, 0]
