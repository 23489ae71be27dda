"""Scores become probabilities beside a right class that is counted by itself."""

import pytest
import torch
from torch import Tensor

from elmore.nn.cross_entropy import softmax_
from triton_here import DEVICE, needs_triton

CANDIDATES = 21
# Of each position: the first candidate is the right class again, or the last one, or some other, or none.
COLUMNS = torch.tensor([0, CANDIDATES - 1, 7, CANDIDATES, CANDIDATES])


def drawn(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, offsets and the scores of the right classes, some of them far apart.

    A candidate that is the right class again has the highest score of its row: were it kept, it would have all.
    """
    random = torch.Generator().manual_seed(5)
    scores = 30 * torch.randn(len(COLUMNS), CANDIDATES, generator=random, dtype=dtype)
    for row, column in enumerate(COLUMNS):
        if column < CANDIDATES:
            scores[row, column] = scores[row].max() + 5
    return scores, *(torch.randn(n, generator=random, dtype=dtype) for n in (CANDIDATES, len(COLUMNS)))


def test_probabilities_are_those_of_a_softmax_over_the_right_class_and_the_others():
    scores, offsets, true = drawn()
    expected = torch.cat([scores + offsets, true[:, None]], dim=1)
    for row, column in enumerate(COLUMNS):
        if column < CANDIDATES:
            expected[row, column] = -torch.inf
    probabilities = scores.clone()
    total = softmax_(probabilities, offsets, true, COLUMNS)
    torch.testing.assert_close(total, expected.logsumexp(1), rtol=1e-12, atol=0)
    torch.testing.assert_close(probabilities, expected.softmax(1)[:, :-1], rtol=1e-10, atol=0)
    assert probabilities[0, 0] == probabilities[1, -1] == probabilities[2, 7] == 0


def test_where_the_right_class_is_the_only_candidate_it_has_all():
    scores = torch.tensor([[4.0]])
    total = softmax_(scores, torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([0]))
    assert scores.item() == 0
    assert total.item() == 2.0


def test_rounded_scores_have_exact_sums():
    scores, offsets, true = drawn(torch.float32)
    total = softmax_(scores.bfloat16(), offsets, true, COLUMNS)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total, softmax_(scores.bfloat16().float(), offsets, true, COLUMNS))


@needs_triton
@pytest.mark.parametrize("block", [8, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_triton_kernel_does_the_same_in_one_block_and_in_several(block, dtype, monkeypatch):
    from elmore.nn import triton_training

    monkeypatch.setattr(triton_training, "SOFTMAX_BLOCK", block)
    scores, offsets, true = drawn(torch.float32)
    ours, theirs = scores.to(dtype), scores.to(dtype).to(DEVICE, copy=True)
    total = softmax_(ours, offsets, true, COLUMNS)
    twin = triton_training.softmax_(theirs, *(part.to(DEVICE) for part in (offsets, true, COLUMNS)))
    torch.testing.assert_close(twin.cpu(), total, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(theirs.cpu(), ours, rtol=1e-4 if dtype == torch.float32 else 0.01, atol=1e-6)
