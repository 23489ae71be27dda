"""The native recurrence against the reference, and against itself: the same bits however a row is read."""

import os
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.kernels import reference
from elmore.kernels.native_library import Number, native_obstacle
from elmore.kernels.native_recurrence import native_recurrence
from elmore.kernels.recurrence import Clips, HiddenState, LstmWeights
from random_lstm import random_layer, random_reading
from reference.strategies import clips, patiently, seeds

pytestmark = pytest.mark.skipif(
    native_obstacle(Number.FLOAT32) is not None, reason=f"native kernels: {native_obstacle(Number.FLOAT32)}"
)

NUMBERS = [number for number in Number if native_obstacle(number) is None]
# Vectors and cells on both sides of whole vectors, panels, and blocks of cells.
SHAPES = [(1, 1), (3, 5), (8, 16), (17, 33), (64, 256), (70, 300), (130, 520)]

lengths_of_rows = st.lists(st.integers(0, 9), min_size=1, max_size=30).map(lambda some: sorted(some, reverse=True))


def small_layer(seed: int, shape: tuple[int, int], *, directions: int, projected: bool, clips: Clips) -> LstmWeights:
    """Random weights in float32, scaled as trained ones are: sums of about 1."""
    vector, cells = shape if projected else (shape[0], shape[0])
    drawn = random_layer(seed, directions=directions, vector=vector, cells=cells, projected=projected, clips=clips)
    matrices = [part.float() / part.shape[1] ** 0.5 for part in (drawn.input, drawn.recurrent)]
    projection = None if drawn.projection is None else drawn.projection.float() / cells**0.5
    return LstmWeights(*matrices, drawn.bias.float(), projection, clips)


def reading_of(seed: int, weights: LstmWeights, lengths: Sequence[int]) -> tuple[Tensor, HiddenState]:
    inputs, (h, c) = random_reading(seed, weights, [max(lengths[0], 1), *lengths[1:]])
    return inputs.float(), (h.float(), c.float())


