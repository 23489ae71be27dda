"""Files with a word a line and what is known of it in further columns: CoNLL-U, and the CoNLL formats before it.

Blank lines stand between sentences. All columns are kept, so that a task finds its tags, heads and spans in them.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from elmore.errors import InputError
from elmore.text.paragraphs import NumberedLines

Row = tuple[str, ...]


class ColumnSentence(NamedTuple):
    """A sentence of such a file."""

    words: list[str]
    label: str  # sent_id, where there is one
    line: int  # where it starts, from 1
    columns: tuple[Row, ...]  # all those of each word


_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*?)\s*")
_OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")  # a multiword token or an empty node


def conllu_sentences(lines: NumberedLines, *, name: str) -> Iterator[ColumnSentence]:
    """The syntactic words of CoNLL-U, whose ten columns have tabs between them."""
    for label, start, numbered in _blocks(lines, comments_anywhere=True):
        rows: list[Row] = []
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
            rows.append(row)
        if rows:
            yield ColumnSentence([row[1] for row in rows], label, start, tuple(rows))


def column_sentences(lines: NumberedLines, *, name: str) -> Iterator[ColumnSentence]:
    """The words of other column files, between whose columns stand tabs or blanks.

    The word is in the first; or in the second where the first numbers the words from 1, as in CoNLL-X and 2009; or in
    the fourth where the third numbers them from 0, as in CoNLL-2012. A line that says -DOCSTART- is a border of
    documents, and no sentence.
    """
    for label, start, numbered in _blocks(lines, comments_anywhere=False):
        rows = [(number, tuple(line.split("\t") if "\t" in line else line.split())) for number, line in numbered]
        rows = [(number, row) for number, row in rows if row[0] != "-DOCSTART-"]
        column = _word_column([row for _, row in rows])
        if column == 1:
            rows = [(number, row) for number, row in rows if not _OTHER_ID.fullmatch(row[0])]
        for number, row in rows:
            if not row[column]:
                raise InputError(f"{name}, line {number}: the word, in column {column + 1}, is missing")
        if rows:
            yield ColumnSentence([row[column] for _, row in rows], label, start, tuple(row for _, row in rows))


def _word_column(rows: list[Row]) -> int:
    if all(len(row) > 1 for row in rows):
        numbers = [row[0] for row in rows if not _OTHER_ID.fullmatch(row[0])]
        if numbers == [str(number) for number in range(1, len(numbers) + 1)]:
            return 1
    if all(len(row) > 3 for row in rows) and [row[2] for row in rows] == [str(number) for number in range(len(rows))]:
        return 3
    return 0


def _blocks(lines: NumberedLines, *, comments_anywhere: bool) -> Iterator[tuple[str, int, list[tuple[int, str]]]]:
    """Label, first line and rows of what stands between blank lines, comments left out."""
    rows: list[tuple[int, str]] = []
    label, start = "", 0
    for number, line in chain(lines, [(0, "")]):
        if not line.strip():
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
