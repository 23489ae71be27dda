"""Questions about paragraphs as a reader sees them: tokens with their places, and windows of what is very long.

A paragraph is cut once, and its questions share its tokens: a biLM reads them once, too.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from elmore.errors import InputError
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.readers.json_lines import parse_json_line
from elmore.tasks.senses.target_words import covering_tokens
from elmore.tasks.squad.reader import GoldAnswer, SquadQuestion, parse_paragraph

# In tokens. SQuAD's longest paragraph has some 700; beyond this, attention of all to all would take the memory.
LONGEST_WINDOW = 800


class Window(NamedTuple):
    """Tokens of a paragraph that are read together: all, unless it is very long."""

    tokens: Sequence[str]
    offsets: Sequence[tuple[int, int]]  # the characters of the paragraph that each token stands at
    first: int  # which token of the paragraph is the window's first


class CutParagraph(NamedTuple):
    """A paragraph as tokens."""

    text: str
    offsets: Sequence[tuple[int, int]]
    windows: Sequence[Window]


def cut_paragraph(text: str, tokenizer: StyledTokenizer, where: str) -> CutParagraph:
    """The tokens of all of a paragraph's sentences, in windows that overlap by half where there are too many."""
    sentences = tokenizer.sentences(text)
    tokens = [token for sentence in sentences for token in sentence.tokens]
    offsets = [span for sentence in sentences for span in sentence.offsets]
    if not tokens:
        raise InputError(f"{where}: there are no words in the paragraph {text[:60]!r}")
    return CutParagraph(
        text, offsets, [Window(tokens[own], offsets[own], own.start) for own in window_slices(len(tokens))]
    )


def window_slices(length: int, *, longest: int | None = None) -> list[slice]:
    """Where windows lie; each has half of the one before.

    >>> window_slices(11, longest=4)
    [slice(0, 4, None), slice(2, 6, None), slice(4, 8, None), slice(6, 10, None), slice(8, 11, None)]
    >>> window_slices(3, longest=4)
    [slice(0, 3, None)]
    """
    longest = LONGEST_WINDOW if longest is None else longest
    if length <= longest:
        return [slice(0, length)]
    step = max(longest // 2, 1)
    return [slice(start, min(start + longest, length)) for start in range(0, length - longest + step, step)]


class PlacedAnswer(NamedTuple):
    """The tokens that hold an answer."""

    first: int
    last: int
    is_whole: bool  # whether it begins and ends where tokens do


def place_answer(answer: GoldAnswer, paragraph: CutParagraph) -> PlacedAnswer | None:
    """Where an answer stands among the tokens of a paragraph; None if it does not stand where it is said to."""
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
    return PlacedAnswer(first, last, is_whole)


def placed_answers(question: SquadQuestion, paragraph: CutParagraph) -> list[PlacedAnswer | None]:
    """Where each of a question's answers stands."""
    return [place_answer(answer, paragraph) for answer in question.answers]


def agreed_answer(answers: Sequence[PlacedAnswer | None]) -> PlacedAnswer | None:
    """Of several people's answers the most frequent, of equals the first; None if none has a place."""
    placed = Counter(answer for answer in answers if answer is not None)
    return placed.most_common(1)[0][0] if placed else None


EXPECTED = (
    'expected an object of JSON with a paragraph and questions, {"context": …, "questions": […, …]}, or both with '
    "tabs between them"
)


class AskedQuestions(NamedTuple):
    """A paragraph and the questions that a user has about it."""

    context: str
    questions: Sequence[tuple[str, str]]  # id, text


def parse_questions(text: str) -> AskedQuestions:
    r"""A paragraph and its questions, as a user gives them: an object of JSON, or texts with tabs between them.

    >>> parse_questions('{"context": "Ann met Bob.", "questions": ["Who met Bob?", {"id": "x", "question": "Who?"}]}')
    AskedQuestions(context='Ann met Bob.', questions=[('1', 'Who met Bob?'), ('x', 'Who?')])
    >>> parse_questions("Ann met Bob.\tWho met Bob?").questions
    [('1', 'Who met Bob?')]
    """
    if not text.lstrip().startswith("{"):
        context, *questions = text.split("\t")
        return _checked(context, [(str(number), question) for number, question in enumerate(questions, start=1)])
    # Laid out over many lines a file begins with a brace alone.
    if text.strip() == "{" or "data" in (record := parse_json_line(text)):
        raise InputError("looks like a whole file of SQuAD, which --official reads (in Python: official_predictions)")
    if "qas" in record:
        paragraph = parse_paragraph(record, "the paragraph")
        return _checked(paragraph.context, [(question.id, question.text) for question in paragraph.questions])
    questions = record.get("questions", [record["question"]] if "question" in record else [])
    if not isinstance(record.get("context"), str) or not isinstance(questions, list):
        raise InputError(f"context is to be a text, and questions a list; {EXPECTED}")
    return _checked(record["context"], [_asked(number, one) for number, one in enumerate(questions, start=1)])


def _asked(number: int, question: Any) -> tuple[str, str]:
    if isinstance(question, dict):
        number, question = question.get("id", number), question.get("question")
    if not isinstance(question, str) or isinstance(number, bool) or not isinstance(number, int | str):
        raise InputError(f"question {number} is to be a text, or an object with id and question; {EXPECTED}")
    return str(number), question


def _checked(context: str, questions: Sequence[tuple[str, str]]) -> AskedQuestions:
    if not context.strip():
        raise InputError(f"the paragraph is empty; {EXPECTED}")
    if not questions:
        raise InputError(f"there is no question about {context[:60]!r}; {EXPECTED}")
    for name, question in questions:
        if not question.strip():
            raise InputError(f"question {name} is empty; {EXPECTED}")
    [(most_frequent, times)] = Counter(name for name, _ in questions).most_common(1)
    if times > 1:
        raise InputError(
            f"{times} questions have the id {most_frequent!r}; give each its own (without one, it is its number)"
        )
    return AskedQuestions(context, list(questions))
