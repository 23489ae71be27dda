"""Question answering: the span of a paragraph that answers a question, as in SQuAD 1.1.

The model is BiDAF with self-attention (`model`). A biLM encodes whole paragraphs. Scored by F1 and exact match, as in
SQuAD's official script.
"""

import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.display import pluralize
from elmore.errors import InputError, InputWarning
from elmore.files.text_files import display_name
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.results import tab_separated
from elmore.tasks.core.task import Dataset, Labels, Task
from elmore.tasks.inputs.tokenizer import StyledTokenizer, raw_text_tokenizer
from elmore.tasks.squad.metric import ScoredAnswer, SquadF1
from elmore.tasks.squad.model import PredictedAnswer, SquadExample, SquadModel, SquadOptions
from elmore.tasks.squad.reader import (
    MAX_WINDOW,
    SquadQuestion,
    TokenizedParagraph,
    Window,
    answer_tokens,
    most_frequent_answer,
    parse_request,
    read_squad,
    tokenize_paragraph,
)


@dataclass(frozen=True, kw_only=True)
class SquadRecipe(TaskRecipe):
    """Recipe of question answering."""

    task: SquadOptions = SquadOptions()  # noqa: RUF009  # frozen


@dataclass(frozen=True)
class Answer:
    """A question and its answer in the paragraph."""

    id: str
    question: str
    text: str
    start: int  # characters of the paragraph
    end: int
    probability: float


@dataclass(frozen=True)
class AnsweredQuestions:
    """A paragraph and the answers to its questions."""

    context: str
    answers: tuple[Answer, ...]

    def __str__(self) -> str:
        return "\n".join(
            tab_separated(answer.text, f"{answer.probability:.3f}", answer.question) for answer in self.answers
        )


def read(paths: Sequence[str | Path], options: SquadOptions, *, to_train: bool) -> Dataset[SquadExample]:
    """The questions of SQuAD's files; for training, only questions with a located answer."""
    examples: list[SquadExample] = []
    seen: Counter[str] = Counter()
    file_of_id: dict[str, int] = {}
    for number, path in enumerate(paths):
        # One name for all paragraphs of a file, so that equal warnings appear once.
        tokenizer = raw_text_tokenizer(options, name=f"{display_name(path)}, a paragraph")
        for stored in read_squad(path):
            for question in stored.questions:
                # Predictions are stored by id; training does not use ids.
                if file_of_id.setdefault(question.id, number) != number and not to_train:
                    raise InputError(f"{question.location}: the id {question.id!r} also occurs in another file")
            possible = [question for question in stored.questions if not question.is_impossible]
            seen["impossible"] += len(stored.questions) - len(possible)
            if not possible:
                continue
            paragraph = tokenize_paragraph(stored.context, tokenizer, possible[0].location)
            seen["windowed"] += len(paragraph.windows) > 1
            for question in possible:
                if to_train and not question.answers:
                    raise InputError(f"{question.location}: the question {question.id!r} has no answers to train on")
                windows = list(_windows(question, paragraph, tokenizer, seen))
                if to_train:
                    # A window without the answer is not a training example.
                    windows = [example for example in windows if example.span is not None][:1]
                    if not windows:
                        is_located = any(answer_tokens(answer, paragraph) for answer in question.answers)
                        seen["outside windows" if is_located else "not located"] += 1
                examples += windows
    return Dataset(examples, tuple(_notices(seen, to_train=to_train)))


def _windows(
    question: SquadQuestion, paragraph: TokenizedParagraph, tokenizer: StyledTokenizer, seen: Counter[str]
) -> Iterator[SquadExample]:
    """A question with each window of its paragraph; irregular answers are counted in `seen`."""
    located = [answer_tokens(answer, paragraph) for answer in question.answers]
    seen["wrong offset"] += located.count(None)
    seen["inside token"] += sum(answer is not None and not answer.is_whole for answer in located)
    answer = most_frequent_answer(located)
    example = SquadExample(
        (),
        _question_tokens(question.text, tokenizer, question.location),
        (),
        paragraph.text,
        question.id,
        tuple(gold.text for gold in question.answers),
        location=question.location,
    )
    for window in paragraph.windows:
        span = None
        if answer is not None and window.first <= answer.first and answer.last < window.first + len(window.tokens):
            span = (answer.first - window.first, answer.last - window.first)
        yield _in_window(example, window)._replace(span=span)


def _in_window(example: SquadExample, window: Window) -> SquadExample:
    return example._replace(context=window.tokens, offsets=window.offsets)


def _question_tokens(text: str, tokenizer: StyledTokenizer, location: str) -> list[str]:
    tokens = tokenizer.tokens(text).tokens
    if not tokens:
        raise InputError(f"{location}: the question {text[:60]!r} has no words")
    return tokens


