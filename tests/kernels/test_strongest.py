"""The largest products by Triton against plain products, which `test_characters` holds against the equations."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from elmore.kernels.strongest import strongest_backward, strongest_forward
from triton_here import DEVICE, needs_triton

SIZE, WIDTHS = 4, (1, 2, 5, 5, 3) * 4
PADDING = 0

# Triton's interpreter cannot multiply matrices of bfloat16.
DTYPES = [torch.float32, torch.float16, *([torch.bfloat16] if DEVICE == "cuda" else [])]


def words_of(lengths: list[int], *, characters: int) -> Tensor:
    random = torch.Generator().manual_seed(1)
    letters = torch.full((len(lengths), characters), PADDING)
    for row, length in enumerate(lengths):
        letters[row, :length] = torch.randint(1, 9, (length,), generator=random)
    return letters


@needs_triton
@pytest.mark.parametrize(
    ("lengths", "characters"),
    [
        ([3, 1, 16, 15, 17, 2, 20, 4, 5, 6, 31, 3, 2, 2, 2, 2, 2], 37),  # groups of short words, and of long ones
        ([15, 16] * 8, 16),  # as many places as are taken at once
        ([2], 6),  # fewer
        ([48, 50, 47], 50),  # no padding that would fill the last places
    ],
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_triton_kernels_find_the_same_values_places_and_gradients(lengths, characters, dtype, monkeypatch):
    from elmore.kernels import triton_strongest

    # More filters than a tile has, and more groups of words than share a sum.
    monkeypatch.setattr(triton_strongest, "FILTERS", 16)
    monkeypatch.setattr(triton_strongest, "SPLITS", 2)
    letters = words_of(lengths, characters=characters)
    random = torch.Generator().manual_seed(2)
    table = torch.randn(9, SIZE, generator=random)
    matrix = torch.randn(len(WIDTHS), max(WIDTHS), SIZE, generator=random)
    for row, width in enumerate(WIDTHS):
        matrix[row, width:] = 0
    matrix = matrix.flatten(1).to(dtype)
    lasts = torch.tensor([characters - width for width in WIDTHS], dtype=torch.int32)
    x = pad(table[letters], (0, 0, 0, max(WIDTHS) - 1)).to(dtype)
    d_values = torch.randn(len(lengths), len(WIDTHS), generator=random).to(dtype)

    # The reference in float64, so that both differ from it by their own rounding only.
    values, places = strongest_forward(x.double(), matrix.double(), lasts, letters)
    there = [part.to(DEVICE) for part in (x, matrix, lasts)]
    plan = triton_strongest.plan(letters.to(DEVICE))
    twin_values, twin_places = triton_strongest.forward(*there, plan)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 0.02, "atol": 0.02}
    torch.testing.assert_close(twin_values.cpu().double(), values, **tolerance)
    assert torch.equal(twin_places.cpu(), places)

    d_windows, d_matrix = triton_strongest.backward(d_values.to(DEVICE), twin_places, *there[:2], plan)
    d_x, expected_d_matrix = strongest_backward(d_values.double(), places, x.double(), matrix.double(), letters)
    torch.testing.assert_close(d_matrix.cpu().double(), expected_d_matrix, rtol=0.02, atol=tolerance["atol"] * 10)
    folded = torch.zeros_like(d_x)
    for offset in range(max(WIDTHS)):
        folded[:, offset : offset + characters] += d_windows.cpu().double()[..., offset * SIZE : (offset + 1) * SIZE]
    torch.testing.assert_close(folded, d_x, rtol=0.02, atol=tolerance["atol"] * 5)


@needs_triton
def test_short_words_are_read_no_farther_than_they_need():
    from elmore.kernels import triton_strongest

    letters = words_of([20] + 15 * [3] + [40], characters=50)
    order, rounds = triton_strongest.plan(letters.to(DEVICE))
    assert order.tolist() == [*range(1, 16), 0, 16]
    assert rounds.tolist() == [1, 2, 3]
