"""Paragraphs with questions and answers: files of SQuAD, requests of users, and their tokens.

    {"data": [{"title": …, "paragraphs": [{"context": …, "qas": [
        {"id": …, "question": …, "answers": [{"text": …, "answer_start": …}]}]}]}]}

Questions of SQuAD 2.0 may be marked as impossible to answer. A paragraph is tokenized once, and its questions share the
tokens, so that a biLM encodes them once. A very long paragraph is divided into windows.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmore.errors import InputError, error_context
from elmore.files.text_files import display_name, read_lines
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.readers.tables import json_field, json_object
from elmore.tasks.senses.target_words import covering_tokens

# In tokens. SQuAD's longest paragraph has about 700. The memory of self-attention grows with the square.
MAX_WINDOW = 800
EXPECTED_QUESTIONS = (
    'expected a JSON object with a paragraph and questions, {"context": …, "questions": […, …]}, or both separated by '
    "tabs"
)


_IS_A_FILE = "this looks like a file of SQuAD; use --official (in Python: official_predictions)"


class GoldAnswer(NamedTuple):
    """An answer, and the character of the paragraph at which it begins."""

    text: str
    start: int


class SquadQuestion(NamedTuple):
    """A question and its gold answers."""

    id: str
    text: str
    answers: tuple[GoldAnswer, ...]  # empty if the file has none
    is_impossible: bool
    location: str  # in its file, for messages


class SquadParagraph(NamedTuple):
    """A paragraph and its questions."""

    context: str
    questions: tuple[SquadQuestion, ...]


class Request(NamedTuple):
    """A paragraph and a user's questions about it."""

    context: str
    questions: Sequence[tuple[str, str]]  # id, text


def read_squad(path: str | Path) -> list[SquadParagraph]:
    """The paragraphs of a file, plain or compressed; ids are unique within the file."""
    name = display_name(path)
    # Joined with \n: a string in JSON has no line ends, they are only between its parts.
    text = "\n".join(read_lines(path))
    with error_context(name):
        if not text.strip():
            raise InputError('is empty; expected an object of SQuAD, {"data": [{"paragraphs": …}]}')
        articles = _objects(json_object(text), "data")
    paragraphs = [
        paragraph for number, article in enumerate(articles, 1) for paragraph in _article(article, number, name)
    ]
    seen: set[str] = set()
    for question in (question for paragraph in paragraphs for question in paragraph.questions):
        if question.id in seen:
            raise InputError(f"{question.location}: the id {question.id!r} occurs twice in this file")
        seen.add(question.id)
    if not seen:
        raise InputError(f"{name}: contains no questions; SQuAD stores them in the list qas of each paragraph")
    return paragraphs


def _article(article: dict[str, Any], number: int, name: str) -> Iterator[SquadParagraph]:
    where = f"{name}, article {number}"
    with error_context(where):
        paragraphs = _objects(article, "paragraphs")
    for index, paragraph in enumerate(paragraphs, start=1):
        yield parse_paragraph(paragraph, f"{where}, paragraph {index}")


def parse_paragraph(record: dict[str, Any], where: str) -> SquadParagraph:
    """One paragraph of a file of SQuAD."""
    with error_context(where):
        context, records = json_field(record, "context", str), _objects(record, "qas")
        if not context.strip():
            raise InputError("the context is empty")
    questions = []
    for number, question in enumerate(records, start=1):
        location = f"{where}, question {number}"
        with error_context(location):
            # Files without labels have no answers, or null.
            records = [] if question.get("answers") is None else _objects(question, "answers")
            answers = tuple(
                GoldAnswer(json_field(answer, "text", str), json_field(answer, "answer_start", int))
                for answer in records
            )
            text = json_field(question, "question", str)
            if not text.strip():
                raise InputError("the question is empty")
            is_impossible = question.get("is_impossible") is True
            questions.append(SquadQuestion(json_field(question, "id", str), text, answers, is_impossible, location))
    return SquadParagraph(context, tuple(questions))


