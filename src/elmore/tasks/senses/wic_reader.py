"""Pairs of uses of words: whether they have the same sense (MCL-WiC), and how similar people rate them (SCWS).

MCL-WiC  JSON lines: id, lemma, pos, sentence1, start1, end1, sentence2, start2, end2, label (true: the same sense)
SCWS     18 tab-separated columns: id, word and part of speech twice, two contexts in which `<b> word </b>` marks the
         word, the mean of the ratings, ten ratings from 0 to 10
"""

import re
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from elmore.errors import InputError, error_context
from elmore.files.text_files import display_name, read_lines
from elmore.tasks.readers.tables import json_field, json_object

EXPECTED_USES = (
    "expected two texts separated by a tab, with a word of each in brackets, as in: I sat on the [bank].\\tThe [bank] "
    "is closed. Or a JSON object with lemma, pos, sentence1, start1, end1, sentence2, start2, end2"
)


class WordInContext(NamedTuple):
    """A word in a text: the characters from `start` up to `end`."""

    text: str
    start: int
    end: int


class WicPair(NamedTuple):
    """Two uses of a lemma, and whether they have the same sense."""

    lemma: str
    pos: str
    first: WordInContext
    second: WordInContext
    label: bool | None  # None for an unlabeled pair
    line: int  # in its file, from 1


class RatedPair(NamedTuple):
    """Two words in their contexts, and how similar people rate them, from 0 to 10."""

    words: tuple[str, str]
    pos: tuple[str, str]  # n, v, a or r, as in the file
    first: WordInContext
    second: WordInContext
    rating: float  # the mean of the ratings
    ratings: tuple[float, ...]
    line: int  # in its file, from 1


def read_wic(path: str | Path, *, labeled: bool = True) -> list[WicPair]:
    """The pairs of a file of JSON lines, plain or compressed; with `labeled=False`, pairs may lack their labels."""
    name = display_name(path)
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            with error_context(f"{name}, line {number}"):
                pairs.append(parse_wic_pair(line, number, labeled=labeled))
    if not pairs:
        raise InputError(f"{name}: contains no pairs; expected JSON lines with lemma, pos, sentence1, start1, end1, …")
    return pairs


_LABELS = {True: True, False: False, "T": True, "F": False}  # MCL-WiC's files have the letters


def parse_wic_pair(line: str, number: int = 1, *, labeled: bool) -> WicPair:
    """The pair of one line of JSON."""
    record = json_object(line)
    label = record.get("label")
    if not isinstance(label, bool) and label not in ("T", "F") and (labeled or label is not None):
        raise InputError(f"the label must be true or false, and is {'missing' if label is None else repr(label)[:60]}")
    lemma, pos = json_field(record, "lemma", str), json_field(record, "pos", str)
    if not (lemma and pos):
        raise InputError(f"{'pos' if lemma else 'lemma'} is empty")
    first, second = _word_in_context(record, "1"), _word_in_context(record, "2")
    return WicPair(lemma, pos, first, second, None if label is None else _LABELS[label], number)


def _word_in_context(record: dict[str, Any], side: str) -> WordInContext:
    text = json_field(record, f"sentence{side}", str)
    start, end = json_field(record, f"start{side}", int), json_field(record, f"end{side}", int)
    if not 0 <= start < end <= len(text):
        raise InputError(
            f"start{side} {start} and end{side} {end} are not a word of sentence{side} ({len(text)} characters)"
        )
    return WordInContext(text, start, end)


def parse_uses(line: str) -> tuple[WordInContext, WordInContext]:
    r"""Two uses, as users write them.

    >>> parse_uses("I sat on the [bank].\tThe [bank] is closed.")[1]
    WordInContext(text='The bank is closed.', start=4, end=8)
    """
    try:
        if line.lstrip().startswith("{"):
            pair = parse_wic_pair(line, labeled=False)
            return pair.first, pair.second
        uses = [_bracketed_word(text) for text in line.split("\t")]
        if len(uses) != 2:
            raise InputError(f"there must be two texts; {line[:60]!r} has {len(uses)}")
    except InputError as error:
        raise InputError(f"{error}; {EXPECTED_USES}") from None
    return uses[0], uses[1]


def _bracketed_word(text: str) -> WordInContext:
    before, opening, rest = text.partition("[")
    word, closing, after = rest.partition("]")
    if not (opening and closing and word.strip()) or "[" in rest or "]" in after:
        raise InputError(f"{text[:60]!r} must have exactly one word in brackets")
    return WordInContext(before + word + after, len(before), len(before) + len(word))


_SCWS_COLUMNS = 18
_MARKED = re.compile(r"(?P<before>.*)<b> *(?P<word>.*?) *</b>(?P<after>.*)", re.DOTALL)


def read_scws(path: str | Path) -> list[RatedPair]:
    """The pairs of Stanford's Contextual Word Similarities, plain or compressed; the marks are removed."""
    name = display_name(path)
    pairs = []
    for number, line in enumerate(read_lines(path), start=1):
        if line:
            with error_context(f"{name}, line {number}"):
                pairs.append(_rated_pair(line, number))
    if not pairs:
        raise InputError(f"{name}: contains no pairs; expected {_SCWS_COLUMNS} tab-separated columns")
    return pairs


def _rated_pair(line: str, number: int) -> RatedPair:
    fields = line.split("\t")
    if len(fields) != _SCWS_COLUMNS:
        raise InputError(f"expected {_SCWS_COLUMNS} tab-separated columns; found {len(fields)}")
    _, word1, pos1, word2, pos2, context1, context2, *ratings = fields
    mean, *single = map(_rating, ratings)
    first, second = _marked_word(context1, 6), _marked_word(context2, 7)
    return RatedPair((word1, word2), (pos1, pos2), first, second, mean, tuple(single), number)


def _rating(text: str) -> float:
    try:
        rating = float(text)
    except ValueError:
        rating = float("nan")
    if not (isfinite(rating) and 0 <= rating <= 10):
        raise InputError(f"a rating must be a number from 0 to 10, not {text[:40]!r}")
    return rating


def _marked_word(context: str, column: int) -> WordInContext:
    match = _MARKED.fullmatch(context)
    if not (match and match["word"]) or context.count("<b>") + context.count("</b>") != 2:
        raise InputError(f"column {column} must mark one word, as in: the <b> nut </b> of a guitar")
    start = len(match["before"])
    text = f"{match['before']}{match['word']}{match['after']}"
    return WordInContext(text, start, start + len(match["word"]))
