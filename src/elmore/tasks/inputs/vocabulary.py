"""The vocabulary of a task model: ids of words and characters, and word vectors from a file.

Words of the file have the vectors of the file. Frequent words of the training text that the file lacks have trained
vectors. All other words share the vector of the unknown word.
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
NO_CHARACTER, UNKNOWN_CHARACTER, FIRST_CHARACTER = 0, 1, 2  # the first is padding
RANDOM_STD = 0.1  # standard deviation of new word vectors


@dataclass(frozen=True)
class TokenVocabulary:
    """Ids of words and characters; plain data, saved with a model."""

    words: tuple[str, ...] = ()  # word n has the id n + 1
    num_trained: int = 0  # the first words, which have no vector in the file
    characters: tuple[str, ...] = ()
    lowercase: bool = False

    def __post_init__(self) -> None:
        # Lookup tables, set with object.__setattr__ because the dataclass is frozen.
        object.__setattr__(self, "_words", {word: word_id for word_id, word in enumerate(self.words, start=1)})
        codes = _code_points("".join(self.characters))
        order = np.argsort(codes, kind="stable")
        object.__setattr__(self, "_codes", codes[order])
        object.__setattr__(self, "_numbers_of_codes", order + FIRST_CHARACTER)

    def word_number(self, token: str) -> int:
        """The id of a word; 0 for an unknown word.

        >>> TokenVocabulary(("the", "bow"), lowercase=True).word_number("Bow")
        2
        """
        word_id: int = self._words.get(token.lower() if self.lowercase else token, UNKNOWN_WORD)  # type: ignore[attr-defined]
        return word_id

    def character_numbers(self, text: str) -> NDArray[np.int64]:
        """The id of each character.

        >>> TokenVocabulary(characters=("w", "b")).character_numbers("bow").tolist()
        [3, 1, 2]
        """
        table: NDArray[np.uint32] = self._codes  # type: ignore[attr-defined]
        numbers: NDArray[np.int64] = self._numbers_of_codes  # type: ignore[attr-defined]
        codes = _code_points(text)
        if not len(table):
            return np.full(len(codes), UNKNOWN_CHARACTER, dtype=np.int64)
        rows = np.searchsorted(table, codes).clip(max=len(table) - 1)
        return np.where(table[rows] == codes, numbers[rows], UNKNOWN_CHARACTER)


def _code_points(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def build_vocabulary(
    sentences: Iterable[Sequence[str]], options: WordOptions
) -> tuple[TokenVocabulary, NDArray[np.float32] | None]:
    """The vocabulary of a training text, and the vectors (words, size) of the file in the options, if any."""
    counts: Counter[str] = Counter()
    characters: set[str] = set()
    for sentence in sentences:
        counts.update(word.lower() if options.lowercase else word for word in sentence)
        if options.character_filters:
            characters.update(*sentence)
    file_words: Sequence[str] = ()
    vectors = None
    if options.vectors not in ("none", "random"):
        file_words, vectors = read_word_vectors(options.vectors)
    has_vector = set(file_words)
    trained: list[str] = []
    if options.vectors != "none":
        trained = sorted(word for word, n in counts.items() if n >= options.min_count and word not in has_vector)
    vocabulary = TokenVocabulary(
        words=(*trained, *file_words),
        num_trained=len(trained),
        characters=tuple(sorted(characters)),
        lowercase=options.lowercase,
    )
    return vocabulary, vectors


Vectors = npt.NDArray[np.float32]

_COUNTS = re.compile(r"[0-9]+ ([0-9]+)")


def read_word_vectors(path: str | Path, words: Collection[str] | None = None) -> tuple[list[str], Vectors]:
    """Read the words of a file, plain or compressed, in its order, and their vectors (words, size).

    With `words`, only these words are stored in memory; for other lines, only the count of numbers is checked. If a
    word occurs twice, its first vector is used. Words are separated from their numbers only by plain spaces and may
    contain any other character, such as GloVe's no-break spaces.
    """
    name = display_name(path)
    selected = None if words is None else frozenset(words)
    vectors: dict[str, Vectors] = {}
    size, number, counted = 0, 0, False
    for number, line in enumerate(read_lines(path), start=1):
        text = line.rstrip(" ")  # lines of fastText end with a space
        if number == 1 and (counts := _COUNTS.fullmatch(text)):
            size, counted = int(counts[1]), True
            continue
        size = size or text.count(" ")
        word, *values = text.rsplit(" ", size) if size else [text]
        if len(values) < size or not (size and word):
            raise InputError(
                f"{name}, line {number}: requires a word and {size or 'its'} numbers, separated by single spaces, but "
                f"{text.partition(' ')[0][:40]!r} is followed by {text.count(' ')}"
            )
        # GloVe has a few words with spaces, such as ". . .", but none that ends with a number.
        if " " in word and _is_number(word.rpartition(" ")[2]):
            raise InputError(
                f"{name}, line {number}: requires {size} numbers after the word, as in earlier lines, but "
                f"{word.partition(' ')[0][:40]!r} is followed by {text.count(' ')}"
            )
        if (selected is None or word in selected) and word not in vectors:
            vectors[word] = _vector(values, f"{name}, line {number}")
    if number == counted:
        raise InputError(f"{name}: contains no vectors; each line requires a word and its numbers")
    return list(vectors), np.array(list(vectors.values()), np.float32).reshape(len(vectors), size)


def _vector(values: list[str], where: str) -> Vectors:
    try:
        vector = np.array([float(value) for value in values])
    except ValueError:
        text = next(value for value in values if not _is_number(value))
        raise InputError(f"{where}: {text[:40]!r} is not a number; requires a word and {len(values)} numbers") from None
    if not (np.abs(vector) <= np.finfo(np.float32).max).all():  # False also for NaN
        raise InputError(f"{where}: a number is not finite, or too large for float32; remove the line")
    return vector.astype(np.float32)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
