"""Warnings about tokenized input that a model does not expect.

Every input gives vectors, so a wrong preparation shows only as worse results. Each check counts the marks of one
mistake, and compares the number with the marks of correct input: a few unusual words cause no warning.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from elmore.errors import InputWarning
from elmore.text.style import TokenizerConfig
from elmore.text.token_styles import detect_token_style, find_penn_marker

SENTENCES_CHECKED = 200

_Sentences = Sequence[Sequence[str]]


class InputCheck:
    """Checks the first sentences of a reader, over any number of calls. Warns once per object."""

    def __init__(self, style: TokenizerConfig) -> None:
        self.style = style
        self.remaining = SENTENCES_CHECKED

    def check(self, sentences: _Sentences, *others: str | None, stacklevel: int) -> None:
        """Warn about these sentences. `others` are further warnings of the caller."""
        if not self.remaining:
            return
        self.remaining = max(0, self.remaining - len(sentences))
        for message in (*warnings_about(sentences, self.style), *others):
            if message is not None:
                self.remaining = 0
                warnings.warn(message, InputWarning, stacklevel=stacklevel + 1)

    def check_stream(self, sentences: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield the sentences, and check the first of them."""
        source = iter(sentences)
        first = list(islice(source, self.remaining))
        self.check(first, stacklevel=2)
        yield from first
        yield from source


def warnings_about(sentences: _Sentences, style: TokenizerConfig) -> list[str]:
    """Warnings about these sentences, for a model with this tokenizer.

    >>> warnings_about([["Yes,", "I", "did", "it."]], TokenizerConfig())
    ["the input looks untokenized ('Yes,'): pass plain strings or omit --tokenized, and the model finds the words"]
    >>> warnings_about([["Yes", ",", "I", "did", "it", "."]], TokenizerConfig())
    []
    """
    found = [_padding(sentences), _boundaries(sentences)]
    if style.tokenizer == "moses":
        found += _untokenized(sentences), _penn_style(sentences)
    if style.tokenizer != "characters" and not style.escape:
        found.append(_escaped(sentences))
    # The case of a whitespace model's training text is not known: it can be lower case.
    if style.tokenizer not in ("characters", "whitespace") and not style.lowercase:
        found.append(_lowercased(sentences))
    return [warning for warning in found if warning]


_PADDING = {"", "<PAD>", "<pad>", "[PAD]", "[pad]"}


def _padding(sentences: _Sentences) -> str | None:
    for sentence in sentences:
        for word in sentence:
            if word in _PADDING:
                return (
                    f"the input contains the word {word!r}, which looks like padding: remove it, or it is embedded as "
                    "text; sentences can have any length"
                )
    return None


_BEGINNINGS = {"<S>", "<s>", "<bos>", "[CLS]"}
_ENDS = {"</S>", "</s>", "<eos>", "[SEP]"}


def _boundaries(sentences: _Sentences) -> str | None:
    # A single such sentence can be about the marks.
    if len(sentences) < 2 or not all(
        len(sentence) >= 2 and sentence[0] in _BEGINNINGS and sentence[-1] in _ENDS for sentence in sentences
    ):
        return None
    return f"each sentence has boundary words such as {sentences[0][0]!r}: remove them, the model adds its own"


_WITH_MARK = re.compile(r"[^\W\d_]{2,}[,;:!?][\"'”’)]*")
_WITH_FULL_STOP = re.compile(r"[^\W\d_]{2,}\.[\"'”’)]*")
_MARK = re.compile(r"[.,;:!?]+")


def _untokenized(sentences: _Sentences) -> str | None:
    with_mark = [word for sentence in sentences for word in sentence if _WITH_MARK.fullmatch(word)]
    # Inside a sentence, a full stop can belong to an abbreviation.
    with_mark += [sentence[-1] for sentence in sentences if sentence and _WITH_FULL_STOP.fullmatch(sentence[-1])]
    separate = sum(1 for sentence in sentences for word in sentence if _MARK.fullmatch(word))
    # At least two, because Moses does not separate the stop of a final "Inc."
    if len(with_mark) < 2 or len(with_mark) <= separate:
        return None
    return (
        f"the input looks untokenized ({with_mark[0]!r}): pass plain strings or omit --tokenized, and the model finds "
        "the words"
    )


def _penn_style(sentences: _Sentences) -> str | None:
    if (marker := find_penn_marker(sentences)) is None:
        return None
    style = detect_token_style(sentences)
    return (
        f"the tokens look Penn-style ({marker!r}), and this model was trained on Moses-style tokens (don 't, not do "
        f"n't): convert them with token_style={style!r} (--token-style {style}); each token still has one vector"
    )


_ENTITY = re.compile(r"&(?:amp|apos|quot|lt|gt|#\d+|#x[0-9A-Fa-f]+);")
_ESCAPABLE = re.compile("[&'\"]")  # not < and >, which are in marks such as <unk>


def _escaped(sentences: _Sentences) -> str | None:
    escaped = [word for sentence in sentences for word in sentence if _ENTITY.search(word)]
    if not escaped:
        return None
    plain = sum(1 for sentence in sentences for word in sentence if _ESCAPABLE.search(_ENTITY.sub("", word)))
    if len(escaped) <= plain:
        return None
    return (
        f"the input looks HTML-escaped ({escaped[0]!r}), and this model was trained on plain characters: unescape it, "
        "for example with Python's html.unescape"
    )


# Without Georgian: its letters have capitals in Unicode, which texts do not use.
_SMALL = re.compile("[a-zß-öø-ÿα-ωа-яёա-ֆ]")


def _lowercased(sentences: _Sentences) -> str | None:
    # Lists of single words are usually lower case.
    texts = ["".join(sentence) for sentence in sentences if len(sentence) >= 3]
    if len(texts) < 10 or sum(1 for text in texts if _SMALL.search(text)) < 10:
        return None
    if any(text != text.lower() for text in texts):
        return None
    return (
        "the input has no capital letters, and this model was trained on text with capitals: use the original text if "
        "possible"
    )
