"""Reading: where in a paragraph the answer to a question stands, as SQuAD 1.1 has it.

The model is BiDAF with self-attention (Clark and Gardner, 2017), as Peters et al., 2018, A.4, have it: ELMo reads whole
paragraphs, and enters beside the word vectors and at the input of the attention. Scored by F1 and exact match, as
SQuAD's official script counts.

B questions.
"""

import json
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor

from elmore.display import pluralize
from elmore.errors import InputError, InputWarning
from elmore.fields import checked_field
from elmore.files.text_files import display_name
from elmore.nn.devices import send
from elmore.tasks.core.config import TaskOptions, TaskRecipe
from elmore.tasks.core.results import tab_separated
from elmore.tasks.core.task import Batch, Dataset, Labels, Task, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.metrics.score import Counts, Score
from elmore.tasks.modules.encoder_inputs import EncoderInputs
from elmore.tasks.modules.ensembling import mean_of_probabilities
from elmore.tasks.squad.answer_spans import SpanLogits, best_spans, span_loss
from elmore.tasks.squad.metric import squad_scores, token_f1
from elmore.tasks.squad.model import Bidaf
from elmore.tasks.squad.paragraph_questions import (
    LONGEST_WINDOW,
    CutParagraph,
    Window,
    agreed_answer,
    cut_paragraph,
    parse_questions,
    placed_answers,
)
from elmore.tasks.squad.reader import SquadQuestion, read_squad
from elmore.text.style import TokenStyle

WHOLE = 10_000  # what an answer that is all right counts, so that a share of it is a whole number too


@dataclass(frozen=True, kw_only=True)
class SquadOptions(TaskOptions):
    """[task] of reading."""

    hidden: int = checked_field(90, at_least=1)  # of every GRU and direction
    dropout: float = checked_field(0.2, at_least=0, at_most=0.95)
    longest_answer: int = checked_field(17, at_least=1)  # tokens, of what is predicted


@dataclass(frozen=True, kw_only=True)
class SquadRecipe(TaskRecipe):
    """How reading is learnt."""

    task: SquadOptions = SquadOptions()


class ParagraphQuestion(NamedTuple):
    """A question and a window of a paragraph; all windows of a question have its place."""

    context: Sequence[str]
    question: Sequence[str]
    offsets: Sequence[tuple[int, int]]  # the characters of the paragraph that each token stands at
    text: str  # the whole paragraph
    id: str
    answers: Sequence[str] = ()
    span: tuple[int, int] | None = None  # first and last token of the answer, where it is in this window
    place: str = ""  # file, article, paragraph and question, for complaints


class PredictedAnswer(NamedTuple):
    """The best answer that a window has."""

    text: str
    start: int  # characters of the paragraph
    end: int
    score: float
    probability: float


@dataclass(frozen=True)
class Answer:
    """A question, and what of the paragraph answers it."""

    id: str
    question: str
    text: str
    start: int  # characters of the paragraph
    end: int
    probability: float


@dataclass(frozen=True)
class AnsweredQuestions:
    """A paragraph, and the answers to its questions."""

    context: str
    answers: tuple[Answer, ...]

    def __str__(self) -> str:
        return "\n".join(tab_separated(one.text, f"{one.probability:.3f}", one.question) for one in self.answers)


