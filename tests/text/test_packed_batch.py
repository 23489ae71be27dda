"""Packed rows hold every sentence once, whole, in both directions, and end at about the same time."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.text.packed_batch import PackedBatch, pack

CPU = torch.device("cpu")
some_lengths = st.lists(st.integers(0, 60), max_size=50)


@given(lengths=some_lengths, rows=st.integers(1, 20))
def test_every_sentence_stands_in_one_row_beside_no_other(lengths, rows):
    own = np.array(lengths, dtype=np.int64) + 2
    packing = pack(own, rows)
    assert len(packing.row_lengths) == min(rows, len(lengths))
    assert np.all(np.diff(packing.row_lengths) <= 0)
    for row, length in enumerate(packing.row_lengths):
        spans = sorted(zip(packing.offsets[packing.rows == row], own[packing.rows == row], strict=True))
        ends = [0, *(int(first + size) for first, size in spans)]
        assert [int(first) for first, _ in spans] == ends[:-1]
        assert ends[-1] == length


def test_rows_of_real_lengths_end_at_about_the_same_time():
    lengths = np.random.default_rng(1).lognormal(3.2, 0.6, size=5000).astype(np.int64) + 2
    packing = pack(lengths, 64)
    assert packing.row_lengths[-1] > 0.97 * packing.row_lengths[0]


@given(lengths=some_lengths, rows=st.integers(1, 9))
def test_words_stand_where_they_are_looked_for_and_starts_before_them(lengths, rows):
    count = sum(lengths)
    numbers = torch.arange(2, count + 2)
    counts = np.array(lengths, dtype=np.int64)
    batch = PackedBatch.of(numbers, counts, boundaries=(0, 1), rows=rows, device=CPU)
    ends = np.cumsum(lengths) if lengths else []
    for direction in ("forward", "backward"):
        words, starts = batch.words_and_starts(direction)
        places = batch.places(direction)
        assert torch.equal(words.flatten()[places], numbers)
        assert starts.sum() == len(lengths)
        step = 1 if direction == "forward" else -1
        opening, closing = (0, 1) if direction == "forward" else (1, 0)
        for row in range(len(batch.row_lengths)):
            read = words[: batch.row_lengths[row], row].tolist()
            begins = [at for at in range(len(read)) if starts[at, row]]
            for first, last in zip(begins, [*begins[1:], len(read)], strict=True):
                own = read[first:last]
                assert (own[0], own[-1]) == (opening, closing)
                inner = own[1:-1][::step]
                if inner:
                    sentence = int(np.searchsorted(ends, inner[-1] - 2, side="right"))
                    assert inner == list(range(int(ends[sentence]) - lengths[sentence] + 2, int(ends[sentence]) + 2))
