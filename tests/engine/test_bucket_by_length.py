"""`bucket_by_length` of `engine/rows.py`."""

from hypothesis import given
from hypothesis import strategies as st

from elmore.engine.rows import bucket_by_length

LENGTHS = st.lists(st.integers(2, 40), max_size=30)


@given(LENGTHS, st.integers(1, 100), st.none() | st.integers(1, 5))
def test_bucket_by_length_returns_each_sentence_once(sizes: list[int], tokens: int, rows: int | None) -> None:
    numbers = [number for batch in bucket_by_length(sizes, tokens=tokens, rows=rows) for number in batch]
    assert sorted(numbers) == list(range(len(sizes)))


@given(LENGTHS, st.integers(1, 100), st.none() | st.integers(1, 5))
def test_bucket_by_length_respects_limits_except_for_single_sentences(
    sizes: list[int], tokens: int, rows: int | None
) -> None:
    for batch in bucket_by_length(sizes, tokens=tokens, rows=rows):
        assert len(batch) == 1 or len(batch) * max(sizes[number] for number in batch) <= tokens
        assert rows is None or len(batch) <= rows


@given(LENGTHS, st.integers(1, 100))
def test_bucket_by_length_fills_batches_longest_first(sizes: list[int], tokens: int) -> None:
    batches = bucket_by_length(sizes, tokens=tokens)
    in_order = [sizes[number] for batch in batches for number in batch]
    assert in_order == sorted(sizes, reverse=True)
    for batch in batches[:-1]:
        assert (len(batch) + 1) * sizes[batch[0]] > tokens


def test_bucket_by_length_without_sentences_returns_no_batches() -> None:
    assert bucket_by_length([], tokens=10) == []
