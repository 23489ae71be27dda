"""Pairs of uses of words: whether they have the same sense (MCL-WiC), and how alike people find them (SCWS).

MCL-WiC  JSON lines: id, lemma, pos, sentence1, start1, end1, the same with 2, label (true: the same sense)
SCWS     18 columns with tabs between them: id, word and part of speech twice, two contexts in which `<b> word </b>`
         marks the word, the mean of the ratings, ten ratings from 0 to 10
"""

import re
from math import isfinite
from pathlib import Path
from typing import NamedTuple, TypeVar

from elmore.errors import InputError, error_context
from elmore.files.text_files import display_name, read_lines
from elmore.tasks.readers.json_lines import parse_json_line


class WordInContext(NamedTuple):
    """A word where it stands: the characters from `start` up to `end` of a text."""

    text: str
    start: int
    end: int


class WicPair(NamedTuple):
    """Two uses of a lemma, and whether they have the same sense."""

    lemma: str
    pos: str
    first: WordInContext
    second: WordInContext
    label: bool | None  # None where the file has none, which it may only if told
    line: int  # in its file, from 1


class RatedPair(NamedTuple):
    """Two words, each in a context of its own, and how alike people found them, from 0 to 10."""

    words: tuple[str, str]
    pos: tuple[str, str]  # n, v, a or r, as the file has it
    first: WordInContext
    second: WordInContext
    rating: float  # the mean of the ratings
    ratings: tuple[float, ...]
    line: int  # in its file, from 1


def read_wic(path: str | Path, *, labeled: bool = True) -> list[WicPair]:
    """The pairs of a file of JSON lines, plain or packed; with `labeled=False` a pair may lack its label."""
    name = display_name(path)
    pairs = [
        parse_wic_pair(line, number, f"{name}, line {number}", labeled=labeled)
        for number, line in enumerate(read_lines(path), start=1)
        if line.strip()
    ]
    if not pairs:
        raise InputError(f"{name}: holds no pairs; expected JSON lines with lemma, pos, sentence1, start1, end1, …")
    return pairs


_LABELS = {True: True, False: False, "T": True, "F": False}  # the letters are MCL-WiC's own files'


def parse_wic_pair(line: str, number: int, where: str, *, labeled: bool) -> WicPair:
    """The pair of one line of JSON; `where` is how complaints name it."""
    with error_context(where):
        record = parse_json_line(line)
    if not isinstance(record, dict):
        raise InputError(f"{where}: expected an object with lemma, pos, sentence1, start1, end1, …")
    label = record.get("label")
    if not isinstance(label, bool) and label not in ("T", "F") and (labeled or label is not None):
        raise InputError(f"{where}: the label is to be true or false, and is {_shown(record, 'label')}")
    lemma, pos = (_field(record, name, str, where) for name in ("lemma", "pos"))
    first, second = (_word_in_context(record, side, where) for side in ("1", "2"))
    return WicPair(lemma, pos, first, second, None if label is None else _LABELS[label], number)


def _word_in_context(record: dict[str, object], side: str, where: str) -> WordInContext:
    text = _field(record, f"sentence{side}", str, where)
    start, end = (_field(record, f"{name}{side}", int, where) for name in ("start", "end"))
    if not 0 <= start < end <= len(text):
        raise InputError(
            f"{where}: start{side} {start} and end{side} {end} mark no word in sentence{side}, which has {len(text)} "
            "characters"
        )
    return WordInContext(text, start, end)


_Value = TypeVar("_Value", str, int)


def _field(record: dict[str, object], name: str, kind: type[_Value], where: str) -> _Value:
    value = record.get(name)
    if not isinstance(value, kind) or isinstance(value, bool) or value == "":
        what = "a whole number" if kind is int else "a text"
        raise InputError(f"{where}: {name} is to be {what}, and is {_shown(record, name)}")
    return value


def _shown(record: dict[str, object], name: str) -> str:
    return f"{record[name]!r:.60}" if name in record else "missing"


_SCWS_COLUMNS = 18
_MARKED = re.compile(r"(?P<before>.*)<b> *(?P<word>.*?) *</b>(?P<after>.*)", re.DOTALL)


def read_scws(path: str | Path) -> list[RatedPair]:
    """The pairs of the ratings of Stanford's Contextual Word Similarities, plain or packed; the marks are taken out."""
    name = display_name(path)
    pairs = [
        _rated_pair(line, number, f"{name}, line {number}")
        for number, line in enumerate(read_lines(path), start=1)
        if line
    ]
    if not pairs:
        raise InputError(f"{name}: holds no pairs; expected {_SCWS_COLUMNS} columns with tabs between them")
    return pairs


def _rated_pair(line: str, number: int, where: str) -> RatedPair:
    fields = line.split("\t")
    if len(fields) != _SCWS_COLUMNS:
        raise InputError(f"{where}: {_SCWS_COLUMNS} columns with tabs between them are due, and here are {len(fields)}")
    _, word1, pos1, word2, pos2, context1, context2, *ratings = fields
    mean, *each = (_rating(rating, where) for rating in ratings)
    first, second = _marked_word(context1, "6", where), _marked_word(context2, "7", where)
    return RatedPair((word1, word2), (pos1, pos2), first, second, mean, tuple(each), number)


def _rating(text: str, where: str) -> float:
    try:
        rating = float(text)
    except ValueError:
        rating = float("nan")
    if not (isfinite(rating) and 0 <= rating <= 10):
        raise InputError(f"{where}: a rating is a number from 0 to 10, and here is {text[:40]!r}")
    return rating


def _marked_word(context: str, column: str, where: str) -> WordInContext:
    found = _MARKED.fullmatch(context)
    if not (found and found["word"]) or context.count("<b>") + context.count("</b>") != 2:
        raise InputError(f"{where}: column {column} is to mark one word, as in: the <b> nut </b> of a guitar")
    start = len(found["before"])
    text = f"{found['before']}{found['word']}{found['after']}"
    return WordInContext(text, start, start + len(found["word"]))
