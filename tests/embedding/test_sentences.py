"""Sentences are strings or lists of words; errors name the position of anything else."""

import numpy as np
import pytest

from elmore import Elmo, Embedder
from elmore.embedding.sentences import words_of
from elmore.errors import InputError


def test_words_of_tokenizes_strings_and_copies_lists(tiny: Embedder) -> None:
    assert words_of("Me too.", tiny.tokenizer) == ["Me", "too", "."]
    for given in (["Me", "too."], ("Me", "too."), np.array(["Me", "too."]), (word for word in ("Me", "too."))):
        assert words_of(given, tiny.tokenizer) == ["Me", "too."]
    assert words_of("", tiny.tokenizer) == words_of([], tiny.tokenizer) == []


@pytest.mark.parametrize(
    ("sentences", "complaint"),
    [
        (["fine", b"bytes"], "sentence 1 is bytes; it must be a string or a list of words"),
        ([None], "sentence 0 is NoneType"),
        (["fine", ["a", 3]], "sentence 1, word 1 is int; it must be a string"),
        ([[["a"]]], "sentence 0, word 0 is list"),
    ],
)
def test_wrong_sentence_is_named_with_its_position(tiny: Embedder, sentences: list, complaint: str) -> None:
    for read in (tiny.encode, tiny.encode_sentences, Elmo(tiny.model)):
        with pytest.raises(InputError, match=complaint):
            read(sentences)


def test_bare_string_is_rejected_as_list_of_sentences(tiny: Embedder) -> None:
    elmo = Elmo(tiny.model)
    for read in (tiny.encode_iter, tiny.encode_sentences, elmo, elmo.batch):
        with pytest.raises(InputError, match=r"list|many sentences"):
            read("I took a bow.")
