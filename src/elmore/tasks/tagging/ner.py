"""Named entities: which spans of a text are names, and of what.

The model of Peters et al., 2018, A.7: word vectors and a character CNN, two biLSTM layers, a CRF over BIOUL tags, and
Viterbi over the tag sequences that are possible. Scored as conlleval does: a span counts when its borders and its
label are right.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from elmore.errors import InputError
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.task import Dataset, Labels, Task
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.metrics.score import Counts, Score
from elmore.tasks.metrics.span_f1 import span_scores
from elmore.tasks.modules.crf import AllowedTransitions
from elmore.tasks.readers.tag_schemes import allowed_transitions, lenient_spans, spans_of, tags_of
from elmore.tasks.tagging.model import TaggedTokens, TaggerModel, TaggerOptions, parse_sentences
from elmore.tasks.tagging.reader import detect_tag_scheme, read_tagged


@dataclass(frozen=True, kw_only=True)
class NerOptions(TaggerOptions):
    """[task] of named entities."""

    tag_column: int = -1  # of the file: from 0, or from the last with -1
    word_column: int | None = None  # None finds out


@dataclass(frozen=True, kw_only=True)
class NerRecipe(TaskRecipe):
    """How names are learnt."""

    task: NerOptions = NerOptions()


@dataclass(frozen=True)
class Entity:
    """A name in a text."""

    text: str
    label: str
    start: int  # characters of the whole text
    end: int


@dataclass(frozen=True)
class EntityText:
    """A text and the names in it."""

    text: str
    tokens: tuple[str, ...]
    tags: tuple[str, ...]  # BIO
    offsets: tuple[tuple[int, int], ...]
    sentences: tuple[int, ...]  # how many tokens each has
    entities: tuple[Entity, ...]

    def __str__(self) -> str:
        """A sentence a line, names in brackets with their labels."""
        marks = {entity.start: "[" for entity in self.entities}
        ends = {entity.end: f"]{entity.label}" for entity in self.entities}
        lines, first = [], 0
        for length in self.sentences:
            spans = self.offsets[first : first + length]
            lines.append(
                " ".join(f"{marks.get(start, '')}{self.text[start:end]}{ends.get(end, '')}" for start, end in spans)
            )
            first += length
        return "\n".join(lines)


def read(paths: Sequence[str | Path], options: NerOptions, *, to_train: bool) -> Dataset[TaggedTokens]:  # noqa: ARG001
    """Sentences of column files, their tags of whatever scheme as BIOUL."""
    sentences = read_tagged(paths, tag_column=options.tag_column, word_column=options.word_column)
    scheme = detect_tag_scheme(sentences)
    examples = []
    for sentence in sentences:
        tags = tags_of(spans_of(sentence.tags, scheme), len(sentence.tokens), "bioul")
        examples.append(TaggedTokens(sentence.tokens, tags, place=f"{sentence.source}, line {sentence.line}"))
    return Dataset(examples)


def labels(examples: Sequence[TaggedTokens], options: NerOptions) -> Labels:  # noqa: ARG001  # every task has them
    """The kinds of names."""
    kinds = sorted({span.label for example in examples for span in lenient_spans(example.tags)})
    if not kinds:
        raise InputError("the training data has no names; is the right column read? (--task.tag_column)")
    return {"kinds": kinds}


def check(examples: Sequence[TaggedTokens], known: Labels) -> None:
    """Refuse names of a kind that the training data did not have."""
    for example in examples:
        for label, first, stop in lenient_spans(example.tags):
            if label not in known["kinds"]:
                raise InputError(
                    f"{example.place}: {' '.join(example.tokens[first:stop])!r} is of the kind {label!r}, which the "
                    f"training data does not have; it has {', '.join(known['kinds'])}"
                )


def build(options: NerOptions, labels: Labels, embedder: TokenEmbedder) -> TaggerModel:
    tags = bioul_tags(labels)
    allowed = allowed_transitions(tags, "bioul")
    starts, pairs, ends = map(torch.from_numpy, (allowed.may_begin, allowed.may_follow, allowed.may_end))
    return TaggerModel(options, tags, embedder, AllowedTransitions(starts, pairs, ends))


def bioul_tags(labels: Labels) -> list[str]:
    return ["O", *(f"{prefix}-{kind}" for kind in labels["kinds"] for prefix in "BILU")]


def score(examples: Sequence[TaggedTokens], predictions: Sequence[Sequence[str]]) -> Score:
    return span_scores([example.tags for example in examples], predictions)


def counts(example: TaggedTokens, tags: Sequence[str]) -> Counts:
    """Names that were found, were predicted, and are there."""
    gold, predicted = set(lenient_spans(example.tags)), set(lenient_spans(tags))
    return Counts(gold=len(gold), found=len(predicted), correct=len(gold & predicted))


def result(
    text: str,
    examples: Sequence[TaggedTokens],
    predictions: Sequence[Sequence[str]],
    labels: Labels,  # noqa: ARG001
) -> EntityText:
    """The names of one text."""
    entities = []
    for example, tags in zip(examples, predictions, strict=True):
        for label, first, stop in lenient_spans(tags):
            start, end = example.offsets[first][0], example.offsets[stop - 1][1]
            entities.append(Entity(text[start:end], label, start, end))
    return EntityText(
        text,
        tokens=tuple(token for example in examples for token in example.tokens),
        tags=tuple(tag for tags in predictions for tag in tags_of(lenient_spans(tags), len(tags), "bio")),
        offsets=tuple(span for example in examples for span in example.offsets),
        sentences=tuple(len(example.tokens) for example in examples),
        entities=tuple(entities),
    )


NER: Task[TaggedTokens, list[str]] = Task(
    name="ner",
    summary="names of persons, places and the like",
    recipe=NerRecipe,
    read=read,
    sentences=lambda example: (example.tokens,),
    labels=labels,
    label_types={"kinds": tuple[str, ...]},
    check=check,
    build=build,
    score=score,
    counts=counts,
    ensemble_fields=("crf",),
    parse=parse_sentences,
    result=result,
)
