"""Paragraphs with questions and their answers, as SQuAD has them: one JSON object for a file.

    {"data": [{"title": …, "paragraphs": [{"context": …, "qas": [
        {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}]}]}]}]}

Questions of SQuAD 2.0 may be marked as impossible to answer; whoever reads them sees that.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from elmore.display import join_names
from elmore.errors import InputError
from elmore.files.text_files import display_name, read_lines

_EXPECTED = 'expected an object as SQuAD has it, {"data": [{"paragraphs": …}]}'


class GoldAnswer(NamedTuple):
    """An answer, and the character of the paragraph at which it begins."""

    text: str
    start: int


class SquadQuestion(NamedTuple):
    """A question, and what people answered."""

    id: str
    text: str
    answers: tuple[GoldAnswer, ...]  # none where the file has none
    is_impossible: bool
    place: str  # in its file, for complaints


class SquadParagraph(NamedTuple):
    """A paragraph, and the questions about it."""

    context: str
    questions: tuple[SquadQuestion, ...]


def read_squad(path: str | Path) -> list[SquadParagraph]:
    """The paragraphs of a file, plain or packed."""
    name = display_name(path)
    # Line ends inside of a JSON string are escaped: these are only between its parts.
    text = "\n".join(read_lines(path))
    if not text.strip():
        raise InputError(f"{name}: is empty; {_EXPECTED}")
    try:
        stored = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}, line {error.lineno}: no JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{name}: no JSON of SQuAD's form: it is nested too deeply, or a number is too long") from None
    if not isinstance(stored, dict):
        raise InputError(f"{name}: {_EXPECTED}")
    paragraphs = list(_paragraphs(stored, name))
    seen: set[str] = set()
    for question in (question for paragraph in paragraphs for question in paragraph.questions):
        if question.id in seen:
            raise InputError(f"{question.place}: the id {question.id!r} stands twice in this file")
        seen.add(question.id)
    if not seen:
        raise InputError(f"{name}: holds no questions; SQuAD has them in the list qas of each paragraph")
    return paragraphs


def parse_paragraph(record: dict[str, Any], where: str) -> SquadParagraph:
    """One paragraph of such a file."""
    context = _field(record, "context", str, where)
    if not context.strip():
        raise InputError(f"{where}: the context is empty")
    found = []
    for number, question in enumerate(_objects(record, "qas", where), start=1):
        place = f"{where}, question {number}"
        answers = tuple(
            GoldAnswer(_field(answer, "text", str, place), _field(answer, "answer_start", int, place))
            # Files to be answered have none, or null.
            for answer in (() if question.get("answers") is None else _objects(question, "answers", place))
        )
        text = _field(question, "question", str, place)
        if not text.strip():
            raise InputError(f"{place}: the question is empty")
        is_impossible = question.get("is_impossible") is True
        found.append(SquadQuestion(_field(question, "id", str, place), text, answers, is_impossible, place))
    return SquadParagraph(context, tuple(found))


def _paragraphs(stored: dict[str, Any], name: str) -> Iterator[SquadParagraph]:
    for number, article in enumerate(_objects(stored, "data", name), start=1):
        where = f"{name}, article {number}"
        for place, paragraph in enumerate(_objects(article, "paragraphs", where), start=1):
            yield parse_paragraph(paragraph, f"{where}, paragraph {place}")


_Value = TypeVar("_Value", str, int)


def _field(record: dict[str, Any], name: str, kind: type[_Value], where: str) -> _Value:
    value = record.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        what = "a whole number" if kind is int else "a text"
        shown = f"is {value!r:.60}" if name in record else f"is missing; there are {join_names(list(record))}"
        raise InputError(f"{where}: {name} is to be {what}, and {shown}")
    return value


def _objects(record: dict[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    value = record.get(name)
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        shown = f"is {value!r:.60}" if name in record else f"is missing; there are {join_names(list(record))}"
        raise InputError(f"{where}: {name} is to be a list of objects, and {shown}")
    return value
