"""The words and characters that a task's model has numbers for, and the vectors that its words begin with.

Three kinds of words: those of a file of vectors; words of the training text that the file lacks, each with a vector of
its own; and all others, which share the vector of the unknown word.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from elmore.errors import InputError
from elmore.files.text_files import display_name, read_lines
from elmore.tasks.core.config import WordOptions

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


Vectors = npt.NDArray[np.float32]

_COUNTS = re.compile(r"[0-9]+ ([0-9]+)")


def read_word_vectors(path: str | Path, words: Collection[str] | None = None) -> tuple[list[str], Vectors]:
    """The words of a file, in its order, and an array of their vectors, (words, size); plain or packed.

    With `words`, only those of them that the file has: nothing else is kept in memory, and of the other lines only
    the count of numbers is checked. Of a word that stands there twice the first vector counts. Words are separated
    from their numbers by plain spaces alone, and may hold any other character, as GloVe's no-break spaces.
    """
    name = display_name(path)
    wanted = None if words is None else frozenset(words)
    kept: dict[str, Vectors] = {}
    size, number, counted = 0, 0, False
    for number, line in enumerate(read_lines(path), start=1):
        text = line.rstrip(" ")  # fastText ends its lines with one
        if number == 1 and (counts := _COUNTS.fullmatch(text)):
            size, counted = int(counts[1]), True
            continue
        size = size or text.count(" ")
        word, *values = text.rsplit(" ", size) if size else [text]
        if len(values) < size or not (size and word):
            raise InputError(
                f"{name}, line {number}: a word and {size or 'its'} numbers are due here, with single spaces between "
                f"them, and here are {text.count(' ')} behind {text.partition(' ')[0][:40]!r}"
            )
        # GloVe has a few words with spaces in them, such as ". . .", but none that ends with a number.
        if " " in word and _is_number(word.rpartition(" ")[2]):
            raise InputError(
                f"{name}, line {number}: {size} numbers are due behind the word, as in the lines before, and here are "
                f"{text.count(' ')} behind {word.partition(' ')[0][:40]!r}"
            )
        if (wanted is None or word in wanted) and word not in kept:
            kept[word] = _vector(values, f"{name}, line {number}")
    if number == counted:
        raise InputError(f"{name}: holds no vectors; expected a word and its numbers in each line")
    return list(kept), np.array(list(kept.values()), np.float32).reshape(len(kept), size)


def _vector(values: list[str], where: str) -> Vectors:
    try:
        vector = np.array([float(value) for value in values])
    except ValueError:
        stranger = next(value for value in values if not _is_number(value))
        raise InputError(
            f"{where}: {stranger[:40]!r} is no number; expected a word and {len(values)} numbers"
        ) from None
    if not (np.abs(vector) <= np.finfo(np.float32).max).all():  # false of nan, too
        raise InputError(f"{where}: not all numbers are finite; such a vector would spoil every sentence it is in")
    return vector.astype(np.float32)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
