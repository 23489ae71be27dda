"""Texts with one label each, to classify.

tsv       a text and its label in columns with tabs between them, which no quote can hide
csv       the same with commas, quoted where needed; a quoted text may go over several lines
jsonl     an object a line
fasttext  `__label__x`, a blank and the text, a line each (.txt)
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from elmore.display import join_names
from elmore.errors import InputError, error_context
from elmore.files.text_files import content_suffix, display_name, read_lines
from elmore.tasks.readers.json_lines import parse_json_line
from elmore.tasks.readers.table_rows import Column, Rows, check_width, column_place, csv_rows, tsv_rows

LabeledTextFormat = Literal["tsv", "csv", "jsonl", "fasttext"]

TEXT_COLUMNS = ("text", "sentence")
LABEL_COLUMNS = ("label",)
_FORMATS: dict[str, LabeledTextFormat] = {".tsv": "tsv", ".csv": "csv", ".jsonl": "jsonl", ".txt": "fasttext"}
_FASTTEXT = "__label__"


class LabeledText(NamedTuple):
    """A text and what it is."""

    text: str
    label: str
    line: int  # where it starts in its file, from 1


class _Columns(NamedTuple):
    """Which columns were asked for; None is the usual one."""

    text: Column | None
    label: Column | None


def read_labeled_text(
    path: str | Path,
    *,
    text_column: Column | None = None,
    label_column: Column | None = None,
    header: bool | None = None,
    format: LabeledTextFormat | None = None,  # noqa: A002  # as it is called where text is read
) -> list[LabeledText]:
    """The labelled texts of a file, plain or packed. Its name tells the format: .tsv, .csv, .jsonl, .txt (fastText).

    Columns go by the names in the first line or by number, counted from 0; in JSON lines by name. Unless told, the
    text is `text` or `sentence` and the label `label`; without such a first line, a file of two columns has the text
    in the first and the label in the second. `header` says whether the first line names the columns; None finds out.
    """
    name = display_name(path)
    form = format or _FORMATS.get(content_suffix(path))
    if form not in get_args(LabeledTextFormat):
        raise InputError(
            f"{name}: which format has it? Files are called .tsv, .csv, .jsonl or (fastText) .txt, packed or not; or "
            "say the format"
        )
    columns = _Columns(text_column, label_column)
    lines = enumerate(read_lines(path), start=1)
    match form:
        case "jsonl":
            found = _from_json(lines, columns, name)
        case "fasttext":
            found = _from_fasttext(lines, name)
        case _:
            rows = tsv_rows(lines) if form == "tsv" else csv_rows(lines, name)
            found = _from_rows(rows, columns, header, name)
    texts = []
    for text in found:
        if not text.text.strip():
            raise InputError(f"{name}, line {text.line}: the text is empty")
        if not text.label.strip():
            raise InputError(f"{name}, line {text.line}: the label is empty")
        texts.append(text)
    if not texts:
        raise InputError(f"{name}: holds no labelled texts")
    return texts


def _from_rows(rows: Rows, columns: _Columns, header: bool | None, name: str) -> Iterator[LabeledText]:
    first = next(rows, None)
    if first is None:
        return
    number, row = first
    names = _names(row, columns, header, f"{name}, line {number}")
    places = _places(names, len(row), columns, f"{name}, line {number}")
    if names is None:
        yield _from_row(number, row, places, len(row), name)
    for number, cells in rows:
        yield _from_row(number, cells, places, len(row), name)


def _names(row: Sequence[str], columns: _Columns, header: bool | None, where: str) -> list[str] | None:
    """The names of the columns, in small letters, if the first row has them."""
    names = [cell.strip().lower() for cell in row]
    asked = [column.lower() for column in columns if isinstance(column, str)]
    if header is False:
        if asked:
            raise InputError(f"{where}: without a first line of names, columns go by number, and not by {asked[0]!r}")
        return None
    if missing := [column for column in asked if column not in names]:
        raise InputError(f"{where}: there is no column {missing[0]!r}; the first line has {join_names(list(row))}")
    if header or asked:
        return names
    return names if {*TEXT_COLUMNS, *LABEL_COLUMNS} & {*names} else None


def _places(names: list[str] | None, width: int, columns: _Columns, where: str) -> tuple[int, int]:
    """The places of text and label in a row."""
    places = []
    for column, usual, role in zip(columns, (TEXT_COLUMNS, LABEL_COLUMNS), ("text", "label"), strict=True):
        if isinstance(column, int):
            places.append(column_place(column, width, where))
        elif names is None:
            if width != 2:
                raise InputError(
                    f"{where}: which of {width} columns is the {role}? Without names in the first line only files of "
                    "two columns (text, label) speak for themselves; say the column's number, from 0"
                )
            places.append(0 if role == "text" else 1)
        else:
            known = [one for one in ((column.lower(),) if column else usual) if one in names]
            if not known:
                raise InputError(f"{where}: which of the columns {join_names(names)} is the {role}? Say its name")
            if len(known) > 1 or names.count(known[0]) > 1:
                raise InputError(
                    f"{where}: more than one column may be the {role}: {join_names(names)}; say its number"
                )
            places.append(names.index(known[0]))
    if places[0] == places[1]:
        raise InputError(f"{where}: column {places[0]} is to be both text and label")
    return places[0], places[1]


def _from_row(number: int, row: list[str], places: tuple[int, int], width: int, name: str) -> LabeledText:
    check_width(row, width, f"{name}, line {number}")
    return LabeledText(row[places[0]], row[places[1]].strip(), number)


def _from_json(lines: Iterator[tuple[int, str]], columns: _Columns, name: str) -> Iterator[LabeledText]:
    for column in columns:
        if isinstance(column, int):
            raise InputError(f"{name}: the fields of JSON lines go by name, and not by number ({column})")
    for number, line in lines:
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        with error_context(where):
            record = parse_json_line(line)
        if not isinstance(record, dict):
            raise InputError(f'{where}: expected an object, such as {{"text": …, "label": …}}')
        text = _field(record, columns.text, TEXT_COLUMNS, where)
        label = _field(record, columns.label, LABEL_COLUMNS, where)
        if not isinstance(text, str):
            raise InputError(f"{where}: the text is to be a string, and is {text!r:.60}")
        if not isinstance(label, str | int):
            raise InputError(
                f"{where}: the label is to be a string, a whole number or true or false, and is {label!r:.60}"
            )
        yield LabeledText(text, str(label).lower() if isinstance(label, bool) else str(label).strip(), number)


def _field(record: dict[str, object], column: Column | None, usual: Sequence[str], where: str) -> object:
    names = [str(column)] if column is not None else [name for name in usual if name in record]
    if len(names) > 1:
        raise InputError(f"{where}: has both {' and '.join(names)}; say which one is meant")
    if not names or names[0] not in record:
        raise InputError(f"{where}: has no field {' or '.join(names or usual)!r}; it has {join_names(list(record))}")
    return record[names[0]]


def _from_fasttext(lines: Iterator[tuple[int, str]], name: str) -> Iterator[LabeledText]:
    for number, line in lines:
        if not line.strip():
            continue
        first, _, text = line.partition(" ")
        label = first.removeprefix(_FASTTEXT)
        if not (first.startswith(_FASTTEXT) and label):
            raise InputError(f"{name}, line {number}: expected {_FASTTEXT} and a label, a blank, and a text (fastText)")
        if text.startswith(_FASTTEXT):
            raise InputError(f"{name}, line {number}: has several labels; a text is to have one")
        yield LabeledText(text, label, number)
