"""Tokenization in the style of a model's training text, with the offset of each word.

moses       the rules of the Moses toolkit, as for nearly all published models
whitespace  the text is tokenized already, with spaces between words
characters  each character is a word, as in proteins

Scripts without spaces between words (Chinese, Japanese, Thai, Lao, Burmese, Khmer) need a word segmenter, and Elmore
has none. Use the program that segmented the model's training text.
"""

import re
import warnings
from dataclasses import dataclass
from functools import cache

from elmore.errors import InputError, InputWarning
from elmore.text.moses import Tokens, tokenize_v1, tokenize_v2
from elmore.text.style import TOKENIZER_VERSIONS, TOKENIZERS, TokenizerConfig

__all__ = ["Tokenizer", "Tokens", "is_unsegmented", "split_on_spaces", "warn_about_unsegmented"]

# ASCII only. Tokens of real corpora contain no-break and other Unicode spaces ("10 000" in French). A split there would
# shift each later word against its annotation.
_BETWEEN_SPACES = re.compile(r"[^ \t\n\r\f\v]+")


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
            tokens = Tokens([word.translate(_HTML_ESCAPES) for word in tokens.words], tokens.offsets)
        return tokens

    def _split(self, text: str) -> Tokens:
        match self.style.tokenizer:
            case "moses":
                warn_about_unsegmented(text)
                tokenize = tokenize_v1 if self.style.tokenizer_version == 1 else tokenize_v2
                return tokenize(text, language=self.style.language)
            case "whitespace":
                offsets = [word.span() for word in _BETWEEN_SPACES.finditer(text)]
                return Tokens([text[start:end] for start, end in offsets], offsets)
            case "characters":
                offsets = [(index, index + 1) for index, character in enumerate(text) if not character.isspace()]
                return Tokens([text[index] for index, _ in offsets], offsets)


def split_on_spaces(line: str) -> list[str]:
    r"""Split a tokenized line into words at ASCII spaces. Other spaces belong to words.

    >>> split_on_spaces("il a 10\u00a0000 amis .")
    ['il', 'a', '10\xa0000', 'amis', '.']
    """
    return _BETWEEN_SPACES.findall(line)


def is_unsegmented(text: str) -> bool:
    """Whether most characters belong to a script without spaces between words. A name in an English text is not enough.

    >>> is_unsegmented("我们去北京。"), is_unsegmented("The city of 北京 is old."), is_unsegmented("한글은 좋다.")
    (True, False, False)
    """
    if text.isascii() or not (first := _unsegmented_character().search(text)):
        return False
    return 2 * len(_unsegmented_character().findall(text, first.start())) > len(text)


@cache
def _unsegmented_character() -> re.Pattern[str]:
    # Thai and Lao, Burmese, Khmer, kana, and the Chinese characters.
    return re.compile(
        "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
        "\U00020000-\U0003ffff]"
    )


def warn_about_unsegmented(text: str) -> None:
    """Warn if a text has no spaces between words. Python shows a warning of one line once, so a file gives one."""
    if is_unsegmented(text):
        warnings.warn(
            "the text has no spaces between words, and the Moses tokenizer cannot find words in its script: it gives "
            "single characters or whole phrases. Segment the text with a program for its language (jieba, MeCab, "
            "PyThaiNLP) and pass words: --tokenized, or lists of words in Python",
            InputWarning,
            stacklevel=1,
        )


_HTML_ESCAPES = str.maketrans(
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
