"""A batch holds each distinct word once, and leads back to the caller's sentences."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.config import SMALL
from elmore.text.batch import Batch, bucket_by_length
from elmore.text.spelling import Speller
from reference.strategies import patiently, sentences

SPELLER = Speller(SMALL)
batches = st.lists(sentences, max_size=6)


def sentence(batch: Batch, number: int) -> list[str]:
    """The caller's sentence of this number, read back out of the batch."""
    row = int(batch.unsorted_indices[number])
    return [batch.words[position] for position in batch.word_indices[row, : batch.lengths[row]].tolist()]


@patiently
@given(batches)
def test_every_sentence_can_be_read_back_between_its_boundaries(texts: list[list[str]]) -> None:
    batch = Batch.of(texts, SPELLER)
    assert len(batch) == len(texts)
    assert [sentence(batch, number) for number in range(len(texts))] == [["<S>", *text, "</S>"] for text in texts]


@patiently
@given(batches)
def test_each_distinct_word_stands_once(texts: list[list[str]]) -> None:
    batch = Batch.of(texts, SPELLER)
    assert len(set(batch.words)) == len(batch.words)
    assert set(batch.words) == {"<S>", "</S>"}.union(*texts)
    spelt = SPELLER.spell(batch.words).character_ids
    assert batch.inputs.character_ids is not None
    assert spelt is not None
    assert torch.equal(batch.inputs.character_ids, spelt)


@patiently
@given(batches)
def test_rows_stand_longest_first_and_equal_ones_in_the_callers_order(texts: list[list[str]]) -> None:
    batch = Batch.of(texts, SPELLER)
    assert batch.sorted_indices.tolist() == sorted(range(len(texts)), key=lambda number: -len(texts[number]))
    assert list(batch.lengths) == [len(texts[number]) + 2 for number in batch.sorted_indices.tolist()]


@patiently
@given(batches)
def test_order_and_restore_undo_each_other(texts: list[list[str]]) -> None:
    batch = Batch.of(texts, SPELLER)
    assert batch.sorted_indices[batch.unsorted_indices].tolist() == list(range(len(texts)))
    assert batch.unsorted_indices[batch.sorted_indices].tolist() == list(range(len(texts)))


@patiently
@given(batches)
def test_positions_beyond_the_end_of_a_sentence_are_zero(texts: list[list[str]]) -> None:
    batch = Batch.of(texts, SPELLER)
    assert batch.word_indices.shape == (len(texts), max((len(text) for text in texts), default=0) + 2)
    for row, length in zip(batch.word_indices, batch.lengths, strict=True):
        assert not row[length:].any()


def test_the_literal_boundary_words_are_the_boundaries() -> None:
    batch = Batch.of([["<S>", "a", "</S>"]], SPELLER)
    assert batch.words == ("<S>", "</S>", "a")
    assert batch.word_indices.tolist() == [[0, 0, 2, 1, 1]]


def test_an_empty_sentence_has_its_boundaries() -> None:
    batch = Batch.of([[]], SPELLER)
    assert (batch.word_indices.tolist(), batch.lengths) == ([[0, 1]], (2,))


def test_no_sentences_are_a_batch_as_wide_as_an_empty_sentence() -> None:
    batch = Batch.of([], SPELLER)
    assert (len(batch), batch.lengths, batch.word_indices.shape) == (0, (), (0, 2))
    assert (batch.word_indices.dtype, batch.sorted_indices.dtype) == (torch.int64, torch.int64)


def test_a_sentence_may_be_any_sequence() -> None:
    assert (
        Batch.of([("a", "b")], SPELLER).word_indices.tolist() == Batch.of([["a", "b"]], SPELLER).word_indices.tolist()
    )


def test_rows_of_numbers_are_arranged_like_sentences() -> None:
    inputs = SPELLER.spell(["<S>", "</S>", "a", "b"])
    batch = Batch.of_rows([[0, 2, 1], [0, 3, 3, 1]], inputs)
    assert batch.word_indices.tolist() == [[0, 3, 3, 1], [0, 2, 1, 0]]
    assert (batch.sorted_indices.tolist(), batch.lengths, batch.words) == ([1, 0], (4, 3), ())


def test_a_batch_can_be_moved() -> None:
    batch = Batch.of([["a"]], SPELLER).to("meta")
    assert batch.word_indices.device.type == batch.sorted_indices.device.type == "meta"
    assert batch.inputs.character_ids is not None
    assert batch.inputs.character_ids.device.type == "meta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="memory is pinned for a GPU, and there is none")
def test_a_batch_can_be_pinned() -> None:
    batch = Batch.of([["a"]], SPELLER).pin_memory()
    assert batch.word_indices.is_pinned()
    assert batch.inputs.character_ids is not None
    assert batch.inputs.character_ids.is_pinned()


lengths = st.lists(st.integers(2, 40), max_size=30)


@patiently
@given(lengths, st.integers(1, 100), st.none() | st.integers(1, 5))
def test_a_plan_holds_every_sentence_once(sizes: list[int], tokens: int, rows: int | None) -> None:
    numbers = [number for batch in bucket_by_length(sizes, tokens=tokens, rows=rows) for number in batch]
    assert sorted(numbers) == list(range(len(sizes)))


@patiently
@given(lengths, st.integers(1, 100), st.none() | st.integers(1, 5))
def test_a_plan_keeps_to_its_budget_unless_one_sentence_alone_exceeds_it(
    sizes: list[int], tokens: int, rows: int | None
) -> None:
    for batch in bucket_by_length(sizes, tokens=tokens, rows=rows):
        assert len(batch) == 1 or len(batch) * max(sizes[number] for number in batch) <= tokens
        assert rows is None or len(batch) <= rows


@patiently
@given(lengths, st.integers(1, 100))
def test_a_plan_goes_from_long_to_short_and_opens_no_batch_without_need(sizes: list[int], tokens: int) -> None:
    batches = bucket_by_length(sizes, tokens=tokens)
    in_order = [sizes[number] for batch in batches for number in batch]
    assert in_order == sorted(sizes, reverse=True)
    for batch in batches[:-1]:
        assert (len(batch) + 1) * sizes[batch[0]] > tokens


def test_no_sentences_need_no_batches() -> None:
    assert bucket_by_length([], tokens=10) == []
