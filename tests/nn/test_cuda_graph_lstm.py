"""The loop for reading on a GPU against the plain recurrence; here as it is, on a GPU captured."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.nn.cuda_graph_lstm import (
    FEWEST_ROWS,
    TORCH_INFERENCE_CELL,
    InferenceLstm,
    JointWeights,
    _GraphBuffers,
    _Sizes,
    rounded_rows,
)
from elmore.nn.recurrence import Clips, LstmTensors, run_by_autograd
from random_lstm import random_layer, random_reading, tensors_of
from reference.strategies import clips, patiently, seeds
from triton_here import DEVICE, needs_triton

lengths_of_rows = st.lists(st.integers(0, 6), min_size=1, max_size=4).map(lambda some: sorted([*some, 1], reverse=True))


@patiently
@given(
    seed=seeds,
    directions=st.integers(1, 2),
    lengths=st.lists(lengths_of_rows, min_size=1, max_size=3),
    bounds=st.builds(Clips, clips, clips),
    projected=st.booleans(),
)
def test_outputs_and_state_are_those_of_the_plain_recurrence_whatever_was_read_before(
    seed, directions, lengths, bounds, projected
):
    weights = random_layer(
        seed, directions=directions, vector=4, cells=6 if projected else 4, projected=projected, clips=bounds
    )
    recurrence = InferenceLstm(TORCH_INFERENCE_CELL)
    prepared = recurrence.prepare(weights, torch.float64)
    for number, own in enumerate(lengths):
        inputs, state = random_reading(seed + number, weights, own)
        found, expected = recurrence.run(prepared, inputs, own, state), run_by_autograd(weights, inputs, own, state)
        for one, other in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


sentences_of_rows = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=4), min_size=1, max_size=4)


@patiently
@given(
    seed=seeds,
    directions=st.integers(1, 2),
    rows=sentences_of_rows,
    bounds=st.builds(Clips, clips, clips),
    projected=st.booleans(),
)
def test_sentences_packed_into_rows_are_read_as_if_each_stood_alone(seed, directions, rows, bounds, projected):
    cells = 6 if projected else 4
    weights = random_layer(seed, directions=directions, vector=4, cells=cells, projected=projected, clips=bounds)
    recurrence = InferenceLstm(TORCH_INFERENCE_CELL)
    _compare_packed(recurrence, recurrence.prepare(weights, torch.float64), weights, seed, rows)


def test_memory_is_given_back_when_nothing_needs_it_any_more():
    weights = random_layer(1, directions=2, vector=4, cells=6, projected=True, clips=Clips(3.0, 3.0))
    captured = InferenceLstm(TORCH_INFERENCE_CELL)
    inputs, state = random_reading(2, weights, [5, 3])
    outputs, _ = captured.run(captured.prepare(weights, torch.float64), inputs, [5, 3], state)
    assert outputs.shape == inputs.shape
    # Without a GPU there is no graph, and so nobody who would need it again.
    assert not captured._buffers


@given(rows=st.integers(1, 5000))
def test_rows_are_rounded_to_few_numbers_that_are_not_much_larger(rows):
    assert rows <= rounded_rows(rows) < 1.5 * rows + FEWEST_ROWS
    assert rounded_rows(rounded_rows(rows)) == rounded_rows(rows)


def _compare_packed(
    recurrence: InferenceLstm, prepared: JointWeights, weights: LstmTensors, seed: int, rows: list[list[int]], **close
) -> None:
    """Read the rows in one go, and every sentence of every row by the plain recurrence."""
    rows = sorted(rows, key=sum, reverse=True)
    lengths = [sum(row) for row in rows]
    inputs, (h, c) = random_reading(seed, weights, lengths)
    starts = torch.zeros(inputs.shape[:3], dtype=torch.uint8)
    h, c = h[:, :1], c[:, :1]
    expected = torch.zeros_like(inputs)
    for number, row in enumerate(rows):
        first = 0
        for length in row:
            own = inputs[:, first : first + length, number : number + 1]
            expected[:, first : first + length, number : number + 1] = run_by_autograd(weights, own, [length], (h, c))[
                0
            ]
            starts[:, first, number] = 1
            first += length
    like = prepared.joint
    moved = (inputs.to(like), lengths, (h.to(like), c.to(like)), starts.to(like.device))
    found, _ = recurrence.run(prepared, *moved)
    torch.testing.assert_close(found.cpu().double(), expected, **(close or {"rtol": 1e-10, "atol": 1e-12}))


def test_what_was_given_out_stays_as_it_is_when_more_is_read():
    weights = random_layer(1, directions=2, vector=4, cells=6, projected=True)
    recurrence = InferenceLstm(TORCH_INFERENCE_CELL)
    prepared = recurrence.prepare(weights, torch.float64)
    first = recurrence.run(prepared, *_reading(1, weights, [5, 3]))
    before = [part.clone() for part in (first[0], *first[1])]
    recurrence.run(prepared, *_reading(2, weights, [5, 3]))
    for part, copy in zip((first[0], *first[1]), before, strict=True):
        assert torch.equal(part, copy)


def test_numbers_left_behind_by_others_touch_no_row():
    weights = random_layer(2, directions=1, vector=4, cells=6, projected=True)
    recurrence = InferenceLstm(TORCH_INFERENCE_CELL)
    prepared = recurrence.prepare(weights, torch.float64)
    inputs, lengths, state = _reading(3, weights, [6, 6, 6])
    recurrence.run(prepared, torch.full_like(inputs, torch.nan), lengths, state)
    inputs, lengths, state = _reading(4, weights, [4, 2])
    found, expected = (
        recurrence.run(prepared, inputs, lengths, state)[0],
        run_by_autograd(weights, inputs, lengths, state)[0],
    )
    torch.testing.assert_close(found, expected)


def test_no_rows_are_no_trouble():
    weights = random_layer(2, directions=2, vector=3, cells=4, projected=True)
    empty = torch.empty(2, 2, 0, 3, dtype=torch.float64)
    state = (torch.empty(2, 0, 3).double(), torch.empty(2, 0, 4).double())
    kernel = InferenceLstm(TORCH_INFERENCE_CELL)
    outputs, (h, c) = kernel.run(kernel.prepare(weights, torch.float64), empty, [], state)
    assert (outputs.shape, h.shape, c.shape) == ((2, 2, 0, 3), (2, 0, 3), (2, 0, 4))


@needs_triton
@pytest.mark.parametrize("projected", [True, False])
def test_over_the_triton_kernels_and_captured_it_does_the_same(projected):
    from elmore.nn.triton_inference import TritonInferenceCell

    cells = 6 if projected else 4
    weights = random_layer(5, directions=2, vector=4, cells=cells, projected=projected, clips=Clips(0.9, 0.5))
    moved = [part.float().to(DEVICE) for part in tensors_of(weights)]
    own = LstmTensors(*(moved if projected else [*moved, None]), weights.clips)
    recurrence = InferenceLstm(TritonInferenceCell())
    prepared = recurrence.prepare(own, torch.float32)
    # The second time a size is captured, then replayed; a larger one in between moves the memory.
    several = [[4, 4, 4], [4, 3, 1], [4, 2, 0], [5] * 33, [4, 3, 3], [4, 1, 1]]
    # Interpreted, every row of every step takes its time.
    for number, rows in enumerate([*several, [40, 23, 17, 16], [700, 90]] if DEVICE == "cuda" else several):
        inputs, lengths, state = _reading(number, weights, rows)
        found = recurrence.run(prepared, inputs.float().to(DEVICE), lengths, tuple(s.float().to(DEVICE) for s in state))
        expected = run_by_autograd(weights, inputs, lengths, state)
        for one, other in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
            torch.testing.assert_close(one.cpu().double(), other, rtol=1e-4, atol=1e-5)
    for number in range(4 if DEVICE == "cuda" else 1):
        packed = [[2, 1, 3], [3, 3], [5], [1] * (number + 1)]
        _compare_packed(recurrence, prepared, weights, number, packed, rtol=1e-4, atol=1e-5)


def _reading(seed: int, weights: LstmTensors, lengths: list[int]) -> tuple[Tensor, list[int], tuple[Tensor, Tensor]]:
    inputs, state = random_reading(seed, weights, lengths)
    return inputs, lengths, state


class FakeEvent:
    """Notes the calls, as an event of CUDA would get them."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def wait(self, stream: object) -> None:
        self.calls.append(f"wait in {stream}")

    def record(self, stream: object) -> None:
        self.calls.append(f"record in {stream}")


