"""The held-out documents are a fair sample, the same for the same seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.corpus.heldout import choose_heldout, split_heldout
from elmore.corpus.numbering import DOCUMENT


def test_the_share_is_met_and_seeds_choose_independently():
    first, second = (choose_heldout(200_000, share=0.1, seed=seed) for seed in (1, 2))
    assert first.mean() == pytest.approx(0.1, abs=0.003)  # 4.5 standard deviations
    assert (first & second).mean() == pytest.approx(0.01, abs=0.001)
    assert (first[1:] & first[:-1]).mean() == pytest.approx(0.01, abs=0.001)


def test_more_documents_leave_the_choice_among_the_first_as_it_was():
    np.testing.assert_array_equal(
        choose_heldout(1000, share=0.1, seed=7), choose_heldout(5000, share=0.1, seed=7)[:1000]
    )


@given(st.integers(2, 50), st.floats(0, 1, exclude_min=True, exclude_max=True), st.integers())
def test_either_part_has_a_document_where_there_are_two(documents, share, seed):
    is_heldout = choose_heldout(documents, share=share, seed=seed)
    assert 0 < is_heldout.sum() < documents


def test_nothing_is_held_out_of_one_document_or_if_none_is_wanted():
    assert not choose_heldout(1, share=0.005, seed=1).any()
    assert not choose_heldout(100, share=0.0, seed=1).any()


@given(
    st.lists(st.tuples(st.booleans(), st.lists(st.integers(2, 9), min_size=1, max_size=4)), min_size=1),
    st.integers(1, 9),
)
def test_a_stream_is_parted_alike_wherever_its_pieces_end(documents, size):
    stream = np.array([n for _, words in documents for n in (DOCUMENT, *words, 0)], dtype=np.uint32)
    pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
    parts = list(split_heldout(pieces, np.array([is_heldout for is_heldout, _ in documents])))
    for part, wanted in (("train", False), ("heldout", True)):
        expected = [n for is_heldout, words in documents if is_heldout is wanted for n in (*words, 0)]
        assert np.concatenate([getattr(piece, part) for piece in parts]).tolist() == expected