def _objects(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value: list[Any] = json_field(record, name, list)
    if not all(isinstance(item, dict) for item in value):
        raise InputError(f"{name} must be a list of objects, not {value!r:.60}")
    return value


def parse_request(text: str) -> Request:
    r"""A paragraph and its questions as users write them: a JSON object, or texts separated by tabs.

    >>> parse_request('{"context": "Ann met Bob.", "questions": ["Who met Bob?", {"id": "x", "question": "Who?"}]}')
    Request(context='Ann met Bob.', questions=[('1', 'Who met Bob?'), ('x', 'Who?')])
    >>> parse_request("Ann met Bob.\tWho met Bob?").questions
    [('1', 'Who met Bob?')]
    """
    # A formatted file begins with a line that has only a brace.
    if text.strip() == "{":
        raise InputError(_IS_A_FILE)
    try:
        record = json_object(text) if text.lstrip().startswith("{") else None
        request = _tabbed_request(text) if record is None else _json_request(record)
        _check_request(request)
    except InputError as error:
        raise InputError(str(error) if str(error) == _IS_A_FILE else f"{error}; {EXPECTED_QUESTIONS}") from None
    return request


def _tabbed_request(text: str) -> Request:
    context, *questions = text.split("\t")
    return Request(context, [(str(number), question) for number, question in enumerate(questions, start=1)])


def _json_request(record: dict[str, Any]) -> Request:
    if "data" in record:
        raise InputError(_IS_A_FILE)
    if "qas" in record:
        paragraph = parse_paragraph(record, "the paragraph")
        return Request(paragraph.context, [(question.id, question.text) for question in paragraph.questions])
    context = json_field(record, "context", str)
    records = record.get("questions", [record["question"]] if "question" in record else [])
    if not isinstance(records, list):
        raise InputError(f"questions must be a list, not {records!r:.60}")
    return Request(context, [_question(number, question) for number, question in enumerate(records, start=1)])


def _question(number: int, question: Any) -> tuple[str, str]:
    name: Any = number
    if isinstance(question, dict):
        name, question = question.get("id", number), question.get("question")
    if not isinstance(question, str) or isinstance(name, bool) or not isinstance(name, int | str):
        raise InputError(f"question {name} must be a string, or an object with id and question")
    return str(name), question


def _check_request(request: Request) -> None:
    if not request.context.strip():
        raise InputError("the paragraph is empty")
    if not request.questions:
        raise InputError(f"there is no question about {request.context[:60]!r}")
    for name, question in request.questions:
        if not question.strip():
            raise InputError(f"question {name} is empty")
    [(most_frequent, times)] = Counter(name for name, _ in request.questions).most_common(1)
    if times > 1:
        raise InputError(
            f"{times} questions have the id {most_frequent!r}; ids must be unique (default: the question's number)"
        )


class Window(NamedTuple):
    """Tokens of a paragraph that the model processes together: all tokens, unless the paragraph is very long."""

    tokens: Sequence[str]
    offsets: Sequence[tuple[int, int]]  # of each token, the characters of the paragraph
    first: int  # the window's first token, counted in the paragraph


class TokenizedParagraph(NamedTuple):
    """A paragraph as tokens."""

    text: str
    offsets: Sequence[tuple[int, int]]
    windows: Sequence[Window]


def tokenize_paragraph(text: str, tokenizer: StyledTokenizer, where: str) -> TokenizedParagraph:
    """The tokens of a paragraph's sentences, in windows that overlap by half if there are too many."""
    sentences = tokenizer.sentences(text)
    tokens = [token for sentence in sentences for token in sentence.tokens]
    offsets = [span for sentence in sentences for span in sentence.offsets]
    if not tokens:
        raise InputError(f"{where}: the paragraph {text[:60]!r} has no words")
    windows = [Window(tokens[part], offsets[part], part.start) for part in window_slices(len(tokens))]
    return TokenizedParagraph(text, offsets, windows)


def window_slices(length: int, *, max_window: int | None = None) -> list[slice]:
    """The windows of a sequence; each overlaps the one before by half.

    >>> window_slices(11, max_window=4)
    [slice(0, 4, None), slice(2, 6, None), slice(4, 8, None), slice(6, 10, None), slice(8, 11, None)]
    >>> window_slices(3, max_window=4)
    [slice(0, 3, None)]
    """
    max_window = MAX_WINDOW if max_window is None else max_window
    if length <= max_window:
        return [slice(0, length)]
    step = max(max_window // 2, 1)
    return [slice(start, min(start + max_window, length)) for start in range(0, length - max_window + step, step)]


class AnswerTokens(NamedTuple):
    """The tokens of an answer."""

    first: int
    last: int
    is_whole: bool  # the answer begins and ends at borders of tokens


def answer_tokens(answer: GoldAnswer, paragraph: TokenizedParagraph) -> AnswerTokens | None:
    """The tokens of an answer; None if the paragraph does not have its text at its offset."""
    text, start = answer
    end = start + len(text)
    if start < 0 or not text.strip() or paragraph.text[start:end] != text:
        return None
    start, end = start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())
    span = covering_tokens(paragraph.offsets, start, end)
    if span is None:
        return None
    first, last = span[0], span[1] - 1
    is_whole = paragraph.offsets[first][0] == start and paragraph.offsets[last][1] == end
    return AnswerTokens(first, last, is_whole)


def most_frequent_answer(answers: Sequence[AnswerTokens | None]) -> AnswerTokens | None:
    """The most frequent of several annotators' answers, the first in a tie; None if no answer was located."""
    located = Counter(answer for answer in answers if answer is not None)
    return located.most_common(1)[0][0] if located else None
