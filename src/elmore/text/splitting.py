"""Splits paragraphs and texts into sentences with their offsets. Library: sentencex."""

import re
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from elmore.errors import InputError
from elmore.text.nonbreaking import NUMBER, NUMBERED_ABBREVIATIONS
from elmore.text.paragraphs import PARAGRAPHS_ADVICE, Paragraphs, resolve_paragraphs
from elmore.text.style import DEFAULT_LANGUAGE, TOKENIZER_VERSION, TokenizerConfig


class SentenceSpan(NamedTuple):
    """A sentence on one line, and its characters [start, end) in the text."""

    text: str
    start: int
    end: int


def split_sentences(
    text: str, *, language: str = DEFAULT_LANGUAGE, version: int = TOKENIZER_VERSION
) -> list[SentenceSpan]:
    """Split a paragraph into sentences, without the spaces around them.

    `language` is an ISO code. Languages that the library does not support are treated like a related language or
    English. `version` is that of the tokenizer: 1 uses the library's result, 2 does not split "Vol. 3" and the number
    of a list item, as in "1. First".

    >>> split_sentences("Dr. Smith took a bow. Why?")
    [SentenceSpan(text='Dr. Smith took a bow.', start=0, end=21), SentenceSpan(text='Why?', start=22, end=26)]
    """
    # The library only decides the starts. The sentences are parts of the text, so that none can be lost.
    starts = _starts(text, language)
    borders = [*(starts if version == 1 else _without_starts_at_numbers(text, starts)), len(text)]
    sentences = []
    for first, stop in pairwise(borders):
        part = text[first:stop]
        if sentence := part.strip():
            start = first + part.index(sentence)
            sentences.append(SentenceSpan(sentence, start, start + len(sentence)))
    return sentences


def split_text(
    text: str,
    *,
    style: TokenizerConfig,
    paragraphs: Paragraphs | None = None,
    advice: str = PARAGRAPHS_ADVICE,
    name: str = "the text",
) -> list[SentenceSpan]:
    r"""Split a text of any number of paragraphs into sentences, with a model's tokenizer settings.

    `paragraphs` states what ends a paragraph (see `paragraphs`). None: it is detected, and a warning with `name` and
    `advice` reports wrapped lines.

    >>> split_text("A title\nI took a bow. Why?", style=TokenizerConfig())[1:]
    [SentenceSpan(text='I took a bow.', start=8, end=21), SentenceSpan(text='Why?', start=22, end=26)]
    """
    if not isinstance(text, str):
        raise InputError(f"the text is a {type(text).__name__}; it must be a string. Split several texts one by one")
    lines = enumerate(text.split("\n"), start=1)
    resolved, all_lines = resolve_paragraphs(lines, paragraphs=paragraphs, name=name, advice=advice)
    deque(all_lines, maxlen=0)  # for warnings about later lines
    border = _LINE_END if resolved == "line" else _BLANK_LINES
    return [
        SentenceSpan(sentence.text, start + sentence.start, start + sentence.end)
        for start, end in _between(border, text)
        for sentence in split_sentences(
            text[start:end].translate(_LINE_ENDS_TO_SPACES), language=style.language, version=style.tokenizer_version
        )
    ]


_LINE_END = re.compile(r"\n")
_BLANK_LINES = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_LINE_ENDS_TO_SPACES = {ord("\r"): " ", ord("\n"): " "}


def _between(border: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """The spans between the borders."""
    borders = [match.span() for match in border.finditer(text)]
    starts, ends = [0, *(end for _, end in borders)], [*(start for start, _ in borders), len(text)]
    return zip(starts, ends, strict=True)


# The library panics at an initial before one of these spaces, as in "L .", and rejects lone surrogates.
_WIDE_SPACE = re.compile("[\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _starts(text: str, language: str) -> list[int]:
    """The offsets of the starts of sentences, 0 first."""
    from sentencex import segment  # imported here: only raw text needs it

    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", _WIDE_SPACE.sub(" ", text))
    starts = {0}
    end = 0
    for part in segment(language, text):
        # Searched, not counted: the library omits some empty lines of long texts.
        start = text.find(part, end)
        if start >= 0:
            starts.add(start)
            end = start + len(part)
    return sorted(starts)


_NUMBERED_ABBREVIATION = re.compile(rf"\b(?:{NUMBERED_ABBREVIATIONS})\.\s*\Z")
_NUMBER = re.compile(NUMBER)
_NUMBERED_ITEM = re.compile(r"\s*[0-9]{1,3}\.\s*")
_LETTERED_ITEM = re.compile(r"\s*(?:[A-Za-z]|[ivxIVX]{1,5})\.\s*")


def _without_starts_at_numbers(text: str, starts: list[int]) -> list[int]:
    """The starts, except between an abbreviation and its number, and after the number of a list item."""
    result: list[int] = []
    for start in starts:
        if not result or not (_is_item(text, result[-1], start) or _is_before_number(text, result[-1], start)):
            result.append(start)
    return result


def _is_item(text: str, start: int, end: int) -> bool:
    # A letter numbers an item only at the start of a line. Elsewhere it can be an answer.
    begins_line = start == 0 or "\n" in text[max(start - 2, 0) : start]
    return bool(
        _NUMBERED_ITEM.fullmatch(text, start, end) or (begins_line and _LETTERED_ITEM.fullmatch(text, start, end))
    )


def _is_before_number(text: str, start: int, end: int) -> bool:
    return bool(_NUMBERED_ABBREVIATION.search(text, max(start, end - 12), end) and _NUMBER.match(text, end))
