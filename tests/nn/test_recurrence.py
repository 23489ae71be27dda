"""The recurrence with its backward pass written out, against the plain one: outputs, state, and every gradient."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.nn.recurrence import TORCH_CELL, Clips, LstmTensors, lstm_kernel, prepare, run_by_autograd
from random_lstm import random_layer, random_reading, tensors_of
from reference.strategies import clips, patiently, seeds
from triton_here import DEVICE, needs_triton

RUN = lstm_kernel(TORCH_CELL).run

lengths_of_rows = st.lists(st.integers(0, 6), min_size=1, max_size=4).map(lambda some: sorted([*some, 1], reverse=True))


def trainable(weights: LstmTensors) -> LstmTensors:
    for part in tensors_of(weights):
        part.requires_grad_()
    return weights


@patiently
@given(
    seed=seeds,
    directions=st.integers(1, 2),
    lengths=lengths_of_rows | st.integers(1, 6).map(lambda steps: [steps] * 3),
    bounds=st.builds(Clips, clips, clips),
    projected=st.booleans(),
)
def test_outputs_state_and_every_gradient_are_those_of_the_plain_recurrence(
    seed, directions, lengths, bounds, projected
):
    weights = trainable(
        random_layer(
            seed, directions=directions, vector=4, cells=6 if projected else 4, projected=projected, clips=bounds
        )
    )
    inputs, state = random_reading(seed, weights, lengths)
    leaves = [part.requires_grad_() for part in (inputs, *state)] + tensors_of(weights)

    ours, plain = RUN(weights, inputs, lengths, state), run_by_autograd(weights, inputs, lengths, state)
    for one, other in zip((ours[0], *ours[1]), (plain[0], *plain[1]), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)

    # Gradients that come from the outputs, from the last state, and from both.
    for used in ([0], [1, 2], [0, 1, 2]):
        slopes = [torch.randn_like((ours[0], *ours[1])[k]) for k in used]
        found, expected = (
            torch.autograd.grad([(outputs, *after)[k] for k in used], leaves, slopes, retain_graph=True)
            for outputs, after in (ours, plain)
        )
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_a_clip_stops_the_gradient_of_what_it_holds():
    weights = trainable(random_layer(1, directions=2, vector=4, cells=6, projected=True, clips=Clips(0.1, 0.05)))
    inputs, state = random_reading(1, weights, [5] * 3)
    outputs, (_, c) = RUN(weights, inputs, [5] * 3, state)
    assert (outputs.abs() == 0.05).double().mean() > 0.3
    assert (c.abs() == 0.1).double().mean() > 0.3
    held = (outputs[:, -1].abs() == 0.05).double()
    # The last step has no other way to the loss than through its own output.
    assert torch.autograd.grad(outputs[:, -1], weights.bias, held, retain_graph=True)[0].abs().sum() == 0
    assert torch.autograd.grad(outputs[:, -1], weights.bias, 1 - held)[0].abs().sum() > 0


def test_no_rows_are_no_trouble():
    weights = trainable(random_layer(2, directions=2, vector=3, cells=4, projected=True))
    empty = torch.empty(2, 2, 0, 3, dtype=torch.float64, requires_grad=True)
    outputs, (h, c) = RUN(weights, empty, [], (torch.empty(2, 0, 3).double(), torch.empty(2, 0, 4).double()))
    assert (outputs.shape, h.shape, c.shape) == ((2, 2, 0, 3), (2, 0, 3), (2, 0, 4))
    outputs.sum().backward()
    assert not weights.input.grad.any()


@pytest.mark.parametrize("projected", [True, False])
def test_in_bfloat16_the_cells_are_carried_in_float32(projected):
    weights = random_layer(3, directions=2, vector=8, cells=16 if projected else 8, projected=projected)
    inputs, (h, c) = random_reading(3, weights, [6] * 4)
    exact = weights._replace(
        input=(weights.input / 4).bfloat16().double(),
        recurrent=(weights.recurrent / 4).bfloat16().double(),
        projection=(weights.projection / 4).bfloat16().double() if projected else None,
        clips=Clips(3.0, 3.0),
    )
    inputs, h, c = inputs.bfloat16(), h.bfloat16(), c.float()
    small = prepare(exact._replace(bias=exact.bias.float()), torch.bfloat16)
    outputs, (_, after) = RUN(small, inputs, [6] * 4, (h, c))
    expected, (_, expected_after) = RUN(exact, inputs.double(), [6] * 4, (h.double(), c.double()))
    assert outputs.dtype == torch.bfloat16
    assert after.dtype == torch.float32
    torch.testing.assert_close(outputs.double(), expected, rtol=0.02, atol=0.01)
    torch.testing.assert_close(after.double(), expected_after, rtol=0.02, atol=0.01)


def test_autocast_rounds_the_products_forth_and_back():
    weights = random_layer(4, directions=2, vector=8, cells=16, projected=True, clips=Clips(3.0, 3.0))
    inputs, state = random_reading(4, weights, [5, 3])
    weights = trainable(LstmTensors(*(part.float() / 4 for part in tensors_of(weights)), weights.clips))
    inputs, state = inputs.float(), (state[0].float(), state[1].float())

    def gradients(dtype: torch.dtype) -> tuple[Tensor, ...]:
        outputs, (_, c) = RUN(prepare(weights, dtype), inputs, [5, 3], state)
        assert (outputs.dtype, c.dtype) == (dtype, torch.float32)
        return torch.autograd.grad(outputs.float().square().sum(), tensors_of(weights))

    exact = gradients(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = gradients(torch.bfloat16)
    for a, b in zip(rounded, exact, strict=True):
        assert a.dtype == torch.float32
        assert 0 < (a - b).norm() / b.norm() < 0.02
    # The bias is only added: its gradient, a sum over all steps, is never rounded to what is multiplied.
    bias = rounded[2]
    assert bias.shape == weights.bias.shape
    assert not torch.equal(bias, bias.bfloat16().float())


@needs_triton
@pytest.mark.parametrize("lengths", [[4, 4, 4], [5, 3, 1]])
def test_over_the_triton_kernels_it_does_the_same(lengths):
    from elmore.nn.triton_training import TRITON_CELL

    weights = random_layer(5, directions=2, vector=4, cells=6, projected=True, clips=Clips(0.9, 0.5))
    inputs, state = random_reading(5, weights, lengths)

    def everything(device: str, cell) -> list[Tensor]:
        own = LstmTensors(*(part.float().to(device) for part in tensors_of(weights)), weights.clips)
        leaves = [part.float().to(device).requires_grad_() for part in (inputs, *state)]
        outputs, after = lstm_kernel(cell).run(trainable(own), leaves[0], lengths, (leaves[1], leaves[2]))
        loss = sum((number * part.square()).sum() for number, part in enumerate((outputs, *after), start=1))
        return [outputs.detach(), *torch.autograd.grad(loss, leaves + tensors_of(own))]

    for ours, theirs in zip(everything("cpu", TORCH_CELL), everything(DEVICE, TRITON_CELL), strict=True):
        torch.testing.assert_close(theirs.cpu(), ours, rtol=1e-4, atol=1e-5)