def read(
    weights: LstmWeights,
    inputs: Tensor,
    lengths: Sequence[int],
    state: HiddenState,
    *,
    number: Number = Number.FLOAT32,
    threads: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        recurrence = native_recurrence(number)
        outputs, after = recurrence.run(recurrence.prepare(weights, torch.float32), inputs, lengths, state)
        return outputs, *after
    finally:
        torch.set_num_threads(before)


def all_equal(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(some, others, strict=True))


@patiently
@given(
    seeds, lengths_of_rows, st.integers(1, 2), st.sampled_from(SHAPES), st.booleans(), st.builds(Clips, clips, clips),
    st.integers(1, 3),
)  # fmt: skip
def test_it_gives_what_the_reference_gives(
    seed: int, lengths: list[int], directions: int, shape: tuple[int, int], projected: bool, clips: Clips, threads: int
) -> None:
    weights = small_layer(seed, shape, directions=directions, projected=projected, clips=clips)
    inputs, state = reading_of(seed, weights, lengths)
    expected, after = reference.recur(weights, inputs, lengths, state)
    found = read(weights, inputs, lengths, state, threads=threads)
    for one, other in zip(found, (expected, *after), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_the_same_bits_alone_in_any_batch_and_with_any_number_of_threads(
    number: Number, shape: tuple[int, int]
) -> None:
    weights = small_layer(1, shape, directions=2, projected=True, clips=Clips(3.0, 3.0))
    lengths = sorted([0, 1, 2, *range(5, 40), *[40] * 60], reverse=True)
    inputs, state = reading_of(1, weights, lengths)
    together = read(weights, inputs, lengths, state, number=number)
    for threads in (2, 3, 5):
        assert all_equal(together, read(weights, inputs, lengths, state, number=number, threads=threads))
    for rows in ([0], [30], [len(lengths) - 2], [2, 61, 62, 90], list(range(7)), list(range(40, len(lengths)))):
        own_state = (state[0][:, rows], state[1][:, rows])
        own_lengths = [lengths[row] for row in rows]
        for threads in (1, 4):
            own = read(weights, inputs[:, :, rows], own_lengths, own_state, number=number, threads=threads)
            picked = (together[0][:, :, rows], together[1][:, rows], together[2][:, rows])
            assert all_equal(own, picked), rows


@pytest.mark.parametrize("number", NUMBERS)
def test_large_layers_read_by_all_threads_together_have_the_same_bits(number: Number) -> None:
    weights = small_layer(2, (320, 2600), directions=2, projected=True, clips=Clips(3.0, 3.0))
    inputs, state = reading_of(2, weights, [5, 3])
    alone = read(weights, inputs, [5, 3], state, number=number)
    for threads in (2, 3):
        assert all_equal(alone, read(weights, inputs, [5, 3], state, number=number, threads=threads))


@patiently
@given(seeds, lengths_of_rows, st.sampled_from(SHAPES), st.booleans(), st.sampled_from(NUMBERS))
def test_rounded_numbers_stay_close_to_the_reference(
    seed: int, lengths: list[int], shape: tuple[int, int], projected: bool, number: Number
) -> None:
    weights = small_layer(seed, shape, directions=2, projected=projected, clips=Clips(3.0, 3.0))
    inputs, state = reading_of(seed, weights, lengths)
    expected, after = reference.recur(weights, inputs, lengths, state)
    found = read(weights, inputs, lengths, state, number=number)
    # Values of about 1, of which bfloat16 keeps 8 bits and int8 steps of a 127th of a row's largest.
    largest = {Number.FLOAT32: 1e-5, Number.BFLOAT16: 0.1, Number.INT8: 0.2}[number]
    for one, other in zip(found, (expected, *after), strict=True):
        assert (one - other).abs().max() < largest


def test_what_lies_beyond_the_end_of_a_row_is_never_read() -> None:
    weights = small_layer(3, (17, 33), directions=2, projected=True, clips=Clips(None, None))
    lengths = [6, 4, 1, 0]
    inputs, state = reading_of(3, weights, lengths)
    found = read(weights, inputs, lengths, state)
    for row, length in enumerate(lengths):
        inputs[:, length:, row] = float("nan")
    assert all_equal(found, read(weights, inputs, lengths, state))
    assert not found[0][:, 4:, 1].any()


@pytest.mark.parametrize("number", NUMBERS)
def test_what_is_not_a_number_stays_none(number: Number) -> None:
    weights = small_layer(4, (8, 16), directions=1, projected=True, clips=Clips(3.0, 3.0))
    inputs, state = reading_of(4, weights, [3, 3])
    inputs[:, 1, 0] = float("nan")
    outputs, *_ = read(weights, inputs, [3, 3], state, number=number)
    assert outputs[0, 1:, 0].isnan().all()
    assert outputs[0, :, 1].isfinite().all()


def test_a_batch_without_rows_is_read_like_any_other() -> None:
    weights = small_layer(5, (3, 5), directions=2, projected=True, clips=Clips(3.0, 3.0))
    outputs, h, c = read(weights, torch.zeros(2, 2, 0, 3), [], (torch.zeros(2, 0, 3), torch.zeros(2, 0, 5)))
    assert (outputs.shape, h.shape, c.shape) == ((2, 2, 0, 3), (2, 0, 3), (2, 0, 5))


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_forked_process_has_threads_of_its_own() -> None:
    weights = small_layer(6, (17, 33), directions=2, projected=True, clips=Clips(3.0, 3.0))
    inputs, state = reading_of(6, weights, [4, 2])
    recurrence = native_recurrence(Number.FLOAT32)
    prepared = recurrence.prepare(weights, torch.float32)
    expected, _ = recurrence.run(prepared, inputs, [4, 2], state)
    if (child := os.fork()) == 0:
        found, _ = recurrence.run(prepared, inputs, [4, 2], state)
        os._exit(0 if torch.equal(found, expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
