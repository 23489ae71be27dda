"""Files with a word a line and what is known of it in further columns: CoNLL-U, and the CoNLL formats before it.

Blank lines stand between sentences. All columns are kept, so that a task finds its tags, heads and spans in them.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

from elmore.errors import InputError
from elmore.text.paragraphs import NumberedLines

Row = tuple[str, ...]
_NumberedRows = list[tuple[int, Row]]
_Blocks = Iterator[tuple[str, int, _NumberedRows]]  # label, first line, rows


class ColumnSentence(NamedTuple):
    """A sentence of such a file."""

    words: list[str]
    label: str  # sent_id, where there is one
    line: int  # where it starts, from 1
    columns: tuple[Row, ...]  # all those of each word
    word_lines: tuple[int, ...]  # where each word stands
    word_column: int  # which of the columns is the word, from 0


_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*?)\s*")
_OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")  # a multiword token or an empty node


def conllu_sentences(lines: NumberedLines, *, name: str) -> Iterator[ColumnSentence]:
    """The syntactic words of CoNLL-U, whose ten columns have tabs between them."""
    for label, start, numbered in _blocks(lines, comments_anywhere=True):
        rows: _NumberedRows = []
        for number, line in numbered:
            row = tuple(line.split("\t"))
            if len(row) != 10:
                raise InputError(
                    f"{name}, line {number}: CoNLL-U has 10 columns with tabs between them, and here are {len(row)}"
                )
            if _OTHER_ID.fullmatch(row[0]):
                continue
            if row[0] != str(len(rows) + 1):
                raise InputError(
                    f"{name}, line {number}: word {len(rows) + 1} is due here, and its number is {row[0]!r}"
                )
            if not row[1]:
                raise InputError(f"{name}, line {number}: the word (second column) is missing")
            rows.append((number, row))
        if rows:
            yield _sentence(rows, label, start, 1)


def column_sentences(lines: NumberedLines, *, name: str, word_column: int | None = None) -> Iterator[ColumnSentence]:
    """The words of other column files, between whose columns stand tabs or blanks.

    The word is in column `word_column`, counted from 0. Without one the first sentences tell: it is the first; or the
    second where the first numbers the words of each from 1, as in CoNLL-X and 2009; or the fourth where the third
    numbers them from 0, as in CoNLL-2012. A line that says -DOCSTART- is a border of documents, and no sentence.
    """
    blocks = _rows(lines)
    place = word_column
    if place is None:
        place, blocks = _find_word_column(blocks)
    for label, start, found in blocks:
        others = place == 1 and word_column is None
        rows = [(number, row) for number, row in found if not (others and _OTHER_ID.fullmatch(row[0]))]
        for number, row in rows:
            if len(row) <= place:
                raise InputError(
                    f"{name}, line {number}: the word is in column {place + 1}, and here are {len(row)}; "
                    "every word of a sentence has the same columns"
                )
            if not row[place]:
                raise InputError(f"{name}, line {number}: the word is in column {place + 1}, and is empty")
        if rows and place and word_column is None and not _is_numbered(rows, place):
            raise InputError(
                f"{name}, line {rows[0][0]}: column {_NUMBERS[place].column + 1} numbers the words of the sentences "
                "before this one, so that the word is in the column after it; here it does not"
            )
        if rows:
            yield _sentence(rows, label, start, place)


LOOKAHEAD_SENTENCES = 100  # a sentence alone may be the word "1"; so many are not


class _Numbers(NamedTuple):
    column: int
    first: int


_NUMBERS = {1: _Numbers(column=0, first=1), 3: _Numbers(column=2, first=0)}  # for each column that the word may be in


def _sentence(rows: _NumberedRows, label: str, start: int, place: int) -> ColumnSentence:
    numbers, columns = zip(*rows, strict=True)
    return ColumnSentence([row[place] for row in columns], label, start, columns, numbers, place)


def _rows(lines: NumberedLines) -> _Blocks:
    for label, start, numbered in _blocks(lines, comments_anywhere=False):
        # Not str.split(): a word may hold a no-break space.
        cut = [
            (number, tuple(line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))))
            for number, line in numbered
        ]
        if rows := [(number, row) for number, row in cut if row[0] != "-DOCSTART-"]:
            yield label, start, rows


def _find_word_column(blocks: _Blocks) -> tuple[int, _Blocks]:
    """The column of the word, as the first sentences show it, and all sentences."""
    head, places = [], list(_NUMBERS)
    for block in islice(blocks, LOOKAHEAD_SENTENCES):
        head.append(block)
        places = [place for place in places if _is_numbered(block[2], place)]
        if not places:
            break
    return (places[0] if head and places else 0), chain(head, blocks)


def _is_numbered(rows: _NumberedRows, place: int) -> bool:
    """Whether the words of a sentence are numbered in the way that goes with the word in this column."""
    column, first = _NUMBERS[place]
    if any(len(row) <= place for _, row in rows):
        return False
    numbers = [row[column] for _, row in rows if not _OTHER_ID.fullmatch(row[column])]
    return numbers == [str(number) for number in range(first, first + len(numbers))]


def _blocks(lines: NumberedLines, *, comments_anywhere: bool) -> Iterator[tuple[str, int, list[tuple[int, str]]]]:
    """Label, first line and rows of what stands between blank lines, comments left out."""
    rows: list[tuple[int, str]] = []
    label, start = "", 0
    for number, line in chain(lines, [(0, "")]):
        if not line.strip(" \t"):
            if rows:
                yield label, start, rows
            rows, label, start = [], "", 0
            continue
        start = start or number
        # Where a line begins with its word, that may be a hash sign; comments stand above the words.
        if line.startswith("#") and (comments_anywhere or not (rows or "\t" in line)):
            label = found[1] if (found := _SENT_ID.fullmatch(line)) else label
        else:
            rows.append((number, line))