class ReaderModel(TaskModel[ParagraphQuestion, PredictedAnswer]):
    """Finds the answer to a question."""

    def __init__(self, options: SquadOptions, embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.longest_answer = options.longest_answer
        self.bidaf = Bidaf(
            embedder.input_dim, extra_dim=embedder.output_dim, hidden=options.hidden, dropout=options.dropout
        )

    def loss(self, batch: Batch[ParagraphQuestion]) -> Tensor:
        logits = self._logits(batch)
        spans = send(torch.tensor([example.span for example in batch.examples]), logits.start.device)
        return span_loss(logits, *spans.unbind(dim=1)) + self.embedder.penalty()

    @classmethod
    def predict_together(
        cls, members: Sequence[Self], batches: Sequence[Batch[ParagraphQuestion]]
    ) -> list[PredictedAnswer]:
        each = [one._logits(batch) for one, batch in zip(members, batches, strict=True)]
        logits = SpanLogits(*(mean_of_probabilities(sides) for sides in zip(*each, strict=True)))
        best = best_spans(logits, longest=max(one.longest_answer for one in members))
        found = []
        for example, span in zip(batches[0].examples, best, strict=True):
            start, end = example.offsets[span.first][0], example.offsets[span.last][1]
            found.append(PredictedAnswer(example.text[start:end], start, end, span.score, span.probability))
        return found

    def _logits(self, batch: Batch[ParagraphQuestion]) -> SpanLogits:
        context, question = batch.inputs
        logits: SpanLogits = self.bidaf(self._embedded(context), self._embedded(question))
        return logits

    def _embedded(self, inputs: TokenInputs) -> EncoderInputs:
        vectors = self.embedder(inputs)
        return EncoderInputs(vectors.input, inputs.mask, inputs.lengths, vectors.output)


def read(paths: Sequence[str | Path], options: SquadOptions, *, to_train: bool) -> Dataset[ParagraphQuestion]:
    """The questions of SQuAD's files; to train, those whose answer has a place."""
    style: TokenStyle = "moses" if options.token_style == "auto" else options.token_style
    examples: list[ParagraphQuestion] = []
    seen: Counter[str] = Counter()
    files: dict[str, int] = {}  # of each id
    for number, path in enumerate(paths):
        # One name for all of a file's paragraphs, so that those which look alike odd are warned of once.
        tokenizer = StyledTokenizer(style, name=f"{display_name(path)}, a paragraph")
        for stored in read_squad(path):
            for one in stored.questions:
                # Answers go by the id; in training it is nobody's concern.
                if files.setdefault(one.id, number) != number and not to_train:
                    raise InputError(f"{one.place}: the id {one.id!r} stands in another file too; give it once")
            asked = [question for question in stored.questions if not question.is_impossible]
            seen["impossible"] += len(stored.questions) - len(asked)
            if not asked:
                continue
            paragraph = cut_paragraph(stored.context, tokenizer, asked[0].place)
            seen["windowed"] += len(paragraph.windows) > 1
            for question in asked:
                if to_train and not question.answers:
                    raise InputError(f"{question.place}: the question {question.id!r} has no answers to learn from")
                found = list(_windows(question, paragraph, tokenizer, seen))
                if to_train:
                    # A window without the answer has nothing to learn from.
                    found = [example for example in found if example.span is not None][:1]
                    if not found:
                        seen["unheld" if any(placed_answers(question, paragraph)) else "unplaced"] += 1
                examples += found
    return Dataset(examples, tuple(_notices(seen, to_train=to_train)))


def _windows(
    question: SquadQuestion, paragraph: CutParagraph, tokenizer: StyledTokenizer, seen: Counter[str]
) -> Iterator[ParagraphQuestion]:
    """A question with each window of its paragraph; what is odd about its answers is counted."""
    placed = placed_answers(question, paragraph)
    seen["misplaced"] += placed.count(None)
    seen["widened"] += sum(answer is not None and not answer.is_whole for answer in placed)
    answer = agreed_answer(placed)
    example = ParagraphQuestion(
        (),
        _question_tokens(question.text, tokenizer, question.place),
        (),
        paragraph.text,
        question.id,
        tuple(gold.text for gold in question.answers),
        place=question.place,
    )
    for window in paragraph.windows:
        span = None
        if answer is not None and window.first <= answer.first and answer.last < window.first + len(window.tokens):
            span = (answer.first - window.first, answer.last - window.first)
        yield _in_window(example, window)._replace(span=span)


def _in_window(example: ParagraphQuestion, window: Window) -> ParagraphQuestion:
    return example._replace(context=window.tokens, offsets=window.offsets)


def _question_tokens(text: str, tokenizer: StyledTokenizer, place: str) -> list[str]:
    tokens = tokenizer.tokens(text).tokens
    if not tokens:
        raise InputError(f"{place}: there are no words in the question {text[:60]!r}")
    return tokens


def _notices(seen: Mapping[str, int], *, to_train: bool) -> Iterator[str]:
    """What there is to say of these questions."""
    if seen["impossible"]:
        number = pluralize(seen["impossible"], "question")
        yield f"{number} left out that cannot be answered (SQuAD 2.0): all others can"
    if seen["misplaced"]:
        verb = "does" if seen["misplaced"] == 1 else "do"
        after = "not trained on" if to_train else "it is the text that is scored"
        yield f"{pluralize(seen['misplaced'], 'answer')} {verb} not stand where answer_start says: {after}"
    if seen["widened"]:
        after = "trained on are the whole tokens" if to_train else "no prediction can be all of it and no more"
        verb = "begins or ends" if seen["widened"] == 1 else "begin or end"
        yield f"{pluralize(seen['widened'], 'answer')} {verb} inside a token: {after}"
    if seen["unplaced"]:
        yield f"{pluralize(seen['unplaced'], 'question')} left out: no answer has a place to be learnt"
    if seen["unheld"]:
        yield f"{pluralize(seen['unheld'], 'question')} left out: no window of the paragraph holds all of the answer"
    if seen["windowed"]:
        verb = "is" if seen["windowed"] == 1 else "are"
        yield (
            f"{pluralize(seen['windowed'], 'paragraph')} of more than {LONGEST_WINDOW} tokens {verb} read in windows "
            "of so many, which overlap by half; the best answer of all is taken"
        )


def check(examples: Sequence[ParagraphQuestion], known: Labels) -> None:  # noqa: ARG001  # there are none
    """Refuse questions without answers, which can be predicted but not scored."""
    for example in examples:
        if not example.answers:
            raise InputError(
                f"{example.place}: the question {example.id!r} has no answers to score by; for predictions alone take "
                "elmore predict --official"
            )


def best_answers(
    examples: Sequence[ParagraphQuestion], predictions: Sequence[PredictedAnswer]
) -> dict[str, tuple[ParagraphQuestion, PredictedAnswer]]:
    """For each question, by its place, the best answer of all windows of its paragraph."""
    best: dict[str, tuple[ParagraphQuestion, PredictedAnswer]] = {}
    for example, prediction in zip(examples, predictions, strict=True):
        if example.place not in best or prediction.score > best[example.place][1].score:
            best[example.place] = (example, prediction)
    return best


def scored_pairs(
    examples: Sequence[ParagraphQuestion], predictions: Sequence[PredictedAnswer]
) -> list[tuple[ParagraphQuestion, PredictedAnswer]]:
    """Each question once, in the order of the file, with its best answer."""
    return list(best_answers(examples, predictions).values())


def score(examples: Sequence[ParagraphQuestion], predictions: Sequence[PredictedAnswer]) -> Score:
    best = best_answers(examples, predictions)
    gold = {place: example.answers for place, (example, _) in best.items()}
    return squad_scores(gold, {place: prediction.text for place, (_, prediction) in best.items()})


def counts(example: ParagraphQuestion, prediction: PredictedAnswer) -> Counts:
    """The F1 of one answer: of all together it is their mean."""
    best = max(token_f1(prediction.text, answer) for answer in example.answers)
    return Counts(gold=WHOLE, found=WHOLE, correct=round(WHOLE * best))


def official(examples: Sequence[ParagraphQuestion], predictions: Sequence[PredictedAnswer]) -> str:
    """The file that SQuAD's official script takes: an object of JSON, from ids to answers."""
    best = scored_pairs(examples, predictions)
    return json.dumps({example.id: prediction.text for example, prediction in best}, ensure_ascii=False)


def parse(text: str, tokenizer: StyledTokenizer) -> list[ParagraphQuestion]:
    asked = parse_questions(text)
    paragraph = cut_paragraph(asked.context, tokenizer, "the paragraph")
    for notice in _notices(Counter(windowed=len(paragraph.windows) > 1), to_train=False):
        warnings.warn(f"{tokenizer.name}: {notice}", InputWarning, stacklevel=2)
    examples = []
    for name, question in asked.questions:
        tokens = _question_tokens(question, tokenizer, f"question {name}")
        example = ParagraphQuestion((), tokens, (), paragraph.text, name, place=name)
        examples += [_in_window(example, window) for window in paragraph.windows]
    return examples


def result(
    text: str,
    examples: Sequence[ParagraphQuestion],
    predictions: Sequence[PredictedAnswer],
    known: Labels,  # noqa: ARG001
) -> AnsweredQuestions:
    asked = parse_questions(text)
    best = best_answers(examples, predictions)
    answers = []
    for name, question in asked.questions:
        _, found = best[name]
        answers.append(Answer(name, question, found.text, found.start, found.end, found.probability))
    return AnsweredQuestions(asked.context, tuple(answers))


SQUAD: Task[ParagraphQuestion, PredictedAnswer] = Task(
    name="squad",
    summary="where in a paragraph the answer to a question stands",
    recipe=SquadRecipe,
    read=read,
    sentences=lambda example: (example.context, example.question),
    labels=lambda examples, options: {},  # noqa: ARG005  # an answer is a place, and no label
    check=check,
    build=lambda options, known, embedder: ReaderModel(options, embedder),  # noqa: ARG005
    score=score,
    counts=counts,
    scored_pairs=scored_pairs,
    official=official,
    parse=parse,
    result=result,
)
