"""Coreference: the spans of a document that refer to the same entity.

The end-to-end model of Lee et al., 2017 (`model`). One example is one document. A training step uses some consecutive
sentences of it, different ones at each step. A document of more than MAX_WORDS words is processed in parts, with a
warning, because clusters cannot cross parts.

Scored by the CoNLL average without clusters of one mention, which OntoNotes does not have; the score with such clusters
is also reported.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmore.display import pluralize
from elmore.errors import InputError, InputWarning
from elmore.tasks.core.config import TaskRecipe, TrainingOptions
from elmore.tasks.core.task import Dataset, Labels, Task
from elmore.tasks.coref.metric import Clusters, ConllF1
from elmore.tasks.coref.model import CoreferenceModel, CorefExample, CorefOptions, SpanLimits, TokenSpan
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.readers.conll2012 import Mention, document_columns, mentions, read_conll2012

MAX_WORDS = 10_000  # of a document that is processed in one part; the layers of more words take gigabytes


@dataclass(frozen=True, kw_only=True)
class CorefRecipe(TaskRecipe):
    """Recipe of coreference."""

    task: CorefOptions = CorefOptions()  # noqa: RUF009  # frozen
    training: TrainingOptions = TrainingOptions(batch_size=1)  # noqa: RUF009  # frozen

    def __post_init__(self) -> None:
        if self.training.batch_size != 1:
            raise InputError(
                f"training.batch_size is {self.training.batch_size}; coref trains on one document per step: set it to 1"
            )


_Part = tuple[CorefExample, Sequence[Sequence[TokenSpan]]]  # with its predicted clusters


@dataclass(frozen=True)
class MentionText:
    """A mention in a text."""

    text: str
    start: int  # characters of the whole text
    end: int


@dataclass(frozen=True)
class CorefText:
    """A text and its clusters."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    sentences: tuple[int, ...]  # the number of tokens of each
    clusters: tuple[tuple[MentionText, ...], ...]
    name: str = field(default="text", compare=False)  # its file, or its number among several texts

    def __str__(self) -> str:
        """The columns of CoNLL-2012."""
        starts, ends = ({span[side]: token for token, span in enumerate(self.offsets)} for side in (0, 1))
        found = [
            Mention(number, starts[mention.start], ends[mention.end] + 1)
            for number, cluster in enumerate(self.clusters)
            for mention in cluster
        ]
        words = iter([self.text[start:end] for start, end in self.offsets])
        return document_columns([list(islice(words, length)) for length in self.sentences], found, name=self.name)


def read(paths: Sequence[str | Path], options: CorefOptions, *, to_train: bool) -> Dataset[CorefExample]:
    """The documents of CoNLL-2012 files; documents without sentences are left out and counted."""
    examples: list[CorefExample] = []
    seen: Counter[str] = Counter()
    for document in read_conll2012(paths):
        found, first = [], 0
        for sentence in document.sentences:
            sentence_mentions = mentions(sentence)
            found += [
                Mention(mention.cluster, mention.start + first, mention.end + first) for mention in sentence_mentions
            ]
            first += len(sentence.tokens)
            seen.update(unpredictable_mentions(sentence_mentions, options.max_width))
        seen["empty"] += not document.sentences
        tokens = [sentence.tokens for sentence in document.sentences]
        whole = CorefExample(tokens, found, document=document.location, name=document.name, part=document.part)
        examples += split_document(whole) if document.sentences else []
    return Dataset(examples, tuple(_notices(seen, options.max_width, to_train=to_train)))


