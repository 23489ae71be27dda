from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmore.compat.allennlp.character_ids import (
    NO_CHARACTER,
    add_boundaries,
    batch_to_ids,
    distinct_words,
    index_word_ids,
    index_words,
)
from elmore.config import ModelConfig
from elmore.errors import InputError
from elmore.text.word_ids import ByteAlphabet, WordIndexer

INDEXER = WordIndexer(ModelConfig())
BOUNDARIES = ByteAlphabet(50).index(["<S>", "</S>"])

words = st.lists(st.sampled_from(["a", "b", "<S>", "</S>", "", "Déjà", "東京", "x" * 60]), max_size=5)


def ids_of(sentences: list[list[str]]) -> NDArray[np.int64]:
    ids: NDArray[np.int64] = batch_to_ids(sentences).numpy()
    return ids


def test_batch_to_ids_equals_allennlp(mixes: dict[str, NDArray[Any]], mixes_sentences: list[list[str]]) -> None:
    np.testing.assert_array_equal(ids_of(mixes_sentences), mixes["char_ids"])


def test_batch_to_ids_of_boundary_words_has_boundary_characters() -> None:
    ids = ids_of([["<S>", "</S>", "<s>"]])
    assert ids[0, :, :4].tolist() == [[259, 257, 260, 261], [259, 258, 260, 261], [259, 61, 116, 63]]


def test_batch_to_ids_of_empty_sentences_is_padding() -> None:
    assert ids_of([[], ["a"]])[0].tolist() == [[0] * 50]
    assert batch_to_ids([[]]).shape == (1, 0, 50)


@pytest.mark.parametrize("batch", ["I took a bow", ["I took a bow"], [["I"], "took a bow"]])
def test_batch_to_ids_rejects_a_string_in_place_of_a_list(batch: Any) -> None:
    with pytest.raises(InputError, match=r"string .*took a bow"):
        batch_to_ids(batch)


def test_batch_to_ids_names_a_word_that_is_no_string() -> None:
    with pytest.raises(InputError, match="sentence 1, word 2 is int"):
        batch_to_ids([["a"], ["b", "c", 3]])  # type: ignore[list-item]


@given(st.lists(words, min_size=1, max_size=4))
def test_index_words_returns_the_characters_of_each_word(sentences: list[list[str]]) -> None:
    indexed = index_words(ids_of(sentences), boundaries=BOUNDARIES)
    assert indexed.lengths.tolist() == [len(sentence) for sentence in sentences]
    expected = INDEXER.index([word for sentence in sentences for word in sentence], trimmed=False).character_ids
    assert expected is not None
    assert np.array_equal(indexed.characters[indexed.numbers], expected)
    assert np.array_equal(indexed.characters[:2], BOUNDARIES)


def test_index_words_returns_each_distinct_word_once() -> None:
    indexed = index_words(ids_of([["a", "b", "a"], ["b"]]), boundaries=BOUNDARIES)
    assert len(indexed.characters) == 4  # two words and two boundaries
    assert len(set(indexed.numbers.tolist())) == 2


def test_distinct_words_marks_ids_of_0_inside_a_word() -> None:
    characters, rows = distinct_words(np.array([[5, 0, 7], [5, 0, 7]]))
    assert characters.tolist() == [[4, NO_CHARACTER, 6]]
    assert rows.tolist() == [0, 0]


def test_add_boundaries_surrounds_each_sentence() -> None:
    ids, mask = add_boundaries(ids_of([["a", "b"], []]), boundaries=BOUNDARIES)
    begin, end = (BOUNDARIES + 1).tolist()
    a, b = ids_of([["a", "b"]])[0].tolist()
    assert ids.tolist() == [[begin, a, b, end], [begin, end, [0] * 50, [0] * 50]]
    assert mask.tolist() == [[True] * 4, [True, True, False, False]]


def test_index_word_ids_returns_each_distinct_id_once() -> None:
    indexed, distinct = index_word_ids(np.array([[7, 3, 0], [7, 7, 9]]))
    assert distinct.tolist() == [3, 7, 9]
    assert indexed.numbers.tolist() == [3, 2, 3, 3, 4]
    assert indexed.lengths.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.zeros((2, 3, 12), dtype=np.int64), r"shape \(2, 3, 12\).* reads \(sentences, words, 50\)"),
        (np.zeros((3, 50), dtype=np.int64), r"shape \(3, 50\)"),
        (np.full((1, 1, 50), 262), "from 0 to 261"),
        (np.full((1, 1, 50), -1), "from 0 to 261"),
        (np.zeros((1, 1, 50)), "whole numbers"),
        (np.zeros((1, 1, 50), dtype=bool), "whole numbers"),
        (ids_of([["a", "b"]]) * np.array([[[0], [1]]]), "padding is before or between words"),
    ],
)
def test_index_words_rejects_wrong_ids(ids: NDArray[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        index_words(ids, boundaries=BOUNDARIES)
