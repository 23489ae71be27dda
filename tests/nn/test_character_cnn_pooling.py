"""The largest products by Triton against plain products, which `test_character_cnn` holds against the equations."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from elmore.nn.character_cnn import pool, pool_backward
from triton_here import DEVICE, needs_triton

SIZE, WIDTHS = 4, (1, 2, 5, 5, 3) * 4
PADDING = 0

# Triton's interpreter cannot multiply matrices of bfloat16.
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if DEVICE == "cuda" else [])]


def words_of(lengths: list[int], *, width: int) -> Tensor:
    random = torch.Generator().manual_seed(1)
    characters = torch.full((len(lengths), width), PADDING)
    for row, length in enumerate(lengths):
        characters[row, :length] = torch.randint(1, 9, (length,), generator=random)
    return characters


@needs_triton
@pytest.mark.parametrize(
    ("lengths", "width"),
    [
        ([3, 1, 16, 15, 17, 2, 20, 4, 5, 6, 31, 3, 2, 2, 2, 2, 2], 37),  # groups of short words, and of long ones
        ([15, 16] * 8, 16),  # as many places as are taken at once
        ([2], 6),  # fewer
        ([48, 50, 47], 50),  # no padding that would fill the last places
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_triton_kernels_find_the_same_values_places_and_gradients(lengths, width, dtype, monkeypatch):
    from elmore.nn import triton_max_pooling

    # More filters than a tile has, and more groups of words than share a sum.
    monkeypatch.setattr(triton_max_pooling, "FILTERS", 16)
    monkeypatch.setattr(triton_max_pooling, "SPLITS", 2)
    characters = words_of(lengths, width=width)
    random = torch.Generator().manual_seed(2)

    def whole_numbers(*shape: int) -> Tensor:
        """Small ones, so that every sum is exact in every kind of number, and equals are equal wherever they stand."""
        return torch.randint(-2, 3, shape, generator=random).double()

    matrix = whole_numbers(len(WIDTHS), max(WIDTHS), SIZE)
    for row, own in enumerate(WIDTHS):
        matrix[row, own:] = 0
    matrix = matrix.flatten(1)
    last_positions = torch.tensor([width - own for own in WIDTHS], dtype=torch.int32)
    x = pad(whole_numbers(9, SIZE)[characters], (0, 0, 0, max(WIDTHS) - 1))
    d_values = whole_numbers(len(lengths), len(WIDTHS))

    values, argmax, _ = pool(x, matrix, last_positions, characters)
    there = [part.to(DEVICE) for part in (x.to(dtype), matrix.to(dtype), last_positions, characters)]
    twin_values, twin_argmax, plan = triton_max_pooling.pool(*there)
    assert torch.equal(twin_values.cpu().double(), values)
    assert torch.equal(twin_argmax.cpu(), argmax)

    twin = triton_max_pooling.pool_backward(d_values.to(DEVICE, dtype), twin_argmax, *there[:2], plan)
    for found, expected in zip(twin, pool_backward(d_values, argmax, x, matrix, ()), strict=True):
        assert torch.equal(found.cpu().double(), expected)


@needs_triton
def test_short_words_are_read_no_farther_than_they_need():
    from elmore.nn import triton_max_pooling

    characters = words_of([20] + 15 * [3] + [40], width=50)
    order, rounds = triton_max_pooling.plan_for(characters.to(DEVICE))
    assert order.tolist() == [*range(1, 16), 0, 16]
    assert rounds.tolist() == [1, 2, 3]


@needs_triton
def test_a_word_is_read_until_padding_alone_was_seen_once():
    from elmore.nn import triton_max_pooling

    for length, needed in ((15, 1), (16, 2), (31, 2), (32, 3)):
        _, rounds = triton_max_pooling.plan_for(words_of([length] * 8, width=50).to(DEVICE))
        assert rounds.tolist() == [needed]
