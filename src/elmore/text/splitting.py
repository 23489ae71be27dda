"""A paragraph, or a whole text, becomes sentences (library: sentencex), and every sentence knows where it stood."""

import re
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from elmore.defaults import DEFAULT_LANGUAGE
from elmore.errors import InputError
from elmore.text.abbreviations import COUNTED, NUMBER
from elmore.text.paragraphs import PARAGRAPHS_ADVICE, Paragraphs, resolve_paragraphs
from elmore.text.style import TOKENIZER_VERSION, TokenizerConfig


class SentenceSpan(NamedTuple):
    """A sentence, in one line, and the characters [start, end) of the text it was cut from."""

    text: str
    start: int
    end: int


def split_sentences(
    text: str, *, language: str = DEFAULT_LANGUAGE, version: int = TOKENIZER_VERSION
) -> list[SentenceSpan]:
    """Cut a paragraph into its sentences, blanks around them left out.

    Languages are named by their ISO codes; one that the splitter does not know is treated like a relative or English.
    `version` is the tokeniser's: 1 takes the splitter's cuts as they are, 2 knows "Vol. 3" and the number of a list
    item, as in "1. First", for parts of a sentence.

    >>> split_sentences("Dr. Smith took a bow. Why?")
    [SentenceSpan(text='Dr. Smith took a bow.', start=0, end=21), SentenceSpan(text='Why?', start=22, end=26)]
    """
    # The splitter only says where to cut. The sentences are cut from the text itself, so that none can be lost.
    starts = _starts(text, language)
    cuts = [*(starts if version == 1 else _without_cuts_at_numbers(text, starts)), len(text)]
    sentences = []
    for first, stop in pairwise(cuts):
        piece = text[first:stop]
        if sentence := piece.strip():
            start = first + piece.index(sentence)
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
    r"""Cut a text of any number of paragraphs into its sentences, in a model's style.

    Every line is a paragraph, or lines go on until a blank one; None finds out which (see `paragraphs`), and
    warns with `advice` where they look wrapped; `name` is what the warning calls the text.

    >>> split_text("A title\nI took a bow. Why?", style=TokenizerConfig())[1:]
    [SentenceSpan(text='I took a bow.', start=8, end=21), SentenceSpan(text='Why?', start=22, end=26)]
    """
    if not isinstance(text, str):
        raise InputError(f"a text is to be a string, and this is a {type(text).__name__}; split one at a time")
    lines = enumerate(text.split("\n"), start=1)
    resolved, watched = resolve_paragraphs(lines, paragraphs=paragraphs, name=name, advice=advice)
    deque(watched, maxlen=0)  # for what is said of later lines
    border = _LINE_END if resolved == "line" else _BLANK_LINES
    return [
        SentenceSpan(sentence.text, start + sentence.start, start + sentence.end)
        for start, end in _between(border, text)
        for sentence in split_sentences(
            text[start:end].translate(_AS_BLANKS), language=style.language, version=style.tokenizer_version
        )
    ]


_LINE_END = re.compile(r"\n")
_BLANK_LINES = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_AS_BLANKS = {ord("\r"): " ", ord("\n"): " "}


def _between(border: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """The stretches that the borders leave."""
    borders = [found.span() for found in border.finditer(text)]
    starts, ends = [0, *(end for _, end in borders)], [*(start for start, _ in borders), len(text)]
    return zip(starts, ends, strict=True)


# An initial before one of these spaces, as in "L .", stops the splitter's program with a panic; and lone surrogates
# cannot be handed to it at all.
_WIDE_SPACE = re.compile("[\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _starts(text: str, language: str) -> list[int]:
    """Where sentences begin, 0 first."""
    # Imported here, as all that only raw text needs.
    from sentencex import segment

    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", _WIDE_SPACE.sub(" ", text))
    starts = {0}
    end = 0
    for piece in segment(language, text):
        # Looked for, not counted: of long texts the splitter drops an empty line now and then.
        start = text.find(piece, end)
        if start >= 0:
            starts.add(start)
            end = start + len(piece)
    return sorted(starts)


_COUNTED = re.compile(rf"\b(?:{COUNTED})\.\s*\Z")
_NUMBER = re.compile(NUMBER)
_NUMBERED_ITEM = re.compile(r"\s*[0-9]{1,3}\.\s*")
_LETTERED_ITEM = re.compile(r"\s*(?:[A-Za-z]|[ivxIVX]{1,5})\.\s*")


def _without_cuts_at_numbers(text: str, starts: list[int]) -> list[int]:
    """The starts, less those between a counted thing and its number, and behind the number of an item."""
    kept: list[int] = []
    for start in starts:
        if not kept or not (_is_item(text, kept[-1], start) or _is_counted(text, kept[-1], start)):
            kept.append(start)
    return kept


def _is_item(text: str, start: int, end: int) -> bool:
    # A letter counts items only where a line begins; elsewhere it may be an answer.
    begins_line = start == 0 or "\n" in text[max(start - 2, 0) : start]
    return bool(
        _NUMBERED_ITEM.fullmatch(text, start, end) or (begins_line and _LETTERED_ITEM.fullmatch(text, start, end))
    )


def _is_counted(text: str, start: int, end: int) -> bool:
    return bool(_COUNTED.search(text, max(start, end - 12), end) and _NUMBER.match(text, end))
