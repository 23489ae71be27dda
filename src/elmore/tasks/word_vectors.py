"""Files of word vectors in GloVe's format: a line for each word, which is followed by its numbers.

The first line of word2vec and fastText, which counts words and numbers, is passed over.
"""

import re
from collections.abc import Collection
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmore.errors import InputError
from elmore.files.text_files import display_name, read_lines

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
