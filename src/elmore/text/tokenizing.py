"""Text becomes words, in the style a model was trained on, and every word knows where it stood.

moses       the rules of the Moses toolkit (library: sacremoses), as for nearly all published models
whitespace  the words are there already, with blanks between them
characters  every symbol is a word, as in proteins
"""

import re
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from elmore.errors import InputError
from elmore.text.style import TextStyle

# ASCII only. No-break and other Unicode spaces stand inside tokens of real corpora ("10 000" in French), and to split
# there would shift every later word against its annotation.
_BETWEEN_BLANKS = re.compile(r"[^ \t\n\r\f\v]+")


class Tokens(NamedTuple):
    """The words of a text, and for each the characters [start, end) of the text it was made from."""

    words: list[str]
    offsets: list[tuple[int, int]]


@dataclass(frozen=True)
class Tokenizer:
    """Finds the words of a text as one style has them.

    The characters under an offset are the word, save that the style may lower-case or escape it, and that Moses drops
    control characters.

    >>> Tokenizer(TextStyle(lowercase=True)).tokenize("I didn't.")
    Tokens(words=['i', 'didn', "'t", '.'], offsets=[(0, 1), (2, 6), (6, 8), (8, 9)])
    """

    style: TextStyle

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z]{2,3}", self.style.language):
            raise InputError(f"the language is to be an ISO code such as 'en' or 'de', and is {self.style.language!r}")

    def tokenize(self, text: str) -> Tokens:
        """The words of one sentence, with their places."""
        match self.style.tokenizer:
            case "moses":
                words, offsets = _moses_tokens(text, language=self.style.language)
            case "whitespace":
                offsets = [found.span() for found in _BETWEEN_BLANKS.finditer(text)]
                words = [text[start:end] for start, end in offsets]
            case "characters":
                offsets = [(place, place + 1) for place, symbol in enumerate(text) if not symbol.isspace()]
                words = [text[place] for place, _ in offsets]
        # After the words are found, as Moses pipelines do it: abbreviations are known by their capitals.
        if self.style.lowercase:
            words = [word.lower() for word in words]
        if self.style.escape:
            words = [_escaped(word) for word in words]
        return Tokens(words, offsets)


def split_at_blanks(line: str) -> list[str]:
    r"""The words of a line that was tokenised before: ASCII blanks separate them, other spaces belong to them.

    >>> split_at_blanks("il a 10\u00a0000 amis .")
    ['il', 'a', '10\xa0000', 'amis', '.']
    """
    return _BETWEEN_BLANKS.findall(line)


# Moses writes runs of dots as such words for a while, and would turn one that stands in the text into dots.
_MOSES_MARKER = re.compile("(?:DOT)+MULTI")
_CONTROL = re.compile(r"[\0-\x1f]")
_SKIPPED = re.compile(r"[\s\0-\x1f]*")


def _moses_tokens(text: str, *, language: str) -> Tokens:
    source = text
    if "DOTMULTI" in text:
        source = _MOSES_MARKER.sub(lambda found: found[0][:-1] + "J", text)
    words: list[str] = _moses(language).tokenize(source, escape=False)
    offsets = []
    end = 0
    for word in words:
        start = _SKIPPED.match(source, end).end()  # type: ignore[union-attr]  # it matches anywhere
        if source.startswith(word, start):
            end = start + len(word)
        else:
            # A control character was dropped inside the word.
            end = start
            for letter in word:
                end = source.index(letter, end) + 1
        offsets.append((start, end))
    if source is not text:
        words = [_CONTROL.sub("", text[start:end]) for start, end in offsets]
    return Tokens(words, offsets)


@cache
def _moses(language: str) -> Any:
    # Imported here: its tables of characters take most of a second.
    from sacremoses import MosesTokenizer
    from sacremoses.corpus import NonbreakingPrefixes

    if language not in NonbreakingPrefixes().available_langs:
        warnings.warn(
            f"the Moses tokeniser has no list of abbreviations for {language!r} and takes the English one; "
            "a full stop may be cut off, or left, in the wrong place",
            stacklevel=2,
        )
    moses = MosesTokenizer(language)
    # Its own two questions build a set of all letters each time they are asked, which takes a quarter of its time.
    alphabet, lowercase = frozenset(moses.IsAlpha), frozenset(moses.IsLower)
    moses.isanyalpha = lambda text: not alphabet.isdisjoint(text)
    moses.islower = lowercase.issuperset
    return moses


_ESCAPES = str.maketrans(
    {
        "&": "&amp;",
        "|": "&#124;",
        "<": "&lt;",
        ">": "&gt;",
        "'": "&apos;",
        '"': "&quot;",
        "[": "&#91;",
        "]": "&#93;",
    }
)


def _escaped(word: str) -> str:
    return word.translate(_ESCAPES)