def unpredictable_mentions(sentence_mentions: Sequence[Mention], max_width: int) -> Counter[str]:
    """The number of mentions of a sentence that the model cannot predict, or cannot predict together, by reason.

    >>> mentions = [Mention(1, 0, 3), Mention(2, 1, 4), Mention(3, 1, 4), Mention(4, 0, 9)]
    >>> unpredictable_mentions(mentions, max_width=5)
    Counter({'wide': 1, 'crossing': 1, 'repeated': 1})
    """
    spans = [(mention.start, mention.end) for mention in sentence_mentions]
    distinct = sorted(set(spans))
    narrow = [span for span in distinct if span[1] - span[0] <= max_width]
    crossing = sum(any(start < s < end < e for start, end in narrow) for s, e in narrow)
    return Counter(wide=len(distinct) - len(narrow), crossing=crossing, repeated=len(spans) - len(distinct))


def _notices(seen: Mapping[str, int], max_width: int, *, to_train: bool) -> Iterator[str]:
    """Notices about irregular documents."""
    if number := seen["empty"]:
        yield f"left out {pluralize(number, 'document')} without sentences"
    if number := seen["wide"]:
        yield f"{pluralize(number, 'mention')} of more than {max_width} words cannot be predicted (task.max_width)"
    if number := seen["crossing"]:
        verb = "overlaps" if number == 1 else "overlap"
        yield (f"{pluralize(number, 'mention')} {verb} another without nesting; the model predicts at most one of them")
    if number := seen["repeated"]:
        verb = "is" if number == 1 else "are"
        effect = "training uses the last cluster" if to_train else "the model predicts one cluster for each span"
        yield f"{pluralize(number, 'mention')} {verb} also in another cluster with the same words: {effect}"


def split_document(document: CorefExample, *, max_words: int | None = None) -> list[CorefExample]:
    """The document, or if it has more than MAX_WORDS words, parts of it, divided between sentences."""
    lengths = list(map(len, document.sentences))
    max_words = MAX_WORDS if max_words is None else max_words
    if sum(lengths) <= max_words:
        return [document]
    borders, words = [0], 0
    for number, length in enumerate(lengths):
        if words and words + length > max_words:
            borders.append(number)
            words = 0
        words += length
    stops = [*borders[1:], len(lengths)]
    warnings.warn(
        f"{document.document}: has {sum(lengths):,} words and is processed in {len(stops)} parts of at most "
        f"{max_words:,}; clusters cannot cross parts",
        InputWarning,
        stacklevel=3,
    )
    return [slice_sentences(document, start, stop) for start, stop in zip(borders, stops, strict=True)]


def slice_sentences(document: CorefExample, start: int, stop: int) -> CorefExample:
    """Some sentences of a document, and the mentions in them."""
    first = sum(map(len, document.sentences[:start]))
    end = first + sum(map(len, document.sentences[start:stop]))
    inside = [
        Mention(mention.cluster, mention.start - first, mention.end - first)
        for mention in document.mentions
        if first <= mention.start and mention.end <= end
    ]
    return document._replace(
        sentences=document.sentences[start:stop],
        mentions=inside,
        offsets=document.offsets[first:end],
        first=document.first + first,
    )


def sample_sentences(document: CorefExample, options: CorefOptions, generator: np.random.Generator) -> CorefExample:
    """The sentences of one training step: `max_sentences` consecutive ones at a random position."""
    spare = len(document.sentences) - options.max_sentences
    if spare <= 0:
        return document
    start = int(generator.integers(spare + 1))
    return slice_sentences(document, start, start + options.max_sentences)


def labels(examples: Sequence[CorefExample], options: CorefOptions) -> Labels:  # noqa: ARG001
    """The model needs no labels; the training data needs clusters."""
    if not has_clusters(examples):
        raise InputError("no cluster of the training data has two mentions; the last column must contain clusters")
    return {}


def check(examples: Sequence[CorefExample], known: Labels) -> None:  # noqa: ARG001
    """Reject data without clusters, such as files of semantic roles: they cannot be scored."""
    if not has_clusters(examples):
        raise InputError(
            f"{examples[0].document}: no cluster from here on has two mentions; the last column must contain clusters"
        )


def has_clusters(examples: Sequence[CorefExample]) -> bool:
    return any(len({mention.cluster for mention in example.mentions}) < len(example.mentions) for example in examples)


