"""The native LSTM kernel of training: outputs, state and every gradient against float64, and wrong input."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from elmore.engine.native_library import Precision, why_unavailable
from elmore.errors import InputError
from elmore.nn.native_recurrence import native_lstm
from elmore.nn.recurrence import TORCH_CELL, CellFunctions, Clips, HiddenTensors, LstmStep, LstmTensors, lstm_kernel
from random_lstm import random_layer, random_reading, tensors_of
from reference.strategies import clips, patiently, seeds
from thread_count import using_threads

pytestmark = pytest.mark.skipif(
    why_unavailable(Precision.FLOAT32) is not None, reason=f"native kernels: {why_unavailable(Precision.FLOAT32)}"
)

# Vectors and cells on both sides of whole vectors and panels.
SHAPES = [(1, 1), (3, 5), (8, 16), (17, 33), (5, 70)]
ALL = (0, 1, 2)  # outputs, h and c

lengths_of_rows = st.lists(st.integers(0, 5), min_size=1, max_size=9).map(lambda some: sorted([*some, 1], reverse=True))


class ClipDistance:
    """Notes how near to a clip any number came before it was clipped: there float32 may fall on the other side."""

    def __init__(self) -> None:
        self.least = math.inf

    def cell(self) -> CellFunctions:
        return TORCH_CELL._replace(forward=self._forward, clip=self._clip)

    def _forward(self, x: Tensor, r: Tensor, bias: Tensor, step: LstmStep, clip: float) -> None:
        TORCH_CELL.forward(x, r, bias, step, clip=math.inf)
        self._note(step.c_after, clip)
        TORCH_CELL.forward(x, r, bias, step, clip=clip)

    def _clip(self, projected: Tensor, h: Tensor, clip: float) -> None:
        self._note(projected, clip)
        TORCH_CELL.clip(projected, h, clip=clip)

    def _note(self, values: Tensor, clip: float) -> None:
        self.least = min(self.least, (values.abs() - clip).abs().min().item()) if values.numel() else self.least


def drawn(
    seed: int, shape: tuple[int, int], lengths: Sequence[int], *, directions: int, projected: bool, bounds: Clips
) -> tuple[LstmTensors, Tensor, HiddenTensors]:
    """In float64, numbers that float32 has, scaled as trained weights are; everything wants a gradient."""
    vector, cells = shape if projected else (shape[0], shape[0])
    layer = random_layer(seed, directions=directions, vector=vector, cells=cells, projected=projected, clips=bounds)
    inputs, state = random_reading(seed, layer, lengths)
    scaled = (part / part.shape[1] ** 0.5 if part.ndim == 3 else part for part in tensors_of(layer))
    weights, (own_inputs, h, c) = [part.float() for part in scaled], (part.float() for part in (inputs, *state))
    parts = [part.double().requires_grad_() for part in (own_inputs, h, c, *weights)]
    whole = LstmTensors(*parts[3:6], parts[6] if projected else None, bounds)
    return whole, parts[0], (parts[1], parts[2])


def in_float32(weights: LstmTensors, inputs: Tensor, state: HiddenTensors) -> tuple[LstmTensors, Tensor, HiddenTensors]:
    parts = [part.detach().float().requires_grad_() for part in (inputs, *state, *tensors_of(weights))]
    projection = parts[6] if weights.projection is not None else None
    return LstmTensors(*parts[3:6], projection, weights.clips), parts[0], (parts[1], parts[2])


def leaves_of(weights: LstmTensors, inputs: Tensor, state: HiddenTensors) -> list[Tensor]:
    return [inputs, *state, *tensors_of(weights)]


def distance_to_clips(drawn_case: tuple[LstmTensors, Tensor, HiddenTensors], lengths: Sequence[int]) -> float:
    distance = ClipDistance()
    weights, inputs, state = drawn_case
    lstm_kernel(distance.cell()).run(weights, inputs, lengths, state)
    return distance.least


def assert_same_gradients(drawn_case: tuple[LstmTensors, Tensor, HiddenTensors], lengths: Sequence[int]) -> None:
    exact_weights, exact_inputs, exact_state = drawn_case
    exact, exact_after = lstm_kernel(TORCH_CELL).run(exact_weights, exact_inputs, lengths, exact_state)
    weights, inputs, state = in_float32(*drawn_case)
    outputs, after = native_lstm().run(weights, inputs, lengths, state)
    ours, theirs = (outputs, *after), (exact, *exact_after)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-5)
    # Gradients that come from the outputs, from the last state, and from both.
    for used in ([0], [1, 2], ALL):
        slopes = [torch.randn_like(ours[k]) for k in used]
        found = torch.autograd.grad(
            [ours[k] for k in used], leaves_of(weights, inputs, state), slopes, retain_graph=True
        )
        expected = torch.autograd.grad(
            [theirs[k] for k in used], leaves_of(*drawn_case), [slope.double() for slope in slopes], retain_graph=True
        )
        for a, b in zip(found, expected, strict=True):
            assert (a - b).norm() <= 1e-4 * b.norm() + 1e-7


@patiently
@given(
    seed=seeds,
    shape=st.sampled_from(SHAPES),
    directions=st.integers(1, 2),
    lengths=lengths_of_rows | st.integers(1, 5).map(lambda steps: [steps] * 7),
    bounds=st.builds(Clips, clips, clips),
    projected=st.booleans(),
)
def test_outputs_state_and_every_gradient_are_those_of_the_plain_recurrence(
    seed, shape, directions, lengths, bounds, projected
):
    case = drawn(seed, shape, lengths, directions=directions, projected=projected, bounds=bounds)
    assume(distance_to_clips(case, lengths) > 1e-5)
    assert_same_gradients(case, lengths)


# More cells than a block has, more rows than a piece, and more rows than one stretch of steps.
@pytest.mark.parametrize(("shape", "rows"), [((70, 300), 70), ((130, 520), 9), ((6, 20), 300)])
@pytest.mark.parametrize("projected", [True, False])
def test_large_layers_have_the_same_gradients(shape, rows, projected):
    lengths = [5] * (rows // 2) + [3] * (rows - rows // 2)
    free = Clips(None, None)
    assert_same_gradients(drawn(3, shape, lengths, directions=2, projected=projected, bounds=free), lengths)


def gradients_on(threads: int, case: tuple[LstmTensors, Tensor, HiddenTensors], lengths: Sequence[int]) -> list[Tensor]:
    with using_threads(threads):
        outputs, after = native_lstm().run(case[0], case[1], lengths, case[2])
        return [outputs, *torch.autograd.grad([outputs, *after], leaves_of(*case), [outputs, *after])]


def test_gradients_have_the_same_bits_with_any_number_of_threads():
    lengths = [6] * 40 + [4] * 20 + [0] * 3
    case = in_float32(*drawn(5, (40, 150), lengths, directions=2, projected=True, bounds=Clips(1.0, 0.5)))
    alone = gradients_on(1, case, lengths)
    for threads in (2, 3, 8):
        for one, other in zip(gradients_on(threads, case, lengths), alone, strict=True):
            assert torch.equal(one, other)


def test_a_clip_stops_the_gradient_of_what_it_holds():
    weights, inputs, state = in_float32(
        *drawn(1, (4, 6), [5] * 3, directions=2, projected=True, bounds=Clips(0.1, 0.05))
    )
    outputs, (_, c) = native_lstm().run(weights, inputs, [5] * 3, state)
    assert (outputs.abs() == 0.05).float().mean() > 0.1
    assert (c.abs() == 0.1).float().mean() > 0.3
    held = (outputs[:, -1].abs() == 0.05).float()
    # The last step has no other way to the loss than through its own output.
    assert torch.autograd.grad(outputs[:, -1], weights.bias, held, retain_graph=True)[0].abs().sum() == 0
    assert torch.autograd.grad(outputs[:, -1], weights.bias, 1 - held)[0].abs().sum() > 0


def test_frozen_weights_leave_the_gradients_of_the_inputs_as_they_are():
    lengths = [4, 4, 2]
    weights, inputs, state = in_float32(
        *drawn(2, (5, 9), lengths, directions=1, projected=True, bounds=Clips(3.0, 3.0))
    )
    frozen = LstmTensors(*(part.detach() for part in tensors_of(weights)), weights.clips)
    run = native_lstm().run
    expected, found = (
        torch.autograd.grad(run(some, inputs, lengths, state)[0].sum(), [inputs, *state]) for some in (weights, frozen)
    )
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("part", range(7))
def test_single_part_has_its_gradient_when_all_others_are_frozen(part):
    lengths = [4, 4, 2]
    case = in_float32(*drawn(2, (5, 9), lengths, directions=2, projected=True, bounds=Clips(3.0, 3.0)))
    parts = leaves_of(*case)
    outputs, after = native_lstm().run(case[0], case[1], lengths, case[2])
    expected = torch.autograd.grad(outputs.sum() + after[1].sum(), parts)[part]
    alone = [one if number == part else one.detach() for number, one in enumerate(parts)]
    outputs, after = native_lstm().run(LstmTensors(*alone[3:], case[0].clips), alone[0], lengths, (alone[1], alone[2]))
    assert torch.equal(torch.autograd.grad(outputs.sum() + after[1].sum(), alone[part])[0], expected)


def test_no_rows_are_no_trouble():
    weights, _, _ = in_float32(*drawn(2, (3, 4), [1], directions=2, projected=True, bounds=Clips(None, None)))
    empty = torch.empty(2, 2, 0, 3, requires_grad=True)
    outputs, (h, c) = native_lstm().run(weights, empty, [], (torch.empty(2, 0, 3), torch.empty(2, 0, 4)))
    assert (outputs.shape, h.shape, c.shape) == ((2, 2, 0, 3), (2, 0, 3), (2, 0, 4))
    outputs.sum().backward()
    assert not weights.input.grad.any()


def plain_case(lengths: Sequence[int]) -> tuple[LstmTensors, Tensor, HiddenTensors]:
    case = drawn(7, (17, 33), lengths, directions=2, projected=True, bounds=Clips(1.0, 0.5))
    return in_float32(*case)


def test_outputs_without_gradients_have_the_bits_of_those_with():
    lengths = [6] * 40 + [4, 1, 0]
    weights, inputs, state = plain_case(lengths)
    expected, after = native_lstm().run(weights, inputs, lengths, state)
    with torch.no_grad():
        found, found_after = native_lstm().run(weights, inputs, lengths, state)
    assert all(torch.equal(one, other) for one, other in zip((found, *found_after), (expected, *after), strict=True))


def test_row_has_the_same_bits_in_any_batch():
    lengths = [6] * 70 + [4] * 9 + [1]
    weights, inputs, (h, c) = plain_case(lengths)
    together, after = native_lstm().run(weights, inputs, lengths, (h, c))
    for rows in ([0], [75], [3, 71, 79], list(range(5, 60))):
        some = [lengths[row] for row in rows]
        found, found_after = native_lstm().run(weights, inputs[:, :, rows], some, (h[:, rows], c[:, rows]))
        assert torch.equal(found, together[:, :, rows])
        assert all(torch.equal(one, other[:, rows]) for one, other in zip(found_after, after, strict=True))


@pytest.mark.parametrize(
    ("lengths", "complaint"),
    [
        ([3, 3], r"inputs has shape \(2, 4, 3, 17\); it must have shape \(2, any, 2, 17\)"),
        ([5, 3, 1], r"lengths are from 1 to 5; they must be from 0 to 4"),
        ([4, 3, -1], r"lengths are from -1 to 4; they must be from 0 to 4"),
        ([3, 4, 1], r"lengths must not increase from row to row"),
    ],
)
def test_wrong_lengths_are_rejected(lengths, complaint):
    weights, inputs, state = plain_case([4, 4, 4])
    with pytest.raises(InputError, match=complaint):
        native_lstm().run(weights, inputs, lengths, state)


def changed(tensor: Tensor, kind: str, dim: int) -> Tensor:
    dim %= tensor.ndim
    match kind:
        case "shorter":
            return tensor.narrow(dim, 0, tensor.shape[dim] - 1)
        case "longer":
            return torch.cat([tensor, tensor.narrow(dim, 0, 1)], dim=dim)
        case "one dimension more":
            return tensor.unsqueeze(dim)
        case "int32":
            return tensor.int()
        case "float64":
            return tensor.double()
        case "meta":
            return tensor.to("meta")
    # The same numbers, with gaps between them.
    wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1]), torch.nan)
    wide[..., ::2] = tensor
    return wide[..., ::2]


WRONG = ["shorter", "longer", "one dimension more", "int32", "float64", "meta"]


@patiently
@given(part=st.integers(0, 6), kind=st.sampled_from([*WRONG, "with gaps"]), dim=st.integers(0, 3))
def test_wrong_tensors_are_rejected_and_gaps_change_nothing(part, kind, dim):
    lengths = [4, 3, 1]
    weights, inputs, state = plain_case(lengths)
    parts = [one.detach() for one in leaves_of(weights, inputs, state)]
    expected, _ = native_lstm().run(LstmTensors(*parts[3:], weights.clips), parts[0], lengths, (parts[1], parts[2]))
    parts[part] = changed(parts[part], kind, dim)
    given = LstmTensors(*parts[3:], weights.clips)
    # Inputs may have more steps than the longest row.
    if kind == "with gaps" or (part == 0 and kind == "longer" and dim == 1):
        found, _ = native_lstm().run(given, parts[0], lengths, (parts[1], parts[2]))
        assert torch.equal(found[:, :4], expected)
        return
    if part == 0 and kind == "shorter" and dim == 1:
        complaint = "lengths are from 1 to 4; they must be from 0 to 3"
    else:
        complaint = "inputs|state|the LSTM's"
    with pytest.raises(InputError, match=complaint):
        native_lstm().run(given, parts[0], lengths, (parts[1], parts[2]))
