"""The largest products by Triton against plain products, which `test_character_cnn` holds against the equations."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from elmore.kernels.max_pooling import pool, pool_backward
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
    from elmore.kernels import triton_max_pooling

    # More filters than a tile has, and more groups of words than share a sum.
    monkeypatch.setattr(triton_max_pooling, "FILTERS", 16)
    monkeypatch.setattr(triton_max_pooling, "SPLITS", 2)
    characters = words_of(lengths, width=width)
    random = torch.Generator().manual_seed(2)
    table = torch.randn(9, SIZE, generator=random)
    matrix = torch.randn(len(WIDTHS), max(WIDTHS), SIZE, generator=random)
    for row, own in enumerate(WIDTHS):
        matrix[row, own:] = 0
    matrix = matrix.flatten(1).to(dtype)
    lasts = torch.tensor([width - own for own in WIDTHS], dtype=torch.int32)
    x = pad(table[characters], (0, 0, 0, max(WIDTHS) - 1)).to(dtype)
    d_values = torch.randn(len(lengths), len(WIDTHS), generator=random).to(dtype)

    # The reference in float64, so that both differ from it by their own rounding only.
    values, places, _ = pool(x.double(), matrix.double(), lasts, characters)
    there = [part.to(DEVICE) for part in (x, matrix, lasts, characters)]
    twin_values, twin_places, plan = triton_max_pooling.pool(*there)
    tolerance = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(twin_values.cpu().double(), values, rtol=tolerance, atol=tolerance)
    assert torch.equal(twin_places.cpu(), places)

    d_seen, d_matrix = triton_max_pooling.pool_backward(d_values.to(DEVICE), twin_places, *there[:2], plan)
    expected_d_seen, expected_d_matrix = pool_backward(d_values.double(), places, x.double(), matrix.double(), ())
    torch.testing.assert_close(d_matrix.cpu().double(), expected_d_matrix, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(d_seen.cpu().double(), expected_d_seen, rtol=tolerance, atol=tolerance)


@needs_triton
def test_short_words_are_read_no_farther_than_they_need():
    from elmore.kernels import triton_max_pooling

    characters = words_of([20] + 15 * [3] + [40], width=50)
    order, rounds = triton_max_pooling.plan_for(characters.to(DEVICE))
    assert order.tolist() == [*range(1, 16), 0, 16]
    assert rounds.tolist() == [1, 2, 3]
