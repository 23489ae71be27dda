"""Surprisals as a table, a row for each word: tab- or comma-separated, JSON or JSON lines, as a file's name says.

    sentence  position  word  in_vocabulary  forward  backward  both

Sentences and positions count from 0. Numbers are bits, or natural logarithms of probabilities, and then the last three
columns are called log_forward, log_backward and log_both. A direction that the model lacks is empty, in JSON null.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Literal, TextIO

from elmore.errors import InputError
from elmore.scoring.surprisal import Surprisal, log_probabilities

TableFormat = Literal["tsv", "csv", "json", "jsonl"]
SUFFIXES: Mapping[str, TableFormat] = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}

Row = dict[str, object]


def table_format(name: str) -> TableFormat:
    """The format that a file's name asks for; `-`, standard output, is tab-separated.

    >>> table_format("scores.csv"), table_format("-")
    ('csv', 'tsv')
    """
    if name == "-":
        return "tsv"
    if found := SUFFIXES.get(PurePath(name).suffix.lower()):
        return found
    raise InputError(f"{name}: a table of surprisals is written to {', '.join(SUFFIXES)}; end the name in one of them")


def is_table(path: Path) -> bool:
    """Whether a file is a table of surprisals, or holds nothing at all."""
    with path.open("rb") as file:
        begin = file.read(max(map(len, _BEGINNINGS)))
    return not begin or begin.startswith(_BEGINNINGS)


_BEGINNINGS = (
    b"sentence\tposition\tword\t",
    b"sentence,position,word,",
    b'[\n{"sentence": ',
    b'{"sentence": ',
    b"[]\n",
)


def write_table(
    scores: Iterable[Surprisal],
    file: TextIO,
    *,
    format: TableFormat,  # noqa: A002 (the word for it everywhere)
    logarithms: bool = False,
) -> int:
    """Write a row for each word, and say how many; nothing is written before the first sentence is scored."""
    source = iter(scores)
    first = list(islice(source, 1))
    rows = _rows(chain(first, source), logarithms=logarithms)
    if format in ("csv", "tsv"):
        return _write_separated(rows, file, format=format, columns=_columns(logarithms=logarithms))
    return _write_json(rows, file, as_lines=format == "jsonl")


def _columns(*, logarithms: bool) -> list[str]:
    prefix = "log_" if logarithms else ""
    return [
        "sentence",
        "position",
        "word",
        "in_vocabulary",
        *(prefix + side for side in ("forward", "backward", "both")),
    ]


def _rows(scores: Iterable[Surprisal], *, logarithms: bool) -> Iterator[Row]:
    columns = _columns(logarithms=logarithms)
    convert = log_probabilities if logarithms else lambda bits: bits
    for number, (words, in_vocabulary, *sides) in enumerate(scores):
        numbers = [[None] * len(words) if bits is None else convert(bits).round(6).tolist() for bits in sides]
        for position, cells in enumerate(zip(words, in_vocabulary, *numbers, strict=True)):
            yield dict(zip(columns, (number, position, *cells), strict=True))


def _write_separated(rows: Iterator[Row], file: TextIO, *, format: str, columns: list[str]) -> int:  # noqa: A002
    # A word with a quotation mark in it is quoted as Excel, R and pandas expect.
    table = csv.writer(file, dialect="excel-tab" if format == "tsv" else "excel", lineterminator="\n")
    table.writerow(columns)
    written = 0
    for row in rows:
        table.writerow([_cell(value) for value in row.values()])
        written += 1
    return written


def _cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bool():
            return int(value)
        case float():
            return f"{value:.6f}"
        case _:
            return value


def _write_json(rows: Iterator[Row], file: TextIO, *, as_lines: bool) -> int:
    """An object a line; without `as_lines`, between brackets and with commas, so that the whole is JSON too."""
    written = 0
    for row in rows:
        line = json.dumps(row, ensure_ascii=False)
        file.write(f"{line}\n" if as_lines else f",\n{line}" if written else f"[\n{line}")
        written += 1
    if not as_lines:
        file.write("\n]\n" if written else "[]\n")
    return written
