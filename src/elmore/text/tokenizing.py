"""Text becomes words, in the style a model was trained on, and every word knows where it stood.

moses       the rules of the Moses toolkit, as for nearly all published models
whitespace  the words are there already, with blanks between them
characters  every symbol is a word, as in proteins
"""

import re
from dataclasses import dataclass

from elmore.errors import InputError
from elmore.text.moses import Tokens, tokenize_v1, tokenize_v2
from elmore.text.scripts import warn_about_unsegmented
from elmore.text.style import TOKENIZER_VERSIONS, TextStyle

__all__ = ["Tokenizer", "Tokens", "split_at_blanks"]

# ASCII only. No-break and other Unicode spaces stand inside tokens of real corpora ("10 000" in French), and to split
# there would shift every later word against its annotation.
_BETWEEN_BLANKS = re.compile(r"[^ \t\n\r\f\v]+")


@dataclass(frozen=True)
class Tokenizer:
    """Finds the words of a text as one style has them.

    The characters under an offset are the word, save that the style may lower-case or escape it, and that Moses drops
    control characters and, from version 2 on, all that is invisible (see `moses`).

    >>> Tokenizer(TextStyle(lowercase=True)).tokenize("I didn't.")
    Tokens(words=['i', 'didn', "'t", '.'], offsets=[(0, 1), (2, 6), (6, 8), (8, 9)])
    """

    style: TextStyle

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z]{2,3}", self.style.language):
            raise InputError(f"the language is to be an ISO code such as 'en' or 'de', and is {self.style.language!r}")
        if self.style.tokenizer_version not in TOKENIZER_VERSIONS:
            raise InputError(
                f"version {self.style.tokenizer_version!r} of the tokeniser is asked for, and this program has "
                f"{' and '.join(map(str, TOKENIZER_VERSIONS))}; a newer elmore may have it"
            )

    def tokenize(self, text: str) -> Tokens:
        """The words of one sentence, with their places."""
        match self.style.tokenizer:
            case "moses":
                warn_about_unsegmented(text)
                tokenize = tokenize_v1 if self.style.tokenizer_version == 1 else tokenize_v2
                words, offsets = tokenize(text, language=self.style.language)
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
