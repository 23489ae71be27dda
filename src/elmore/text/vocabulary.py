"""Numbered words: rows of a word table, classes of a softmax."""

import codecs
import io
import lzma
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError, error_context
from elmore.files.os_errors import reading
from elmore.files.text_files import decompress

_MAX_BYTES = 1 << 30  # of a vocabulary file, decompressed


def log_uniform_probabilities(words: int) -> NDArray[np.float64]:  # (words,)
    """Probabilities of words in order of falling frequency, approximately by Zipf's law.

    >>> log_uniform_probabilities(3).round(2).tolist()
    [0.5, 0.29, 0.21]
    """
    probabilities: NDArray[np.float64] = np.log1p(1 / (np.arange(words) + 1.0)) / np.log(words + 1.0)
    return probabilities


def decode_lines(content: bytes, *, strip_mark: bool = False) -> list[str]:
    r"""The lines of a word list in UTF-8; only a line feed ends a line. InputError if the content is not UTF-8.

    >>> decode_lines(b"the\ncat\r\n")
    ['the', 'cat\r']
    """
    mark = len(codecs.BOM_UTF8) if strip_mark and content.startswith(codecs.BOM_UTF8) else 0
    try:
        text = content[mark:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 at byte {mark + error.start}; save the file as UTF-8") from None
    return text.removesuffix("\n").split("\n") if text else []


class Vocabulary:
    """Words and their numbers.

    Each line has a number, so that rows and lines agree. A word that occurs twice has the last number, as in the
    programs that wrote such files.

    >>> vocabulary = Vocabulary(["<S>", "</S>", "<UNK>", "the"])
    >>> vocabulary.index["the"], vocabulary.word_id("cat", unknown="<UNK>")
    (3, 2)
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.words: Sequence[str] = tuple(words)
        self.index: dict[str, int] = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self.index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    __hash__ = None  # type: ignore[assignment]  # compared by content

    def word_id(self, word: str, *, unknown: str) -> int:
        """The number of the word, or of `unknown`; InputError if the vocabulary has neither."""
        number = self.index.get(word, self.index.get(unknown))
        if number is None:
            raise InputError(
                f"the word {word!r} is not in the vocabulary, and {unknown} is not in it either; add one of them"
            )
        return number

    @classmethod
    def decode(cls, content: bytes) -> "Vocabulary":
        """Decode a file of the published layout: one word per line, in UTF-8, compressed or not.

        A byte order mark, spaces around words and `!!!MAXTERMID` lines are removed.
        """
        try:
            content = decompress(io.BytesIO(content))[0].read(_MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            raise InputError(f"damaged ({error}); fetch it again") from None
        if len(content) > _MAX_BYTES:
            raise InputError("larger than any vocabulary")
        lines = decode_lines(content, strip_mark=True)
        return cls(word for word in map(str.strip, lines) if word != "!!!MAXTERMID")

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """Read a vocabulary file."""
        with reading(path):
            content = path.read_bytes()
        with error_context(path):
            return cls.decode(content)
