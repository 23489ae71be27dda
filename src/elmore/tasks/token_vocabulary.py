"""The words and characters that a task's model has numbers for, and the vectors that its words begin with.

Three kinds of words: those of a file of vectors; words of the training text that the file lacks, each with a vector of
its own; and all others, which share the vector of the unknown word.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmore.tasks.recipe import WordOptions
from elmore.tasks.word_vectors import read_word_vectors

UNKNOWN_WORD = 0
NO_CHARACTER, UNKNOWN_CHARACTER, FIRST_CHARACTER = 0, 1, 2  # the first fills a word up to the longest of a batch
RANDOM_SPREAD = 0.1  # standard deviation of vectors that are to be learnt


@dataclass(frozen=True)
class TokenVocabulary:
    """Numbers for words and characters; plain data, saved with a model."""

    words: tuple[str, ...] = ()  # word n has number n + 1
    learnt: int = 0  # how many of them, the first, have no vector in the file
    characters: tuple[str, ...] = ()
    lowercase: bool = False

    def __post_init__(self) -> None:
        # Made once: a frozen dataclass allows no other way.
        object.__setattr__(self, "_words", {word: number for number, word in enumerate(self.words, start=1)})
        codes = _code_points("".join(self.characters))
        order = np.argsort(codes, kind="stable")
        object.__setattr__(self, "_codes", codes[order])
        object.__setattr__(self, "_numbers_of_codes", order + FIRST_CHARACTER)

    def word_number(self, token: str) -> int:
        """The number of a word; 0 for one that is unknown.

        >>> TokenVocabulary(("the", "bow"), lowercase=True).word_number("Bow")
        2
        """
        found: int = self._words.get(token.lower() if self.lowercase else token, UNKNOWN_WORD)  # type: ignore[attr-defined]
        return found

    def character_numbers(self, text: str) -> NDArray[np.int64]:
        """The number of each character.

        >>> TokenVocabulary(characters=("w", "b")).character_numbers("bow").tolist()
        [3, 1, 2]
        """
        known: NDArray[np.uint32] = self._codes  # type: ignore[attr-defined]
        numbers: NDArray[np.int64] = self._numbers_of_codes  # type: ignore[attr-defined]
        codes = _code_points(text)
        if not len(known):
            return np.full(len(codes), UNKNOWN_CHARACTER, dtype=np.int64)
        places = np.searchsorted(known, codes).clip(max=len(known) - 1)
        return np.where(known[places] == codes, numbers[places], UNKNOWN_CHARACTER)


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def build_vocabulary(
    sentences: Iterable[Sequence[str]], options: WordOptions
) -> tuple[TokenVocabulary, NDArray[np.float32] | None]:
    """The vocabulary of a training text, and the vectors (words, size) of the file that the options name, if any."""
    counts: Counter[str] = Counter()
    characters: set[str] = set()
    for sentence in sentences:
        counts.update(word.lower() if options.lowercase else word for word in sentence)
        if options.character_filters:
            characters.update(*sentence)
    given: Sequence[str] = ()
    vectors = None
    if options.vectors not in ("none", "random"):
        given, vectors = read_word_vectors(options.vectors)
    known = set(given)
    learnt: list[str] = []
    if options.vectors != "none":
        learnt = sorted(word for word, count in counts.items() if count >= options.min_count and word not in known)
    vocabulary = TokenVocabulary(
        words=(*learnt, *given),
        learnt=len(learnt),
        characters=tuple(sorted(characters)),
        lowercase=options.lowercase,
    )
    return vocabulary, vectors
