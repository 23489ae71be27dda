"""The words a language model can predict: the most frequent ones of the corpus, or those of a file."""

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
    """The three marks and the first of the types that occur in training, which stand by falling count.

    >>> most_frequent(["<S>", "</S>", "the", "cat", "held"], np.array([3, 0, 5, 1, 0]), size=5).words
    ('<S>', '</S>', '<UNK>', 'the', 'cat')
    """
    counted = (word for word, count in zip(types, counts, strict=True) if count)
    words = (word for word in counted if word not in SPECIAL_WORDS and storable(word))
    return Vocabulary([*SPECIAL_WORDS, *islice(words, size - len(SPECIAL_WORDS))])


def storable(word: str) -> bool:
    r"""Whether a vocabulary file can hold this word: readers strip every line, and skip one that says !!!MAXTERMID.

    >>> storable("10\u00a0000"), storable("10\u00a0")
    (True, False)
    """
    return word == word.strip() and word != "!!!MAXTERMID"


def read_softmax_vocabulary(path: Path) -> Vocabulary:
    """Read a vocabulary that has the three marks and every word once."""
    vocabulary = Vocabulary.read(path)
    with error_context(path):
        if missing := [word for word in SPECIAL_WORDS if word not in vocabulary]:
            raise InputError(f"{join_names(missing)} is missing; put <S>, </S> and <UNK> on the first three lines")
        # Of a word that stands twice, the index knows the last place only.
        twice = [word for number, word in enumerate(vocabulary.words) if vocabulary.index[word] != number]
        if "" in vocabulary:
            raise InputError(f"word {vocabulary.index['']:,} (counted from 0) is a blank line; delete it")
        if twice:
            raise InputError(
                f"{join_names(list(dict.fromkeys(twice)))} stands there twice; keep one line for each word"
            )
    return vocabulary


def warn_if_unfit(vocabulary: Vocabulary, types: Sequence[str], counts: NDArray[np.int64], *, where: str) -> None:
    """Warn if a vocabulary from a file was clearly made for other text than this, or not sorted by frequency."""
    by_class = np.zeros(len(vocabulary), dtype=np.int64)
    unknown = 0
    for word, count in zip(types[2:], counts[2:].tolist(), strict=True):
        if word in vocabulary and word != UNKNOWN:
            by_class[vocabulary.index[word]] = count
        else:
            unknown += count
    share = unknown / (unknown + int(by_class.sum()))
    if share > 0.2:
        _warn(
            f"{where}: {share:.0%} of the corpus's words are not in it; was it made for another case or tokenisation?"
        )
    if _is_unsorted(by_class):
        _warn(
            f"{where}: its words do not stand by falling frequency, as sampled softmax takes for granted; "
            "sort them, or train with the full softmax"
        )


def _is_unsorted(counts: NDArray[np.int64]) -> bool:
    """Whether frequent words stand, on average, nearer to where chance would put them than to the front.

    Another text has another order, so no single pair of words says anything.
    """
    # Of a handful of words every order is about as good, and none needs sampling.
    if len(counts) < 100 or not counts.any():
        return False
    places = np.arange(len(counts))
    best = np.average(places, weights=np.sort(counts)[::-1])
    return bool(np.average(places, weights=counts) > (best + places.mean()) / 2)


def _warn(text: str) -> None:
    warnings.warn(text, InputWarning, stacklevel=3)
