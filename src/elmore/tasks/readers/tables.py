"""Rows of text with a label: labeled texts, and pairs of sentences as in SNLI and MultiNLI.

tsv       columns separated by tabs, without quoting
csv       columns separated by commas; cells may be quoted, and a quoted cell may span several lines
jsonl     one JSON object per line
fasttext  `__label__x`, a space and the text (.txt, labeled texts only)

A column is chosen by its name in the first line or by its number, counted from 0; in JSON lines by name.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from elmore.display import join_names
from elmore.errors import InputError, error_context
from elmore.files.text_files import content_suffix, display_name, read_lines

Column = int | str
T = TypeVar("T")

NO_CONSENSUS = ("-", "-1")  # labels of pairs on which the annotators did not agree
EXPECTED_PAIR = (
    'expected a premise and a hypothesis separated by a tab, or a JSON object {"premise": …, "hypothesis": …}'
)
_FASTTEXT = "__label__"


class LabeledText(NamedTuple):
    """A text and its label."""

    text: str
    label: str
    line: int  # where it begins in its file, from 1


class SentencePair(NamedTuple):
    """Two sentences and the label of their relation."""

    premise: str
    hypothesis: str
    label: str
    line: int  # where it begins in its file, from 1


class PairColumns(NamedTuple):
    """The columns or fields of a pair; None selects the usual names."""

    premise: Column | None = None
    hypothesis: Column | None = None
    label: Column | None = None


class _Role(NamedTuple):
    """A value that each row must have."""

    name: str
    usual: tuple[str, ...]  # names of its column, if the user chooses none
    column: Column | None


class _Row(NamedTuple):
    values: Sequence[str]  # one for each role
    line: int


def read_labeled_text(
    path: str | Path, *, text_column: Column | None = None, label_column: Column | None = None
) -> list[LabeledText]:
    """The labeled texts of a file, plain or compressed; its name determines the format: .tsv, .csv, .jsonl, .txt.

    By default the text is in the column `text` or `sentence` and the label in `label`. A file of two columns without
    these names has the text in the first and the label in the second.
    """
    roles = (_Role("text", ("text", "sentence"), text_column), _Role("label", ("label",), label_column))
    formats = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".txt": "fasttext"}
    return [LabeledText(text, label, line) for (text, label), line in _read_rows(path, formats, roles)]


def read_sentence_pairs(path: str | Path, columns: PairColumns = PairColumns()) -> list[SentencePair]:  # noqa: B008
    """The pairs of a file, plain or compressed, including pairs without consensus; its name determines the format.

    By default the columns are sentence1, sentence2 and gold_label, or premise, hypothesis and label. A file of three
    columns without these names has premise, hypothesis and label in this order.
    """
    formats = {".jsonl": "jsonl", ".json": "jsonl", ".tsv": "tsv", ".txt": "tsv", ".csv": "csv"}
    rows = _read_rows(path, formats, _pair_roles(columns))
    return [SentencePair(premise, hypothesis, label, line) for (premise, hypothesis, label), line in rows]


def parse_pair(text: str) -> tuple[str, str]:
    r"""A premise and a hypothesis as users write them: separated by a tab, or as a JSON object.

    >>> parse_pair("A man sleeps.\tNobody is awake.")
    ('A man sleeps.', 'Nobody is awake.')
    """
    roles = _pair_roles(PairColumns())[:2]
    try:
        if text.lstrip().startswith("{"):
            record = json_object(text)
            cells = [_text(record, role) for role in roles]
        else:
            cells = text.split("\t")
            if len(cells) != 2:
                raise InputError(f"there must be two sentences; {text[:60]!r} has {len(cells)}")
        for role, cell in zip(roles, cells, strict=True):
            if not cell.strip():
                raise InputError(f"the {role.name} is empty")
    except InputError as error:
        raise InputError(f"{error}; {EXPECTED_PAIR}") from None
    return cells[0], cells[1]


def _pair_roles(columns: PairColumns) -> tuple[_Role, ...]:
    usual = (("sentence1", "premise"), ("sentence2", "hypothesis"), ("gold_label", "label"))
    return tuple(_Role(*role) for role in zip(PairColumns._fields, usual, columns, strict=True))


def _read_rows(path: str | Path, formats: Mapping[str, str], roles: Sequence[_Role]) -> list[_Row]:
    """The rows of a file; the last role is the label."""
    name = display_name(path)
    form = formats.get(content_suffix(path))
    if form is None:
        raise InputError(f"{name}: unknown format; the name must end in {', '.join(formats)}, plain or compressed")
    lines = enumerate(read_lines(path), start=1)
    match form:
        case "jsonl":
            rows = _json_rows(lines, roles, name)
        case "fasttext":
            rows = _fasttext_rows(lines, name)
        case "csv":
            rows = _table_rows(csv_rows(lines, name), roles, name)
        case _:
            rows = _table_rows(((number, line.split("\t")) for number, line in lines if line), roles, name)
    found = []
    for row in rows:
        for role, value in zip(roles, row.values, strict=True):
            if not value.strip():
                raise InputError(f"{name}, line {row.line}: the {role.name} is empty")
        found.append(row)
    if not found:
        raise InputError(f"{name}: contains no rows with {' and '.join(role.name for role in roles)}")
    return found


def csv_rows(lines: Iterator[tuple[int, str]], name: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of numbered lines of CSV, each with the number of its first line."""
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
                f"{name}, line {start}: invalid CSV: {error}; write a quote inside a quoted text twice"
            ) from None
        if row is None:
            return
        if row:
            yield start, row
        start = last + 1


