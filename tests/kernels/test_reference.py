"""The reference recurrence against a loop in float64 that takes one row and one step at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.kernels import Clips, LstmWeights, recur
from elmore.kernels import reference as kernel
from reference.network import Array, Cell
from reference.strategies import clips, patiently, seeds


def random_layer(seed: int, *, directions: int, vector: int, cells: int, projected: bool) -> LstmWeights:
    random = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(directions, *shape, generator=random, dtype=torch.float64)

    return LstmWeights(
        input=draw(vector, 4 * cells),
        recurrent=draw(vector, 4 * cells),
        bias=draw(4 * cells),
        projection=draw(cells, vector) if projected else None,
    )


def random_reading(seed: int, weights: LstmWeights, lengths: list[int]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Inputs for rows of these lengths, and a state to start from."""
    directions, vector, gates = weights.input.shape
    random = torch.Generator().manual_seed(seed + 1)
    shape = (directions, len(lengths))
    inputs = torch.randn(*shape, max(lengths), vector, generator=random, dtype=torch.float64)
    h = torch.randn(*shape, vector, generator=random, dtype=torch.float64)
    c = torch.randn(*shape, gates // 4, generator=random, dtype=torch.float64)
    return inputs, (h, c)


def read_row(x: Array, h: Array, c: Array, weights: LstmWeights, clips: Clips, direction: int) -> tuple[Array, ...]:
    """One row of one direction, step by step: its outputs, and h and c after the last step."""
    cell = Cell(
        kernel=np.concatenate([weights.input[direction].numpy(), weights.recurrent[direction].numpy()]),
        bias=weights.bias[direction].numpy(),
        projection=None if weights.projection is None else weights.projection[direction].numpy(),
        gate_order="ijfo",
        forget_bias=0.0,
        cell_clip=clips.cell,
        projection_clip=clips.projection,
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
    weights = random_layer(seed, directions=directions, vector=vector, cells=cells, projected=projected)
    inputs, (h, c) = random_reading(seed, weights, lengths)
    outputs, (last_h, last_c) = recur(inputs, lengths, (h, c), weights, clips)
    assert outputs.shape == inputs.shape
    for direction in range(directions):
        for row, length in enumerate(lengths):
            start = (h[direction, row].numpy(), c[direction, row].numpy())
            x = inputs[direction, row, :length].numpy()
            expected, end_h, end_c = read_row(x, *start, weights, clips, direction)
            np.testing.assert_allclose(outputs[direction, row, :length], expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(last_h[direction, row], end_h, rtol=0, atol=1e-12)
            np.testing.assert_allclose(last_c[direction, row], end_c, rtol=0, atol=1e-12)
            assert not outputs[direction, row, length:].any()


def test_what_lies_beyond_the_end_of_a_row_is_never_read() -> None:
    weights = random_layer(0, directions=2, vector=3, cells=5, projected=True)
    lengths = [6, 4, 1]
    inputs, state = random_reading(0, weights, lengths)
    outputs, after = recur(inputs, lengths, state, weights, Clips(None, None))
    for row, length in enumerate(lengths):
        inputs[:, row, length:] = float("nan")
    again, after_again = recur(inputs, lengths, state, weights, Clips(None, None))
    assert torch.equal(outputs, again)
    assert all(torch.equal(one, other) for one, other in zip(after, after_again, strict=True))


def test_the_given_state_is_left_as_it_was() -> None:
    weights = random_layer(1, directions=1, vector=3, cells=3, projected=False)
    inputs, (h, c) = random_reading(1, weights, [4, 2])
    before = (h.clone(), c.clone())
    recur(inputs, [4, 2], (h, c), weights, Clips(3.0, None))
    assert torch.equal(h, before[0])
    assert torch.equal(c, before[1])


def test_clips_bound_what_is_carried_and_what_is_given_out() -> None:
    weights = random_layer(2, directions=2, vector=4, cells=6, projected=True)
    inputs, state = random_reading(2, weights, [20, 20])
    outputs, (h, c) = recur(inputs, [20, 20], state, weights, Clips(0.3, 0.2))
    assert outputs.abs().max() == h.abs().max() == 0.2
    assert c.abs().max() == 0.3


def test_the_projection_clip_has_no_effect_without_a_projection() -> None:
    weights = random_layer(3, directions=2, vector=4, cells=4, projected=False)
    inputs, state = random_reading(3, weights, [7])
    free, _ = recur(inputs, [7], state, weights, Clips(None, None))
    clipped, _ = recur(inputs, [7], state, weights, Clips(None, 0.01))
    assert free.abs().max() > 0.01
    assert torch.equal(free, clipped)


@pytest.mark.parametrize("lengths", [[70, 65, 64, 63, 33, 32, 31, 1], [64], [32, 32], [33]])
def test_long_rows_read_window_by_window_are_the_same_as_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, lengths: list[int]
) -> None:
    weights = random_layer(4, directions=2, vector=3, cells=5, projected=True)
    inputs, state = random_reading(4, weights, lengths)
    assert kernel.STEPS_AT_ONCE == 32  # the lengths above stand around its multiples
    windows, (h, c) = recur(inputs, lengths, state, weights, Clips(3.0, 3.0))
    monkeypatch.setattr(kernel, "STEPS_AT_ONCE", 1000)
    whole, (whole_h, whole_c) = recur(inputs, lengths, state, weights, Clips(3.0, 3.0))
    for one, other in ((windows, whole), (h, whole_h), (c, whole_c)):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("clips", [Clips(None, None), Clips(0.6, 0.4), Clips(3.0, None)])
def test_gradients_are_those_of_finite_differences(projected: bool, clips: Clips) -> None:
    weights = random_layer(5, directions=2, vector=2, cells=3 if projected else 2, projected=projected)
    inputs, state = random_reading(5, weights, [3, 3, 1])
    parts = [part.requires_grad_() for part in (inputs, *state, *weights) if part is not None]

    def outputs_and_state(inputs: Tensor, h: Tensor, c: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        own = LstmWeights(parts[0], parts[1], parts[2], parts[3] if projected else None)
        outputs, after = recur(inputs, [3, 3, 1], (h, c), own, clips)
        return outputs, *after

    assert torch.autograd.gradcheck(outputs_and_state, parts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_float_goes_in_and_comes_out(dtype: torch.dtype) -> None:
    double = random_layer(6, directions=1, vector=2, cells=3, projected=True)
    weights = LstmWeights(*(None if part is None else part.to(dtype) for part in double))  # type: ignore[arg-type]
    inputs, (h, c) = random_reading(6, double, [3, 2])
    outputs, after = recur(inputs.to(dtype), [3, 2], (h.to(dtype), c.to(dtype)), weights, Clips(3.0, 3.0))
    assert {outputs.dtype, *(part.dtype for part in after)} == {dtype}
