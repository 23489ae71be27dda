"""The fast recurrences of the highway LSTM against the plain one: outputs, and every gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.tasks.srl.highway_recurrence import highway_recurrence, reference_recurrence
from ragged_batches import random_tensor
from reference.strategies import patiently, seeds
from triton_here import DEVICE, needs_triton

lengths_of_sentences = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def sizes_of(lengths: list[int]) -> list[int]:
    """How many sentences have a token at each step."""
    return [sum(length > step for length in lengths) for step in range(max(lengths))]


def random_inputs(seed: int, lengths: list[int], units: int) -> tuple[list[Tensor], Tensor]:
    """Products, what is carried and recurrent weights; and a mask of dropout."""
    tokens = sum(lengths)
    given_tensors = [random_tensor(seed, tokens, 5 * units), random_tensor(seed + 1, tokens, units)]
    given_tensors.append(random_tensor(seed + 2, 5 * units, units) / units**0.5)
    return given_tensors, (random_tensor(seed + 3, len(lengths), units) > 0).double() * 2


def outputs_and_gradients(function, tensors: list[Tensor], kept: Tensor | None, sizes: list[int]) -> list[Tensor]:
    leaves = [one.clone().requires_grad_() for one in tensors]
    outputs = function(*leaves, kept, sizes)
    slopes = random_tensor(7, *outputs.shape).to(outputs)
    return [outputs.detach(), *torch.autograd.grad(outputs, leaves, slopes)]


@patiently
@given(seed=seeds, lengths=lengths_of_sentences, drops=st.booleans())
def test_outputs_and_gradients_are_those_of_the_reference(seed: int, lengths: list[int], drops: bool) -> None:
    tensors, mask = random_inputs(seed, lengths, 3)
    kept, sizes = mask if drops else None, sizes_of(lengths)
    found, expected = (
        outputs_and_gradients(function, tensors, kept, sizes) for function in (highway_recurrence, reference_recurrence)
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_gradients_are_those_of_small_differences() -> None:
    tensors = [random_tensor(1, 5, 10), random_tensor(2, 5, 2), random_tensor(3, 10, 2)]
    leaves = [tensor.requires_grad_() for tensor in tensors]
    assert torch.autograd.gradcheck(lambda *given: highway_recurrence(*given, None, [2, 2, 1]), leaves)


# More sentences and units than a program's tile has, and fewer; sums over more than one piece, and over a part of one.
@needs_triton
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize(
    ("lengths", "units"), [([1], 1), ([4, 2, 2, 1], 3), ([3, 3], 33), ([*[4] * 16, 3, 3, 1], 40), ([2] * 18, 70)]
)
def test_the_triton_recurrence_is_the_reference(lengths: list[int], units: int, drops: bool) -> None:
    from elmore.tasks.srl.triton_highway_recurrence import TritonRecurrence

    tensors, mask = random_inputs(3, lengths, units)
    tensors, mask = [one.float().to(DEVICE) for one in tensors], mask.float().to(DEVICE)
    kept, sizes = mask if drops else None, sizes_of(lengths)
    found = outputs_and_gradients(
        lambda *inputs: TritonRecurrence.apply(*inputs[:4], tuple(inputs[4])), tensors, kept, sizes
    )
    expected = outputs_and_gradients(reference_recurrence, tensors, kept, sizes)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


@needs_triton
def test_what_is_carried_may_be_a_part_of_something_larger() -> None:
    from elmore.tasks.srl.triton_highway_recurrence import TritonRecurrence

    (products, carried, recurrent), _ = random_inputs(5, [3, 2], 4)
    both = torch.cat([products, carried], dim=1).float().to(DEVICE)
    parts = (both[:, :20], both[:, 20:], recurrent.float().to(DEVICE))
    assert not parts[1].is_contiguous()
    found = TritonRecurrence.apply(*parts, None, (2, 2, 1))
    torch.testing.assert_close(found, reference_recurrence(*parts, None, (2, 2, 1)), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(DEVICE != "cuda", reason="a GPU is needed")
@needs_triton
def test_on_a_gpu_the_recurrence_is_that_of_triton_unless_numbers_are_finer() -> None:
    for dtype, name in ((torch.float32, "TritonRecurrence"), (torch.float64, "TorchRecurrence")):
        products, carried, recurrent = (one.to("cuda", dtype).requires_grad_() for one in random_inputs(1, [2], 3)[0])
        found = highway_recurrence(products, carried, recurrent, None, [1, 1])
        assert type(found.grad_fn).__name__.startswith(name)
