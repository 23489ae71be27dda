"""Named entities: the spans of a text that are names, and their kinds.

The model of Peters et al., 2018, A.7: word vectors and a character CNN, two biLSTM layers, a CRF over BIOUL tags, and
Viterbi decoding over valid tag sequences. Scored as conlleval does: a span is correct if its borders and its label are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from elmore.errors import InputError
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.labels import check_some_known, unseen_labels
from elmore.tasks.core.results import TokenizedText, token_fields
from elmore.tasks.core.task import Dataset, Labels, Task
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.metrics.scores import SpanF1
from elmore.tasks.modules.crf import AllowedTransitions
from elmore.tasks.readers.tag_schemes import allowed_transitions, lenient_spans, spans_of, tags_of
from elmore.tasks.tagging.model import TaggedTokens, TaggerModel, TaggerOptions, tagged_from_text
from elmore.tasks.tagging.reader import detect_tag_scheme, read_tagged


@dataclass(frozen=True, kw_only=True)
class NerOptions(TaggerOptions):
    """[task] of named entities."""

    tag_column: int = -1  # of the file: from 0, or from the last with -1
    word_column: int | None = None  # None: detected


@dataclass(frozen=True, kw_only=True)
class NerRecipe(TaskRecipe):
    """Recipe of named entities."""

    task: NerOptions = NerOptions()


@dataclass(frozen=True)
class Entity:
    """A name in a text."""

    text: str
    label: str
    start: int  # characters of the whole text
    end: int


@dataclass(frozen=True)
class EntityText(TokenizedText):
    """A text and the names in it."""

    tags: tuple[str, ...]  # BIO
    entities: tuple[Entity, ...]

    def __str__(self) -> str:
        """One sentence per line, names in brackets with their labels."""
        begins = {entity.start: "[" for entity in self.entities}
        ends = {entity.end: f"]{entity.label}" for entity in self.entities}
        return "\n".join(
            " ".join(
                f"{begins.get(start, '')}{self.text[start:end]}{ends.get(end, '')}"
                for start, end in self.offsets[sentence]
            )
            for sentence in self.sentence_slices()
        )


def read(paths: Sequence[str | Path], options: NerOptions, *, to_train: bool) -> Dataset[TaggedTokens]:  # noqa: ARG001
    """Sentences of column files; tags of any scheme are converted to BIOUL."""
    sentences = read_tagged(paths, tag_column=options.tag_column, word_column=options.word_column)
    scheme = detect_tag_scheme(sentences)
    examples = []
    for sentence in sentences:
        tags = tags_of(spans_of(sentence.tags, scheme), len(sentence.tokens), "bioul")
        examples.append(TaggedTokens(sentence.tokens, tags, location=f"{sentence.source}, line {sentence.line}"))
    return Dataset(examples)


def labels(examples: Sequence[TaggedTokens], options: NerOptions) -> Labels:  # noqa: ARG001
    """The kinds of names."""
    kinds = sorted(set(_kinds(examples)))
    if not kinds:
        raise InputError("the training data has no names; is task.tag_column the right column?")
    return {"kinds": kinds}


def _kinds(examples: Sequence[TaggedTokens]) -> list[str]:
    return [span.label for example in examples for span in lenient_spans(example.tags)]


def check(examples: Sequence[TaggedTokens], known: Labels) -> None:
    check_some_known(_kinds(examples), known["kinds"], examples[0].location)


def build(options: NerOptions, labels: Labels, embedder: TokenEmbedder) -> TaggerModel:
    tags = bioul_tags(labels)
    allowed = allowed_transitions(tags, "bioul")
    starts, pairs, ends = map(torch.from_numpy, (allowed.may_begin, allowed.may_follow, allowed.may_end))
    return TaggerModel(options, tags, embedder, AllowedTransitions(starts, pairs, ends))


def bioul_tags(labels: Labels) -> list[str]:
    return ["O", *(f"{prefix}-{kind}" for kind in labels["kinds"] for prefix in "BILU")]


def _bio(tags: Sequence[str]) -> list[str]:
    return tags_of(lenient_spans(tags), len(tags), "bio")


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
    bio = tuple(tag for tags in predictions for tag in _bio(tags))
    return EntityText(text, **token_fields(examples), tags=bio, entities=tuple(entities))


NER: Task[TaggedTokens, list[str]] = Task(
    name="ner",
    summary="names of persons, places and the like",
    recipe=NerRecipe,
    read=read,
    sentences=lambda example: (example.tokens,),
    labels=labels,
    label_types={"kinds": tuple[str, ...]},
    check=check,
    unseen=lambda examples, known: unseen_labels(_kinds(examples), known["kinds"], "name"),
    build=build,
    # The accuracy of tokens depends on the scheme. It is that of BIO tags, as in published results.
    metric=SpanF1(gold=lambda example: _bio(example.tags), predicted=_bio),
    ensemble_fields=("crf",),
    parse=tagged_from_text,
    result=result,
)
