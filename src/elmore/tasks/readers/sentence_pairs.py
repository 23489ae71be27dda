"""Pairs of sentences with a label, as SNLI and MultiNLI have them.

jsonl      an object a line: sentence1, sentence2 and gold_label, or premise, hypothesis and label
tsv, txt   columns with tabs between them, of the same names in the first line; or three without names: premise,
           hypothesis, label
csv        the same with commas, quoted where needed
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmore.display import join_names
from elmore.errors import InputError, error_context
from elmore.files.text_files import content_suffix, display_name, read_lines
from elmore.tasks.readers.json_lines import parse_json_line
from elmore.tasks.readers.table_rows import Column, Lines, Rows, check_width, column_place, csv_rows, tsv_rows

NO_CONSENSUS = ("-", "-1")  # the annotators did not agree: in the published files, and where labels are numbers

_USUAL = (("sentence1", "premise"), ("sentence2", "hypothesis"), ("gold_label", "label"))
_ROLES = ("premise", "hypothesis", "label")


class SentencePair(NamedTuple):
    """Two sentences, and what the second has to do with the first."""

    premise: str
    hypothesis: str
    label: str
    line: int  # where it starts in its file, from 1


class PairColumns(NamedTuple):
    """Which columns or fields are read; None is the usual one."""

    premise: Column | None = None
    hypothesis: Column | None = None
    label: Column | None = None


def read_sentence_pairs(path: str | Path, columns: PairColumns = PairColumns()) -> list[SentencePair]:  # noqa: B008  # a tuple
    """The pairs of a file, plain or packed, those without consensus included; its name tells the format."""
    name = display_name(path)
    lines = enumerate(read_lines(path), start=1)
    match content_suffix(path):
        case ".jsonl" | ".json":
            found = _from_json(lines, columns, name)
        case ".tsv" | ".txt":
            found = _from_rows(tsv_rows(lines), columns, name)
        case ".csv":
            found = _from_rows(csv_rows(lines, name), columns, name)
        case _:
            raise InputError(f"{name}: which format has it? Files are called .jsonl, .tsv, .txt or .csv, packed or not")
    pairs = []
    for pair in found:
        for role, text in zip(_ROLES, pair, strict=False):
            if not str(text).strip():
                raise InputError(f"{name}, line {pair.line}: the {role} is empty")
        pairs.append(pair)
    if not pairs:
        raise InputError(f"{name}: holds no pairs of sentences")
    return pairs


def parse_pair(text: str) -> tuple[str, str]:
    r"""A premise and a hypothesis as a user gives them: with a tab between them, or as an object of JSON.

    >>> parse_pair("A man sleeps.\tNobody is awake.")
    ('A man sleeps.', 'Nobody is awake.')
    """
    if text.lstrip().startswith("{"):
        record = _object(text, "the pair")
        premise, hypothesis = (_text(record, None, usual, "the pair") for usual in _USUAL[:2])
    else:
        cells = text.split("\t")
        if len(cells) != 2:
            raise InputError(
                f"there {'is' if len(cells) == 1 else 'are'} {len(cells)} of two sentences in {text[:60]!r}; {EXPECTED}"
            )
        premise, hypothesis = cells
    for role, sentence in (("premise", premise), ("hypothesis", hypothesis)):
        if not sentence.strip():
            raise InputError(f"the {role} is empty; {EXPECTED}")
    return premise, hypothesis


EXPECTED = (
    'expected a premise and a hypothesis with a tab between them, or an object of JSON, {"premise": …, "hypothesis": …}'
)


def _from_rows(rows: Rows, columns: PairColumns, name: str) -> Iterator[SentencePair]:
    first = next(rows, None)
    if first is None:
        return
    number, row = first
    where = f"{name}, line {number}"
    names = [cell.strip().lower() for cell in row]
    has_names = bool({one for usual in _USUAL for one in usual} & {*names}) or any(
        isinstance(column, str) for column in columns
    )
    if not has_names and len(row) != 3 and None in columns:
        raise InputError(
            f"{where}: which of {len(row)} columns are premise, hypothesis and label? Without names in the first line "
            "only files of these three columns speak for themselves; say the columns' numbers, from 0"
        )
    places = [
        _place(names if has_names else None, column, role, len(row), where) for role, column in enumerate(columns)
    ]
    if not has_names:
        yield _from_row(number, row, places)
    for number, cells in rows:
        check_width(cells, len(row), f"{name}, line {number}")
        yield _from_row(number, cells, places)


def _place(names: list[str] | None, column: Column | None, role: int, width: int, where: str) -> int:
    """The column of a role: premise, hypothesis, label."""
    if isinstance(column, int):
        return column_place(column, width, where)
    if names is None:
        return role
    wanted = _USUAL[role] if column is None else (column.lower(),)
    found = next((one for one in wanted if one in names), None)
    if found is None:
        raise InputError(
            f"{where}: no column is called {' or '.join(wanted)}, the {_ROLES[role]}; there are {join_names(names)}"
        )
    return names.index(found)


def _from_row(number: int, row: Sequence[str], places: Sequence[int]) -> SentencePair:
    premise, hypothesis, label = (row[place] for place in places)
    return SentencePair(premise, hypothesis, label.strip(), number)


def _from_json(lines: Lines, columns: PairColumns, name: str) -> Iterator[SentencePair]:
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        record = _object(line, where)
        premise, hypothesis = (
            _text(record, column, usual, where) for column, usual in zip(columns[:2], _USUAL[:2], strict=True)
        )
        label = _field(record, columns.label, _USUAL[2], where)
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise InputError(f"{where}: the label is to be a string or a whole number, and is {label!r:.60}")
        yield SentencePair(premise, hypothesis, str(label).strip(), number)


def _object(line: str, where: str) -> dict[str, object]:
    with error_context(where):
        record = parse_json_line(line)
    if not isinstance(record, dict):
        raise InputError(f"{where}: expected an object with sentence1 and sentence2, or premise and hypothesis")
    return record


def _text(record: dict[str, object], column: Column | None, usual: Sequence[str], where: str) -> str:
    value = _field(record, column, usual, where)
    if not isinstance(value, str):
        raise InputError(f"{where}: the {usual[1]} is to be a text, and is {value!r:.60}")
    return value


def _field(record: dict[str, object], column: Column | None, usual: Sequence[str], where: str) -> object:
    wanted = usual if column is None else (str(column),)
    found = next((name for name in wanted if name in record), None)
    if found is None:
        raise InputError(f"{where}: has no field {' or '.join(wanted)}; it has {join_names(list(record))}")
    return record[found]