class DocumentF1(ConllF1[CorefExample, Sequence[Sequence[TokenSpan]]]):
    """The CoNLL average; the parts of a document are joined."""

    def documents(
        self, examples: Sequence[CorefExample], predictions: Sequence[Sequence[Sequence[TokenSpan]]]
    ) -> list[tuple[Clusters, Clusters]]:
        documents = _documents(zip(examples, predictions, strict=True))
        return [(_gold_clusters(part for part, _ in parts), _predicted_clusters(parts)) for parts in documents]


def _documents(parts: Iterable[_Part]) -> list[list[_Part]]:
    """The parts of each document. A part with the first token begins a document; names are not unique."""
    documents: list[list[_Part]] = []
    for part in parts:
        if part[0].first == 0 or not documents:
            documents.append([])
        documents[-1].append(part)
    return documents


def _gold_clusters(parts: Iterable[CorefExample]) -> list[list[TokenSpan]]:
    """The gold clusters of a document's parts, by tokens of the document."""
    clusters: dict[int, list[TokenSpan]] = {}
    for part in parts:
        for mention in part.mentions:
            clusters.setdefault(mention.cluster, []).append((mention.start + part.first, mention.end + part.first))
    return list(clusters.values())


def _predicted_clusters(parts: Iterable[_Part]) -> list[list[TokenSpan]]:
    """The predicted clusters of a document's parts, by tokens of the document."""
    return [
        [(start + part.first, end + part.first) for start, end in cluster]
        for part, clusters in parts
        for cluster in clusters
    ]


def official(examples: Sequence[CorefExample], predictions: Sequence[Sequence[Sequence[TokenSpan]]]) -> str:
    """The documents with predicted clusters, in the format of the CoNLL scorer."""
    documents = []
    for parts in _documents(zip(examples, predictions, strict=True)):
        clusters = enumerate(_predicted_clusters(parts))
        found = [Mention(number, *span) for number, cluster in clusters for span in cluster]
        sentences = [tokens for part, _ in parts for tokens in part.sentences]
        documents.append(document_columns(sentences, found, name=parts[0][0].name, part=parts[0][0].part))
    return "\n".join(documents)


def from_text(text: str, tokenizer: StyledTokenizer) -> list[CorefExample]:
    """A text as one document."""
    sentences = [sentence for sentence in tokenizer.sentences(text) if sentence.tokens]
    if not sentences:
        return []
    offsets = [span for sentence in sentences for span in sentence.offsets]
    tokens = [sentence.tokens for sentence in sentences]
    return split_document(CorefExample(tokens, offsets=offsets, document=tokenizer.name))


def result(
    text: str,
    examples: Sequence[CorefExample],
    predictions: Sequence[Sequence[Sequence[TokenSpan]]],
    labels: Labels,  # noqa: ARG001
) -> CorefText:
    clusters = []
    for example, predicted in zip(examples, predictions, strict=True):
        for cluster in predicted:
            spans = [(example.offsets[start][0], example.offsets[end - 1][1]) for start, end in cluster]
            clusters.append(tuple(MentionText(text[start:end], start, end) for start, end in spans))
    return CorefText(
        text,
        tokens=tuple(token for example in examples for tokens in example.sentences for token in tokens),
        offsets=tuple(span for example in examples for span in example.offsets),
        sentences=tuple(len(tokens) for example in examples for tokens in example.sentences),
        clusters=tuple(clusters),
    )


COREF: Task[CorefExample, Any] = Task(
    name="coref",
    summary="coreference: which words of a document mean the same thing",
    recipe=CorefRecipe,
    read=read,
    sentences=lambda example: example.sentences,
    labels=labels,
    check=check,
    build=lambda options, known, embedder: CoreferenceModel(options, embedder),  # noqa: ARG005
    metric=DocumentF1(),
    official=official,
    reads_documents=True,
    ensemble_fields=SpanLimits._fields,
    draw_part=sample_sentences,
    parse=from_text,
    result=result,
)
