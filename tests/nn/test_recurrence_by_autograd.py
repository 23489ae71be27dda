"""The reference recurrence against a loop in float64 that takes one row and one step at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.nn import recurrence as kernel
from elmore.nn.recurrence import Clips, LstmTensors, rows_at_each_step, run_by_autograd
from random_lstm import random_layer, random_reading, tensors_of
from reference.network import Array, Cell
from reference.strategies import clips, patiently, seeds


def read_row(x: Array, h: Array, c: Array, weights: LstmTensors, direction: int) -> tuple[Array, ...]:
    """One row of one direction, step by step: its outputs, and h and c after the last step."""
    cell = Cell(
        kernel=np.concatenate([weights.input[direction].numpy(), weights.recurrent[direction].numpy()]),
        bias=weights.bias[direction].numpy(),
        projection=None if weights.projection is None else weights.projection[direction].numpy(),
        gate_order="ijfo",
        forget_bias=0.0,
        cell_clip=weights.clips.cell,
        projection_clip=weights.clips.projection,
    )
    outputs = []
    for step in x:
        h, c = cell.step(step, (h, c))
        outputs.append(h)
    return np.array(outputs), h, c


lengths_of_rows = st.lists(st.integers(1, 9), min_size=1, max_size=4).map(lambda some: sorted(some, reverse=True))


@patiently
@given(
    seeds, lengths_of_rows, st.integers(1, 2), st.integers(1, 4), st.integers(1, 4), st.booleans(),
    st.builds(Clips, clips, clips),
)  # fmt: skip
def test_recur_is_the_loop_over_rows_and_steps(
    seed: int, lengths: list[int], directions: int, vector: int, cells: int, projected: bool, clips: Clips
) -> None:
    cells = cells if projected else vector
    weights = random_layer(seed, directions=directions, vector=vector, cells=cells, projected=projected, clips=clips)
    inputs, (h, c) = random_reading(seed, weights, lengths)
    outputs, (last_h, last_c) = run_by_autograd(weights, inputs, lengths, (h, c))
    assert outputs.shape == inputs.shape
    for direction in range(directions):
        for row, length in enumerate(lengths):
            start = (h[direction, row].numpy(), c[direction, row].numpy())
            x = inputs[direction, :length, row].numpy()
            expected, end_h, end_c = read_row(x, *start, weights, direction)
            np.testing.assert_allclose(outputs[direction, :length, row], expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(last_h[direction, row], end_h, rtol=0, atol=1e-12)
            np.testing.assert_allclose(last_c[direction, row], end_c, rtol=0, atol=1e-12)
            assert not outputs[direction, length:, row].any()


@given(lengths_of_rows)
def test_rows_at_each_step_are_those_that_are_longer(lengths: list[int]) -> None:
    expected = [sum(length > step for length in lengths) for step in range(10)]
    assert rows_at_each_step(lengths, steps=10) == expected


def test_what_lies_beyond_the_end_of_a_row_is_never_read() -> None:
    weights = random_layer(0, directions=2, vector=3, cells=5, projected=True)
    lengths = [6, 4, 1]
    inputs, state = random_reading(0, weights, lengths)
    outputs, after = run_by_autograd(weights, inputs, lengths, state)
    for row, length in enumerate(lengths):
        inputs[:, length:, row] = float("nan")
    again, after_again = run_by_autograd(weights, inputs, lengths, state)
    assert torch.equal(outputs, again)
    assert all(torch.equal(one, other) for one, other in zip(after, after_again, strict=True))


def test_the_given_state_is_left_as_it_was() -> None:
    weights = random_layer(1, directions=1, vector=3, cells=3, projected=False, clips=Clips(3.0, None))
    inputs, (h, c) = random_reading(1, weights, [4, 2])
    before = (h.clone(), c.clone())
    run_by_autograd(weights, inputs, [4, 2], (h, c))
    assert torch.equal(h, before[0])
    assert torch.equal(c, before[1])


def test_clips_bound_what_is_carried_and_what_is_given_out() -> None:
    weights = random_layer(2, directions=2, vector=4, cells=6, projected=True, clips=Clips(0.3, 0.2))
    inputs, state = random_reading(2, weights, [20, 20])
    outputs, (h, c) = run_by_autograd(weights, inputs, [20, 20], state)
    assert outputs.abs().max() == h.abs().max() == 0.2
    assert c.abs().max() == 0.3


def test_the_projection_clip_has_no_effect_without_a_projection() -> None:
    weights = random_layer(3, directions=2, vector=4, cells=4, projected=False)
    inputs, state = random_reading(3, weights, [7])
    free, _ = run_by_autograd(weights, inputs, [7], state)
    clipped, _ = run_by_autograd(weights._replace(clips=Clips(None, 0.01)), inputs, [7], state)
    assert free.abs().max() > 0.01
    assert torch.equal(free, clipped)


@pytest.mark.parametrize("lengths", [[70, 65, 64, 63, 33, 32, 31, 1], [64], [32, 32], [33]])
def test_long_rows_read_chunk_by_chunk_are_the_same_as_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, lengths: list[int]
) -> None:
    weights = random_layer(4, directions=2, vector=3, cells=5, projected=True, clips=Clips(3.0, 3.0))
    inputs, state = random_reading(4, weights, lengths)
    assert kernel.STEPS_AT_ONCE == 32  # the lengths above stand around its multiples
    chunks, (h, c) = run_by_autograd(weights, inputs, lengths, state)
    monkeypatch.setattr(kernel, "STEPS_AT_ONCE", 1000)
    whole, (whole_h, whole_c) = run_by_autograd(weights, inputs, lengths, state)
    for one, other in ((chunks, whole), (h, whole_h), (c, whole_c)):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", [Clips(None, None), Clips(0.6, 0.4), Clips(3.0, None)])
def test_gradients_are_those_of_finite_differences(projected: bool, clips: Clips) -> None:
    weights = random_layer(5, directions=2, vector=2, cells=3 if projected else 2, projected=projected, clips=clips)
    inputs, state = random_reading(5, weights, [3, 3, 1])
    parts = [part.requires_grad_() for part in (inputs, *state, *tensors_of(weights))]

    def outputs_and_state(inputs: Tensor, h: Tensor, c: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        own = LstmTensors(parts[0], parts[1], parts[2], parts[3] if projected else None, clips)
        outputs, after = run_by_autograd(own, inputs, [3, 3, 1], (h, c))
        return outputs, *after

    assert torch.autograd.gradcheck(outputs_and_state, parts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_float_goes_in_and_comes_out(dtype: torch.dtype) -> None:
    double = random_layer(6, directions=1, vector=2, cells=3, projected=True)
    weights = LstmTensors(*(part.to(dtype) for part in tensors_of(double)), Clips(3.0, 3.0))
    inputs, (h, c) = random_reading(6, double, [3, 2])
    outputs, after = run_by_autograd(weights, inputs.to(dtype), [3, 2], (h.to(dtype), c.to(dtype)))
    assert {outputs.dtype, *(part.dtype for part in after)} == {dtype}
