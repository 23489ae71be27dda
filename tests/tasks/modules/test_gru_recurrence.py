"""The recurrences of gated recurrent units: the plain one against torch's, the fast one against the plain one."""

import importlib.util

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from elmore.tasks.modules.gru_recurrence import (
    PackedSteps,
    fused_recurrence,
    fused_recurrence_runs_on,
    reference_recurrence,
)
from ragged_batches import random_tensor
from reference.strategies import patiently, seeds
from triton_here import DEVICE, needs_triton

CPU, CUDA = torch.device("cpu"), torch.device("cuda")

lengths_of_sentences = st.lists(st.integers(1, 6), min_size=1, max_size=4)


def steps_of(lengths: list[int], device: torch.device = CPU) -> PackedSteps:
    return PackedSteps.of([sum(length > step for length in lengths) for step in range(max(lengths))], device)


def random_inputs(seed: int, lengths: list[int], units: int) -> list[Tensor]:
    """Products, recurrent weights and their biases."""
    shapes = ((sum(lengths), 2, 3 * units), (2, 3 * units, units), (2, 3 * units))
    products, recurrent, bias = (random_tensor(seed + number, *shape) for number, shape in enumerate(shapes))
    return [products, recurrent / units**0.5, bias]


def outputs_and_gradients(function, tensors: list[Tensor], steps: PackedSteps) -> list[Tensor]:
    leaves = [one.clone().requires_grad_() for one in tensors]
    outputs = function(*leaves, steps)
    slopes = random_tensor(7, *outputs.shape).to(outputs)
    return [outputs.detach(), *torch.autograd.grad(outputs, leaves, slopes)]


def torch_recurrence(products: Tensor, recurrent: Tensor, bias: Tensor, steps: PackedSteps) -> Tensor:
    """By torch's own module, whose input weights leave to each direction its half of the products."""
    tokens, _, size = products.shape
    gru = nn.GRU(2 * size, recurrent.shape[2], bidirectional=True).to(products)
    half, none = torch.eye(2 * size).to(products), torch.zeros(size).to(products)
    weights = {}
    for direction, suffix in enumerate(("", "_reverse")):
        weights[f"weight_ih_l0{suffix}"] = half[direction * size : (direction + 1) * size]
        weights[f"weight_hh_l0{suffix}"], weights[f"bias_hh_l0{suffix}"] = recurrent[direction], bias[direction]
        weights[f"bias_ih_l0{suffix}"] = none
    packed = PackedSequence(products.reshape(tokens, 2 * size), torch.tensor(steps.batch_sizes))
    outputs, _ = torch.func.functional_call(gru, weights, (packed,))
    return outputs.data


@patiently
@given(seed=seeds, lengths=lengths_of_sentences)
def test_outputs_and_gradients_of_the_reference_are_those_of_torch(seed: int, lengths: list[int]) -> None:
    lengths = sorted(lengths, reverse=True)
    tensors, steps = random_inputs(seed, lengths, 3), steps_of(lengths)
    found, expected = (
        outputs_and_gradients(function, tensors, steps) for function in (reference_recurrence, torch_recurrence)
    )
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


# Units that fill a tile, and do not; sentences of one token, all of one length, and of many.
SHAPES = [
    ([1], 1),
    ([4, 2, 2, 1], 3),
    ([3, 3], 16),
    ([5, 4, 1], 33),
    ([7, 5, 5, 2, 1], 90),
    ([1, 1, 1], 90),
    ([4, 3], 128),
    ([2] * 18, 20),
]


@needs_triton
@pytest.mark.parametrize(("lengths", "units"), SHAPES)
def test_the_fused_recurrence_is_the_reference(lengths: list[int], units: int) -> None:
    tensors = [one.float().to(DEVICE) for one in random_inputs(3, lengths, units)]
    steps = steps_of(lengths, torch.device(DEVICE))
    found = outputs_and_gradients(fused_recurrence, tensors, steps)
    expected = outputs_and_gradients(reference_recurrence, tensors, steps)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


@needs_triton
def test_inputs_may_be_parts_of_something_larger() -> None:
    tensors = [one.float().to(DEVICE) for one in random_inputs(5, [3, 2], 4)]
    parts = [torch.cat([one, one], dim=-1)[..., : one.shape[-1]] for one in tensors]
    assert not any(one.is_contiguous() for one in parts)
    steps = steps_of([3, 2], torch.device(DEVICE))
    outputs = [
        fused_recurrence(*(one.clone().requires_grad_() for one in several), steps) for several in (tensors, parts)
    ]
    assert torch.equal(*outputs)
    # A sum's gradient is one number, expanded.
    torch.autograd.backward([one.sum() for one in outputs])


@needs_triton
def test_under_autocast_states_are_not_rounded() -> None:
    tensors = [one.float().to(DEVICE) for one in random_inputs(6, [4, 2], 5)]
    steps = steps_of([4, 2], torch.device(DEVICE))
    tensors[0] = tensors[0].bfloat16()
    expected = reference_recurrence(*(one.float() for one in tensors), steps)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = fused_recurrence(*tensors, steps)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_it_is_for_float32_on_a_gpu_with_triton_and_few_units() -> None:
    has_triton = importlib.util.find_spec("triton") is not None
    assert fused_recurrence_runs_on(CUDA, torch.float32, 128) == has_triton
    assert not fused_recurrence_runs_on(CUDA, torch.float32, 129)
    assert not fused_recurrence_runs_on(CUDA, torch.float64, 90)
    assert not fused_recurrence_runs_on(CUDA, torch.bfloat16, 90)
    assert not fused_recurrence_runs_on(CPU, torch.float32, 90)
