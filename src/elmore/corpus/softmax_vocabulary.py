"""The words that a language model can predict: the most frequent words of the corpus, or those of a file."""

import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmore.corpus.corpus import BEGIN, END, UNKNOWN
from elmore.display import join_names
from elmore.errors import InputError, InputWarning, error_context
from elmore.text.vocabulary import Vocabulary

SPECIAL_WORDS = (BEGIN, END, UNKNOWN)


def most_frequent(types: Sequence[str], counts: NDArray[np.int64], *, size: int) -> Vocabulary:
    """The three marks and the first types that occur in training; `types` are sorted by decreasing count.

    >>> most_frequent(["<S>", "</S>", "the", "cat", "held"], np.array([3, 0, 5, 1, 0]), size=5).words
    ('<S>', '</S>', '<UNK>', 'the', 'cat')
    """
    counted = (word for word, count in zip(types, counts, strict=True) if count)
    words = (word for word in counted if word not in SPECIAL_WORDS and fits_vocabulary_file(word))
    return Vocabulary([*SPECIAL_WORDS, *islice(words, size - len(SPECIAL_WORDS))])


def fits_vocabulary_file(word: str) -> bool:
    r"""Whether a vocabulary file can contain this word: readers strip each line and skip !!!MAXTERMID.

    >>> fits_vocabulary_file("10\u00a0000"), fits_vocabulary_file("10\u00a0")
    (True, False)
    """
    return word == word.strip() and word != "!!!MAXTERMID"


def read_softmax_vocabulary(path: Path) -> Vocabulary:
    """Read a vocabulary; InputError unless it contains the three marks, and each word once."""
    vocabulary = Vocabulary.read(path)
    with error_context(path):
        if missing := [word for word in SPECIAL_WORDS if word not in vocabulary]:
            raise InputError(f"{join_names(missing)} is missing; put <S>, </S> and <UNK> on the first three lines")
        # The index of a repeated word is that of its last line.
        twice = [word for number, word in enumerate(vocabulary.words) if vocabulary.index[word] != number]
        if "" in vocabulary:
            raise InputError(f"word {vocabulary.index['']:,} (counted from 0) is a blank line; delete it")
        if twice:
            raise InputError(f"{join_names(list(dict.fromkeys(twice)))} occurs twice; keep one line for each word")
    return vocabulary


def warn_about_mismatch(vocabulary: Vocabulary, types: Sequence[str], counts: NDArray[np.int64], *, where: str) -> None:
    """Warn if a vocabulary from a file was made for other text, or is not sorted by frequency."""
    by_class = np.zeros(len(vocabulary), dtype=np.int64)
    unknown = 0
    for word, count in zip(types[2:], counts[2:].tolist(), strict=True):
        if word in vocabulary and word != UNKNOWN:
            by_class[vocabulary.index[word]] = count
        else:
            unknown += count
    share = unknown / (unknown + int(by_class.sum()))
    if share > 0.2:
        _warn(f"{where}: lacks {share:.0%} of the words of the corpus; was it made for another case or tokenization?")
    if _is_unsorted(by_class):
        _warn(
            f"{where}: its words are not sorted by decreasing frequency, which sampled softmax requires; "
            "sort them, or train with the full softmax"
        )


def _is_unsorted(counts: NDArray[np.int64]) -> bool:
    """Whether the average position of the words is nearer to that of a random order than to that of a sorted one.

    The order of single words differs between texts, so only the average is compared.
    """
    # With few words every order is about as good, and no sampling is needed.
    if len(counts) < 100 or not counts.any():
        return False
    positions = np.arange(len(counts))
    best = np.average(positions, weights=np.sort(counts)[::-1])
    return bool(np.average(positions, weights=counts) > (best + positions.mean()) / 2)


def _warn(text: str) -> None:
    warnings.warn(text, InputWarning, stacklevel=3)