@pytest.mark.parametrize("error", [None, RuntimeError("CUDA error"), KeyboardInterrupt()])
def test_memory_is_free_for_other_streams_also_after_an_error(error, monkeypatch):
    memory = _GraphBuffers(32, _Sizes(2, 3, 4), torch.zeros(1), torch.zeros(1))
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    monkeypatch.setattr(_GraphBuffers, "_tensors", ())
    memory._free = event = FakeEvent()
    with suppress(RuntimeError, KeyboardInterrupt), memory.in_order():
        assert event.calls == ["wait in stream of cpu"]
        if error is not None:
            raise error
    assert event.calls == ["wait in stream of cpu", "record in stream of cpu"]


class FailingCell:
    """Raises an error in the second step of the first run."""

    def __init__(self) -> None:
        self.steps = 0

    def update(self, *arguments: Any, **options: Any) -> Tensor:
        self.steps += 1
        if self.steps == 2:
            raise RuntimeError("CUDA error")
        return TORCH_INFERENCE_CELL.update(*arguments, **options)

    def write_output(self, *arguments: Any, **options: Any) -> None:
        TORCH_INFERENCE_CELL.write_output(*arguments, **options)


def test_run_after_an_error_in_another_thread_gives_the_same_numbers():
    weights = random_layer(6, directions=2, vector=4, cells=6, projected=True, clips=Clips(0.9, 0.5))
    kernel = InferenceLstm(FailingCell())
    prepared = kernel.prepare(weights, torch.float64)
    lengths = [5, 3]
    inputs, state = random_reading(6, weights, lengths)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(kernel.run, prepared, inputs, lengths, state)
        with pytest.raises(RuntimeError, match="CUDA error"):
            first.result(timeout=60)
        others = [threads.submit(kernel.run, prepared, inputs, lengths, state) for _ in range(4)]
        expected, _ = run_by_autograd(weights, inputs, lengths, state)
        for other in others:
            torch.testing.assert_close(other.result(timeout=60)[0], expected)


@pytest.mark.parametrize("fixed_rows", [None, 7])
def test_run_from_one_row_of_state_starts_every_row_from_it(fixed_rows):
    weights = random_layer(7, directions=2, vector=4, cells=6, projected=True)
    kernel = InferenceLstm(TORCH_INFERENCE_CELL)
    inputs, (h, c) = random_reading(7, weights, [5, 3, 1])
    start = h[:, :1], c[:, :1]
    found, after = kernel.run(kernel.prepare(weights, torch.float64), inputs, [5, 3, 1], start, fixed_rows=fixed_rows)
    expected, after_expected = run_by_autograd(
        weights, inputs, [5, 3, 1], (h[:, :1].expand(-1, 3, -1), c[:, :1].expand(-1, 3, -1))
    )
    for one, other in zip((found, *after), (expected, *after_expected), strict=True):
        torch.testing.assert_close(one, other)
