from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmore.compat.allennlp.character_ids import batch_of_ids, batch_of_words, batch_to_ids
from elmore.config import ModelConfig
from elmore.errors import InputError
from elmore.text.batch import Batch
from elmore.text.spelling import ByteAlphabet, Speller

SPELLER = Speller(ModelConfig())
BOUNDARIES = ByteAlphabet(50).spell(["<S>", "</S>"])

words = st.lists(st.sampled_from(["a", "b", "<S>", "</S>", "", "Déjà", "東京", "x" * 60]), max_size=5)


def test_ids_are_those_of_allennlp(mixes: dict[str, NDArray[Any]], mixes_sentences: list[list[str]]) -> None:
    np.testing.assert_array_equal(batch_to_ids(mixes_sentences).numpy(), mixes["char_ids"])


def test_a_boundary_in_the_text_has_the_ids_of_a_boundary() -> None:
    ids = batch_to_ids([["<S>", "</S>", "<s>"]])
    assert ids[0, :, :4].tolist() == [[259, 257, 260, 261], [259, 258, 260, 261], [259, 61, 116, 63]]


def test_an_empty_sentence_is_all_padding() -> None:
    assert batch_to_ids([[], ["a"]])[0].tolist() == [[0] * 50]
    assert batch_to_ids([[]]).shape == (1, 0, 50)


@pytest.mark.parametrize("batch", ["I took a bow", ["I took a bow"], [["I"], "took a bow"]])
def test_a_string_is_not_taken_for_a_list_of_words(batch: Any) -> None:
    with pytest.raises(InputError, match=r"string .*took a bow"):
        batch_to_ids(batch)


def test_a_word_that_is_no_string_is_named() -> None:
    with pytest.raises(InputError, match="sentence 1, word 2 is int"):
        batch_to_ids([["a"], ["b", "c", 3]])  # type: ignore[list-item]


@given(st.lists(words, min_size=1, max_size=4))
def test_ids_make_the_same_batch_as_the_words_themselves(sentences: list[list[str]]) -> None:
    from_ids = batch_of_ids(batch_to_ids(sentences), boundaries=_boundaries())
    from_words = Batch.of(sentences, SPELLER)
    assert from_ids.lengths == from_words.lengths
    assert from_ids.sorted_indices.tolist() == from_words.sorted_indices.tolist()
    for row, length in enumerate(from_ids.lengths):
        # The words themselves are spelt no wider than the longest of them needs; the rest is padding.
        narrow, wide = _spelt(from_words, row, length), _spelt(from_ids, row, length)
        assert torch.equal(wide[:, : narrow.shape[1]], narrow)
        assert (wide[:, narrow.shape[1] :] == ByteAlphabet.PADDING).all()


def test_a_word_that_stands_twice_is_encoded_once() -> None:
    batch = batch_of_ids(batch_to_ids([["a", "b", "a"], ["b"]]), boundaries=_boundaries())
    assert batch.inputs.character_ids is not None
    assert len(batch.inputs.character_ids) == 4  # two words, two boundaries


def test_word_ids_are_counted_once_each() -> None:
    batch, distinct = batch_of_words(torch.tensor([[7, 3, 0], [7, 7, 9]]))
    assert distinct.tolist() == [3, 7, 9]
    assert batch.word_indices[batch.unsorted_indices].tolist() == [[0, 3, 2, 1, 0], [0, 3, 3, 4, 1]]


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        (torch.zeros(2, 3, 12, dtype=torch.int64), r"shape \(2, 3, 12\).* reads \(sentences, words, 50\)"),
        (torch.zeros(3, 50, dtype=torch.int64), r"shape \(3, 50\)"),
        (torch.full((1, 1, 50), 262), "from 0 to 261"),
        (torch.full((1, 1, 50), -1), "from 0 to 261"),
        (torch.zeros(1, 1, 50), "whole numbers"),
        (batch_to_ids([["a", "b"]]) * torch.tensor([[[0], [1]]]), "padding stands before or between words"),
    ],
)
def test_wrong_ids_are_told_apart(ids: torch.Tensor, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        batch_of_ids(ids, boundaries=_boundaries())


def _boundaries() -> torch.Tensor:
    return BOUNDARIES


def _spelt(batch: Batch, row: int, length: int) -> torch.Tensor:
    assert batch.inputs.character_ids is not None
    return batch.inputs.character_ids[batch.word_indices[row, :length]]
