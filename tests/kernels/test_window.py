"""The recurrence of training against the plain one, gradients and carried state included."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.kernels import Clips, LstmWeights, recur
from elmore.kernels.window import recur_window
from reference.strategies import clips, patiently, seeds


def random_weights(seed: int, *, directions: int, vector: int, cells: int, projected: bool) -> LstmWeights:
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(directions, *shape, generator=random, dtype=torch.float64).requires_grad_()

    return LstmWeights(
        draw(vector, 4 * cells), draw(vector, 4 * cells), draw(4 * cells), draw(cells, vector) if projected else None
    )


def random_inputs(weights: LstmWeights, *, steps: int, rows: int) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    directions, vector, gates = weights.input.shape
    random = torch.Generator().manual_seed(steps)
    x, h, c = (
        torch.randn(directions, *shape, generator=random, dtype=torch.float64)
        for shape in ((steps, rows, vector), (rows, vector), (rows, gates // 4))
    )
    return x.requires_grad_(), (h, c)


@patiently
@given(
    seed=seeds,
    directions=st.integers(1, 2),
    steps=st.integers(1, 6),
    rows=st.integers(1, 4),
    cell_clip=clips,
    projection_clip=clips,
    projected=st.booleans(),
)
def test_outputs_state_and_every_gradient_are_those_of_the_plain_recurrence(
    seed, directions, steps, rows, cell_clip, projection_clip, projected
):
    weights = random_weights(seed, directions=directions, vector=4, cells=6 if projected else 4, projected=projected)
    inputs, state = random_inputs(weights, steps=steps, rows=rows)
    bounds = Clips(cell_clip, projection_clip)

    outputs, (h, c) = recur_window(inputs, state, weights, bounds)
    plain, (plain_h, plain_c) = recur(inputs.transpose(1, 2), [steps] * rows, state, weights, bounds)
    torch.testing.assert_close(outputs, plain.transpose(1, 2), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(h, plain_h, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(c, plain_c, rtol=1e-10, atol=1e-12)

    slopes = torch.randn_like(outputs)
    leaves = [inputs, *(part for part in weights if part is not None)]
    ours = torch.autograd.grad(outputs, leaves, slopes)
    theirs = torch.autograd.grad(plain.transpose(1, 2), leaves, slopes)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_a_clip_stops_the_gradient_of_what_it_holds():
    weights = random_weights(1, directions=2, vector=4, cells=6, projected=True)
    inputs, state = random_inputs(weights, steps=5, rows=3)
    outputs, (_, c) = recur_window(inputs, state, weights, Clips(0.1, 0.05))
    assert (outputs.abs() == 0.05).double().mean() > 0.3
    assert (c.abs() == 0.1).double().mean() > 0.3
    held = (outputs[:, -1].abs() == 0.05).double()
    # The last step has no other way to the loss than through its own output.
    assert torch.autograd.grad(outputs[:, -1], weights.bias, held, retain_graph=True)[0].abs().sum() == 0
    assert torch.autograd.grad(outputs[:, -1], weights.bias, 1 - held)[0].abs().sum() > 0


def test_no_gradient_flows_into_or_out_of_the_state():
    weights = random_weights(2, directions=1, vector=3, cells=3, projected=False)
    inputs, (h, c) = random_inputs(weights, steps=2, rows=2)
    h.requires_grad_()
    c.requires_grad_()
    outputs, after = recur_window(inputs, (h, c), weights, Clips(None, None))
    outputs.sum().backward()
    assert h.grad is None
    assert c.grad is None
    assert not any(part.requires_grad for part in after)


@pytest.mark.parametrize("projected", [True, False])
def test_in_bfloat16_the_cells_are_carried_in_float32(projected):
    weights = random_weights(3, directions=2, vector=8, cells=16 if projected else 8, projected=projected)
    inputs, (h, c) = random_inputs(weights, steps=6, rows=4)
    small = LstmWeights(*(None if part is None else part.detach().bfloat16() / 4 for part in weights))
    exact = LstmWeights(*(None if part is None else part.double() for part in small))
    outputs, (_, after) = recur_window(inputs.bfloat16(), (h.bfloat16(), c.float()), small, Clips(3.0, 3.0))
    expected, (_, expected_after) = recur_window(inputs, (h, c), exact, Clips(3.0, 3.0))
    assert outputs.dtype == torch.bfloat16
    assert after.dtype == torch.float32
    torch.testing.assert_close(outputs.double(), expected, rtol=0.05, atol=0.05)
    torch.testing.assert_close(after.double(), expected_after, rtol=0.05, atol=0.05)
