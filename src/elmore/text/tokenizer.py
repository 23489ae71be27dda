"""Tokenization in the style of a model's training text, with the offset of each word.

moses       the rules of the Moses toolkit, as for nearly all published models
whitespace  the text is tokenized already, with spaces between words
characters  each character is a word, as in proteins
"""

import re
from dataclasses import dataclass

from elmore.errors import InputError
from elmore.text.moses import Tokens, tokenize_v1, tokenize_v2
from elmore.text.scripts import warn_about_unsegmented
from elmore.text.style import TOKENIZER_VERSIONS, TOKENIZERS, TokenizerConfig

__all__ = ["Tokenizer", "Tokens", "split_on_spaces"]

# ASCII only. Tokens of real corpora contain no-break and other Unicode spaces ("10 000" in French). A split there would
# shift each later word against its annotation.
_BETWEEN_BLANKS = re.compile(r"[^ \t\n\r\f\v]+")


@dataclass(frozen=True)
class Tokenizer:
    """Splits sentences into words in one style.

    A word is the text under its offset. The style can lower-case or escape it. The Moses tokenizer removes control
    characters and, in version 2, all invisible ones (see `moses`).

    >>> Tokenizer(TokenizerConfig(lowercase=True)).tokenize("I didn't.")
    Tokens(words=['i', 'didn', "'t", '.'], offsets=[(0, 1), (2, 6), (6, 8), (8, 9)])
    """

    style: TokenizerConfig

    def __post_init__(self) -> None:
        if self.style.tokenizer not in TOKENIZERS:
            raise InputError(f"tokenizer is {self.style.tokenizer!r}; it must be one of {', '.join(TOKENIZERS)}")
        if not re.fullmatch("[a-z]{2,3}", str(self.style.language)):
            raise InputError(f"language is {self.style.language!r}; it must be an ISO code such as 'en' or 'de'")
        if self.style.tokenizer_version not in TOKENIZER_VERSIONS:
            raise InputError(
                f"tokenizer_version is {self.style.tokenizer_version!r}; this version of elmore has "
                f"{' and '.join(map(str, TOKENIZER_VERSIONS))}. Install a newer elmore"
            )

    def tokenize(self, text: str) -> Tokens:
        """Split one sentence into words."""
        tokens = self._split(text)
        # After tokenization, as in Moses pipelines: capitals distinguish abbreviations.
        if self.style.lowercase:
            tokens = Tokens([word.lower() for word in tokens.words], tokens.offsets)
        if self.style.escape:
            tokens = Tokens([word.translate(_ESCAPES) for word in tokens.words], tokens.offsets)
        return tokens

    def _split(self, text: str) -> Tokens:
        match self.style.tokenizer:
            case "moses":
                warn_about_unsegmented(text)
                tokenize = tokenize_v1 if self.style.tokenizer_version == 1 else tokenize_v2
                return tokenize(text, language=self.style.language)
            case "whitespace":
                offsets = [word.span() for word in _BETWEEN_BLANKS.finditer(text)]
                return Tokens([text[start:end] for start, end in offsets], offsets)
            case "characters":
                offsets = [(index, index + 1) for index, character in enumerate(text) if not character.isspace()]
                return Tokens([text[index] for index, _ in offsets], offsets)


def split_on_spaces(line: str) -> list[str]:
    r"""Split a tokenized line into words at ASCII spaces. Other spaces belong to words.

    >>> split_on_spaces("il a 10\u00a0000 amis .")
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