def _table_rows(rows: Iterator[tuple[int, list[str]]], roles: Sequence[_Role], name: str) -> Iterator[_Row]:
    first = next(rows, None)
    if first is None:
        return
    number, row = first
    where, width = f"{name}, line {number}", len(row)
    names = [cell.strip().lower() for cell in row]
    usual = {column for role in roles for column in role.usual}
    has_names = not usual.isdisjoint(names) or any(isinstance(role.column, str) for role in roles)
    with error_context(where):
        positions = _positions(names if has_names else None, width, roles)

    def at_positions(number: int, cells: list[str]) -> _Row:
        if len(cells) != width:
            raise InputError(
                f"{name}, line {number}: expected {width} columns, as in the first line; found {len(cells)}"
            )
        *texts, label = (cells[position] for position in positions)
        return _Row([*texts, label.strip()], number)

    if not has_names:
        yield at_positions(number, row)
    for number, cells in rows:
        yield at_positions(number, cells)


def _positions(names: Sequence[str] | None, width: int, roles: Sequence[_Role]) -> list[int]:
    """The column of each role."""
    if names is None and width != len(roles) and any(role.column is None for role in roles):
        raise InputError(
            f"cannot determine which of {width} columns are {', '.join(role.name for role in roles)}: the first line "
            f"has no column names, and there are not exactly {len(roles)} columns; pass the columns' numbers, from 0"
        )
    positions = []
    for index, role in enumerate(roles):
        if isinstance(role.column, int):
            if not -width <= role.column < width:
                raise InputError(
                    f"there is no column {role.column}; columns are numbered from 0, and there are {width}"
                )
            positions.append(role.column % width)
        elif names is None:
            positions.append(index)
        else:
            positions.append(names.index(_only_name(role, names)))
    for index, position in enumerate(positions):
        if position in positions[:index]:
            other = roles[positions.index(position)]
            raise InputError(f"column {position} is selected for both {other.name} and {roles[index].name}")
    return positions


def _only_name(role: _Role, names: Sequence[str]) -> str:
    """The column or field of a role, by name."""
    wanted = role.usual if role.column is None else (str(role.column).lower(),)
    matches = [name for name in names if name.lower() in wanted]
    if len(matches) != 1:
        problem = (
            f"more than one column may be the {role.name}" if matches else f"no column or field for the {role.name}"
        )
        raise InputError(f"{problem}: expected one of {', '.join(wanted)}; there are {join_names(names)}")
    return matches[0]


def _json_rows(lines: Iterator[tuple[int, str]], roles: Sequence[_Role], name: str) -> Iterator[_Row]:
    for role in roles:
        if isinstance(role.column, int):
            raise InputError(f"{name}: fields of JSON lines are selected by name, not by number ({role.column})")
    for number, line in lines:
        if not line.strip():
            continue
        with error_context(f"{name}, line {number}"):
            record = json_object(line)
            texts = [_text(record, role) for role in roles[:-1]]
            label = record[_only_name(roles[-1], list(record))]
            if not isinstance(label, str | int):
                raise InputError(f"the label must be a string, an integer or a boolean, not {label!r:.60}")
        yield _Row([*texts, str(label).lower() if isinstance(label, bool) else str(label).strip()], number)


def _text(record: Mapping[str, Any], role: _Role) -> str:
    value = record[_only_name(role, list(record))]
    if not isinstance(value, str):
        raise InputError(f"the {role.name} must be a string, not {value!r:.60}")
    return value


def _fasttext_rows(lines: Iterator[tuple[int, str]], name: str) -> Iterator[_Row]:
    for number, line in lines:
        if not line.strip():
            continue
        first, _, text = line.partition(" ")
        label = first.removeprefix(_FASTTEXT)
        if not (first.startswith(_FASTTEXT) and label):
            raise InputError(f"{name}, line {number}: expected {_FASTTEXT} and a label, a space and a text (fastText)")
        if text.startswith(_FASTTEXT):
            raise InputError(f"{name}, line {number}: has several labels; a text must have one label")
        yield _Row([text, label], number)


def parse_json(text: str) -> Any:
    """The value of a JSON text. The caller adds the file and line to errors.

    >>> parse_json('{"label": yes}')
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: invalid JSON: Expecting value at column 11
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        # Python's "line 1" would conflict with the line number in the file. Text from a program may have several lines.
        position = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise InputError(f"invalid JSON: {error.msg} at {position}") from None
    except (ValueError, RecursionError):
        raise InputError("unreadable JSON: the nesting is too deep, or a number is too long") from None


def json_object(text: str) -> dict[str, Any]:
    """The object of a JSON text."""
    record = parse_json(text)
    if not isinstance(record, dict):
        raise InputError(f"expected a JSON object, such as {{…}}, not {text[:40]!r}")
    return record


_KIND_NAMES: Mapping[type, str] = {str: "a string", int: "an integer", list: "a list", dict: "an object"}


def json_field(record: Any, name: str, kind: type[T]) -> T:
    """A field of a JSON object, checked for its type.

    >>> json_field({"start": "4"}, "start", int)
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: start must be an integer, not '4'
    """
    if not isinstance(record, dict) or name not in record:
        fields = f"; the object has {join_names(list(record))}" if isinstance(record, dict) and record else ""
        raise InputError(f"{name} is missing{fields}")
    value = record[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"{name} must be {_KIND_NAMES[kind]}, not {value!r:.60}")
    return value