def _notices(seen: Mapping[str, int], *, to_train: bool) -> Iterator[str]:
    """Notices about irregular questions and answers."""
    if number := seen["impossible"]:
        yield f"{pluralize(number, 'question')} without an answer (SQuAD 2.0) left out"
    if number := seen["wrong offset"]:
        effect = "not used for training" if to_train else "scored by the text"
        verb = "is" if number == 1 else "are"
        yield f"{pluralize(number, 'answer')} {verb} not at answer_start: {effect}"
    if number := seen["inside token"]:
        effect = "training uses the whole tokens" if to_train else "no prediction can match exactly"
        yield f"{pluralize(number, 'answer')} with a border inside of a token: {effect}"
    if number := seen["not located"]:
        yield f"{pluralize(number, 'question')} left out: no answer is at its answer_start"
    if number := seen["outside windows"]:
        yield f"{pluralize(number, 'question')} left out: no window of the paragraph contains the whole answer"
    if number := seen["windowed"]:
        yield (
            f"{pluralize(number, 'paragraph')} of more than {MAX_WINDOW} tokens divided into windows of {MAX_WINDOW}, "
            "which overlap by half; the best answer of all windows is predicted"
        )


def check(examples: Sequence[SquadExample], known: Labels) -> None:  # noqa: ARG001
    """Reject questions without answers, which cannot be scored."""
    for example in examples:
        if not example.answers:
            raise InputError(
                f"{example.location}: the question {example.id!r} has no answers and cannot be scored; for predictions "
                "only, run elmore predict --official"
            )


def best_answers(
    examples: Sequence[SquadExample], predictions: Sequence[PredictedAnswer]
) -> dict[str, tuple[SquadExample, PredictedAnswer]]:
    """For each question, by location, the best answer of all windows of its paragraph, in the order of the file."""
    best: dict[str, tuple[SquadExample, PredictedAnswer]] = {}
    for example, prediction in zip(examples, predictions, strict=True):
        if example.location not in best or prediction.score > best[example.location][1].score:
            best[example.location] = (example, prediction)
    return best


class AnswerF1(SquadF1[SquadExample, PredictedAnswer]):
    """F1 of answers, with one row for each question: the best answer of all windows of its paragraph."""

    def answers(self, examples: Sequence[SquadExample], predictions: Sequence[PredictedAnswer]) -> list[ScoredAnswer]:
        best = best_answers(examples, predictions)
        return [
            ScoredAnswer(location, example.answers, prediction.text) for location, (example, prediction) in best.items()
        ]


def official(examples: Sequence[SquadExample], predictions: Sequence[PredictedAnswer]) -> str:
    """The file that SQuAD's official script reads: a JSON object of answers by id."""
    best = best_answers(examples, predictions).values()
    return json.dumps({example.id: prediction.text for example, prediction in best}, ensure_ascii=False)


def from_text(text: str, tokenizer: StyledTokenizer) -> list[SquadExample]:
    request = parse_request(text)
    paragraph = tokenize_paragraph(request.context, tokenizer, "the paragraph")
    for notice in _notices(Counter(windowed=len(paragraph.windows) > 1), to_train=False):
        warnings.warn(f"{tokenizer.name}: {notice}", InputWarning, stacklevel=2)
    examples = []
    for name, question in request.questions:
        tokens = _question_tokens(question, tokenizer, f"question {name}")
        example = SquadExample((), tokens, (), paragraph.text, name, location=name)
        examples += [_in_window(example, window) for window in paragraph.windows]
    return examples


def result(
    text: str,
    examples: Sequence[SquadExample],
    predictions: Sequence[PredictedAnswer],
    known: Labels,  # noqa: ARG001
) -> AnsweredQuestions:
    request = parse_request(text)
    best = best_answers(examples, predictions)
    answers = []
    for name, question in request.questions:
        _, answer = best[name]
        answers.append(Answer(name, question, answer.text, answer.start, answer.end, answer.probability))
    return AnsweredQuestions(request.context, tuple(answers))


SQUAD: Task[SquadExample, PredictedAnswer] = Task(
    name="squad",
    summary="where in a paragraph the answer to a question stands",
    recipe=SquadRecipe,
    read=read,
    sentences=lambda example: (example.context, example.question),
    labels=lambda examples, options: {},  # noqa: ARG005  # an answer is a span
    check=check,
    build=lambda options, known, embedder: SquadModel(options, embedder),  # noqa: ARG005
    metric=AnswerF1(),
    official=official,
    parse=from_text,
    result=result,
)
