"""Sentences packed into rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.config import Direction
from elmore.engine.rows import PackedRows, pack_rows

some_lengths = st.lists(st.integers(0, 12), min_size=1, max_size=30)
OPENING, CLOSING = 100, 101


def packed(lengths: list[int], rows: int) -> PackedRows:
    words = np.arange(sum(lengths), dtype=np.int64)
    return PackedRows.pack(words, np.array(lengths, np.int64), boundaries=(OPENING, CLOSING), rows=rows)


@given(some_lengths, st.integers(1, 8))
def test_pack_rows_places_each_sentence_without_overlap(lengths: list[int], rows: int) -> None:
    sizes = np.array(lengths, np.int64) + 2
    packing = pack_rows(sizes, rows)
    assert len(packing.row_lengths) == min(rows, len(lengths))
    assert (np.diff(packing.row_lengths) <= 0).all()
    taken: set[tuple[int, int]] = set()
    for row, offset, size in zip(packing.rows, packing.offsets, sizes, strict=True):
        steps = {(int(row), int(step)) for step in range(offset, offset + size)}
        assert not steps & taken
        assert offset + size <= packing.row_lengths[row]
        taken |= steps
    assert len(taken) == packing.row_lengths.sum()  # no gaps


def test_pack_rows_ends_rows_at_about_same_step() -> None:
    lengths = np.random.default_rng(0).geometric(1 / 25, 2000)
    packing = pack_rows(lengths, 64)
    assert packing.row_lengths.max() <= 1.1 * lengths.sum() / 64


@given(some_lengths, st.integers(1, 8))
def test_steps_read_each_sentence_between_boundaries_in_both_directions(lengths: list[int], rows: int) -> None:
    batch = packed(lengths, rows)
    steps = batch.steps(("forward", "backward"))
    assert steps.starts is not None
    first = np.cumsum(lengths) - lengths
    for number, length in enumerate(lengths):
        expected = [OPENING, *range(first[number], first[number] + length), CLOSING]
        row, offset = batch.packing.rows[number], batch.packing.offsets[number]
        forward = steps.words[0, offset : offset + length + 2, row]
        assert forward.tolist() == expected
        last = batch.packing.row_lengths[row] - 1 - offset
        backward = steps.words[1, last - length - 1 : last + 1, row]
        assert backward.tolist() == expected[::-1]
        assert steps.starts[0, offset, row] == 1
        assert steps.starts[1, last - length - 1, row] == 1
    assert steps.starts.sum() == 2 * len(lengths)


@given(some_lengths, st.integers(1, 8), st.sampled_from(["forward", "backward"]), st.booleans())
def test_positions_lead_to_words(lengths: list[int], rows: int, direction: Direction, boundaries: bool) -> None:
    batch = packed(lengths, rows)
    words = batch.steps((direction,)).words[0].reshape(-1)[batch.positions(direction, boundaries=boundaries)]
    assert np.array_equal(words, batch.words_with_boundaries() if boundaries else batch.words)


@given(some_lengths)
def test_one_per_row_never_starts_again(lengths: list[int]) -> None:
    words = np.arange(sum(lengths), dtype=np.int64)
    batch = PackedRows.one_per_row(words, np.array(lengths, np.int64), boundaries=(OPENING, CLOSING))
    steps = batch.steps(("forward",))
    assert steps.starts is None
    assert batch.num_rows == len(lengths)
    assert sorted(steps.lengths.tolist(), reverse=True) == steps.lengths.tolist()
    assert steps.lengths[batch.packing.rows].tolist() == [length + 2 for length in lengths]


@pytest.mark.parametrize("rows", [1, 3])
def test_pack_accepts_no_sentences(rows: int) -> None:
    batch = packed([], rows)
    assert (batch.num_rows, batch.num_steps) == (0, 0)
