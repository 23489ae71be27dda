"""What may be given as a sentence, and what is said of anything else."""

import numpy as np
import pytest

from elmore import Elmo, Embedder
from elmore.embedding.sentences import words_of
from elmore.errors import InputError


def test_strings_are_tokenised_and_lists_taken_as_they_are(tiny: Embedder) -> None:
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
def test_anything_else_is_named_with_its_place(tiny: Embedder, sentences: list, complaint: str) -> None:
    for read in (tiny.encode, tiny.encode_sentences, Elmo(tiny.model)):
        with pytest.raises(InputError, match=complaint):
            read(sentences)


def test_a_bare_string_is_no_list_of_sentences(tiny: Embedder) -> None:
    elmo = Elmo(tiny.model)
    for read in (tiny.encode_iter, tiny.encode_sentences, elmo, elmo.batch):
        with pytest.raises(InputError, match=r"list|many sentences"):
            read("I took a bow.")
