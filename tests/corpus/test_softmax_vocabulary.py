"""A vocabulary is the most frequent words, or a file that is fit for it."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from elmore.corpus.softmax_vocabulary import most_frequent, read_softmax_vocabulary, warn_about_mismatch
from elmore.errors import InputError, InputWarning
from elmore.text.vocabulary import Vocabulary


@pytest.fixture
def vocab(tmp_path: Path):
    def written(*words: str) -> Path:
        path = tmp_path / "vocab.txt"
        path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
        return path

    return written


def test_the_size_counts_the_marks_and_words_only_held_out_are_no_classes():
    types = ["<S>", "</S>", "a", "<UNK>", "b", "c", "held"]
    counts = np.array([9, 0, 5, 4, 3, 1, 0])
    assert most_frequent(types, counts, size=5).words == ("<S>", "</S>", "<UNK>", "a", "b")
    assert most_frequent(types, counts, size=99).words == ("<S>", "</S>", "<UNK>", "a", "b", "c")


def test_a_counted_vocabulary_survives_its_file():
    types = ["<S>", "</S>", "\u00a0", "10\u00a0000", "x\u2028", "!!!MAXTERMID", "a"]
    vocabulary = most_frequent(types, np.full(len(types), 1), size=99)
    assert vocabulary.words == ("<S>", "</S>", "<UNK>", "10\u00a0000", "a")
    assert Vocabulary.decode("".join(f"{word}\n" for word in vocabulary.words).encode()) == vocabulary


def test_a_file_is_taken_as_it_is(vocab):
    assert read_softmax_vocabulary(vocab("<UNK>", "b", "</S>", "a", "<S>")).words == ("<UNK>", "b", "</S>", "a", "<S>")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("<S>", "a"), r"vocab\.txt: </S>, <UNK> is missing"),
        (("<S>", "</S>", "<UNK>", "a", "b", "a", "b", "a"), r"vocab\.txt: a, b occurs twice"),
        (("<S>", "</S>", "<UNK>", "", "b"), r"vocab\.txt: word 3 .* is a blank line"),
    ],
)
def test_an_unfit_file_is_refused_with_a_reason(vocab, words, complaint):
    with pytest.raises(InputError, match=complaint):
        read_softmax_vocabulary(vocab(*words))


WORDS = [f"w{number:03}" for number in range(300)]
ZIPF = np.array([600, 0, *(3000 // (1 + number) for number in range(300))])  # of <S>, </S> and the words in turn
TYPES = ["<S>", "</S>", *WORDS]


def complaints(words: list[str], counts: np.ndarray = ZIPF) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_about_mismatch(Vocabulary(["<S>", "</S>", "<UNK>", *words]), TYPES, counts, where="vocab.txt")
    assert all(warning.category is InputWarning for warning in caught)
    return [str(warning.message) for warning in caught]


def test_a_vocabulary_in_another_order_than_by_frequency_is_told():
    shuffled = [WORDS[number] for number in np.random.default_rng(0).permutation(300)]
    assert ["decreasing frequency" in complaint for complaint in complaints(shuffled)] == [True]
    assert ["decreasing frequency" in complaint for complaint in complaints(WORDS[::-1])] == [True]


def test_a_vocabulary_counted_on_other_text_raises_no_alarm():
    assert complaints(WORDS) == []
    noise = np.random.default_rng(0).lognormal(sigma=1.0, size=300)
    other = [WORDS[number] for number in np.argsort(-ZIPF[2:] * noise)]
    assert complaints(other) == []
    assert complaints([*WORDS[20:40], *WORDS[:20]], np.where(np.arange(302) < 42, ZIPF, 0)) == []


def test_a_vocabulary_of_other_words_is_told():
    assert complaints([word.upper() for word in WORDS])[0].startswith("vocab.txt: lacks 100% of the words")
