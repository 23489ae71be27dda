"""Files with one word per line and annotations in further columns: CoNLL-U and the earlier CoNLL formats.

Blank lines separate sentences. All columns are returned, so that tasks find their tags, heads and spans.
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
    """A sentence of a file with columns."""

    words: list[str]
    label: str  # sent_id, or ""
    line: int  # of its start, from 1
    columns: tuple[Row, ...]  # all columns of each word
    word_lines: tuple[int, ...]  # the line of each word
    word_column: int  # the index of the column with the words


_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*?)\s*")
_OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")  # a multiword token or an empty node


def conllu_sentences(lines: NumberedLines, *, name: str) -> Iterator[ColumnSentence]:
    """The syntactic words of CoNLL-U, which has ten columns separated by tabs."""
    for label, start, numbered in _blocks(lines, comments_anywhere=True):
        rows: _NumberedRows = []
        for number, line in numbered:
            row = tuple(line.split("\t"))
            if len(row) != 10:
                raise InputError(
                    f"{name}, line {number}: has {len(row)} columns; CoNLL-U requires 10, separated by tabs"
                )
            if _OTHER_ID.fullmatch(row[0]):
                continue
            if row[0] != str(len(rows) + 1):
                raise InputError(f"{name}, line {number}: the word has number {row[0]!r}; it must be {len(rows) + 1}")
            if not row[1]:
                raise InputError(f"{name}, line {number}: the word (second column) is missing")
            rows.append((number, row))
        if rows:
            yield _sentence(rows, label, start, 1)


def column_sentences(lines: NumberedLines, *, name: str, word_column: int | None = None) -> Iterator[ColumnSentence]:
    """The words of other column files, whose columns are separated by tabs or spaces.

    `word_column` is the index of the column with the words. None: detected from the first sentences. It is the second
    column if the first numbers the words of each sentence from 1 (CoNLL-X, 2009), the fourth if the third numbers them
    from 0 (CoNLL-2012), otherwise the first. Lines with -DOCSTART- separate documents and belong to no sentence.
    """
    blocks = _rows(lines)
    column = word_column
    if column is None:
        column, blocks = _find_word_column(blocks)
    for label, start, block in blocks:
        has_other_ids = column == 1 and word_column is None
        rows = [(number, row) for number, row in block if not (has_other_ids and _OTHER_ID.fullmatch(row[0]))]
        for number, row in rows:
            if len(row) <= column:
                raise InputError(
                    f"{name}, line {number}: has {len(row)} columns, and the word is in column {column + 1}; each word "
                    "of a file must have the same columns"
                )
            if not row[column]:
                raise InputError(f"{name}, line {number}: the word (column {column + 1}) is missing")
        if rows and column and word_column is None and not _is_numbered(rows, column):
            raise InputError(
                f"{name}, line {rows[0][0]}: column {_NUMBERS[column].column + 1} does not number the words of this "
                "sentence, as it does in the sentences before; the words were expected in the column after it"
            )
        if rows:
            yield _sentence(rows, label, start, column)


LOOKAHEAD_SENTENCES = 100  # a single sentence can be the word "1"


class _Numbers(NamedTuple):
    column: int
    first: int


_NUMBERS = {1: _Numbers(column=0, first=1), 3: _Numbers(column=2, first=0)}  # by the column of the word


def _sentence(rows: _NumberedRows, label: str, start: int, word_column: int) -> ColumnSentence:
    numbers, columns = zip(*rows, strict=True)
    return ColumnSentence([row[word_column] for row in columns], label, start, columns, numbers, word_column)


def _rows(lines: NumberedLines) -> _Blocks:
    for label, start, numbered in _blocks(lines, comments_anywhere=False):
        # Not str.split(): a word can contain a no-break space.
        split = [
            (number, tuple(line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))))
            for number, line in numbered
        ]
        if rows := [(number, row) for number, row in split if row[0] != "-DOCSTART-"]:
            yield label, start, rows


def _find_word_column(blocks: _Blocks) -> tuple[int, _Blocks]:
    """The column of the words by the first sentences, and all sentences."""
    head, columns = [], list(_NUMBERS)
    for block in islice(blocks, LOOKAHEAD_SENTENCES):
        head.append(block)
        columns = [column for column in columns if _is_numbered(block[2], column)]
        if not columns:
            break
    return (columns[0] if head and columns else 0), chain(head, blocks)


def _is_numbered(rows: _NumberedRows, word_column: int) -> bool:
    """Whether the words of a sentence are numbered as in the format with this word column."""
    column, first = _NUMBERS[word_column]
    if any(len(row) <= word_column for _, row in rows):
        return False
    numbers = [row[column] for _, row in rows if not _OTHER_ID.fullmatch(row[column])]
    return numbers == [str(number) for number in range(first, first + len(numbers))]


def _blocks(lines: NumberedLines, *, comments_anywhere: bool) -> Iterator[tuple[str, int, list[tuple[int, str]]]]:
    """Label, first line, and numbered lines of each block between blank lines, without comments."""
    rows: list[tuple[int, str]] = []
    label, start = "", 0
    for number, line in chain(lines, [(0, "")]):
        if not line.strip(" \t"):
            if rows:
                yield label, start, rows
            rows, label, start = [], "", 0
            continue
        start = start or number
        # If lines begin with the word, the word can be a hash sign. Then comments are only above the words.
        if line.startswith("#") and (comments_anywhere or not (rows or "\t" in line)):
            label = sent_id[1] if (sent_id := _SENT_ID.fullmatch(line)) else label
        else:
            rows.append((number, line))
