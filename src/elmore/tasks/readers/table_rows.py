"""Rows of tables, with the numbers of the lines they start in, and the columns that are asked for.

tsv   cells with tabs between them, which no quote can hide
csv   the same with commas, quoted where needed; a quoted cell may go over several lines
"""

import csv
from collections.abc import Iterator

from elmore.errors import InputError

Column = int | str
Lines = Iterator[tuple[int, str]]  # numbered from 1
Rows = Iterator[tuple[int, list[str]]]


def tsv_rows(lines: Lines) -> Rows:
    """The rows of lines with tabs."""
    return ((number, line.split("\t")) for number, line in lines if line)


def csv_rows(lines: Lines, name: str) -> Rows:
    """The rows of lines with commas; `name` is what complaints call the file."""
    start, last = 1, 0

    def with_ends() -> Iterator[str]:
        nonlocal last
        for number, line in lines:
            last = number
            yield f"{line}\n"

    rows = csv.reader(with_ends(), strict=True)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise InputError(
                f"{name}, line {start}: no CSV: {error}; a quote inside a quoted text is written twice"
            ) from None
        if row is None:
            return
        if row:
            yield start, row
        start = last + 1


def check_width(row: list[str], width: int, where: str) -> None:
    """Refuse a row that is longer or shorter than the first."""
    if len(row) != width:
        raise InputError(f"{where}: {width} columns are due, as in the first line, and here are {len(row)}")


def column_place(column: int, width: int, where: str) -> int:
    """Which cell of a row a number means; those below 0 count from the end."""
    if not -width <= column < width:
        raise InputError(f"{where}: there is no column {column}, counted from 0; here are {width}")
    return column % width
