"""Coreference: which words of a document mean the same thing.

The end-to-end model of Lee et al., 2017, as Peters et al., 2018, A.6, have it: a biLSTM over each sentence, a score for
every span of up to ten words, and for those with the highest scores the probability of each span before them to be
their antecedent. Speakers and genres, which that model knows and few files have, are not used; all vectors of a token,
ELMo's too, go into the sum that is the head of a span; and the biLSTM is an ordinary one.

One example is one document. Training reads some sentences of it in a row, at each step others. A document of more than
LONGEST_DOCUMENT words is read in parts, and no cluster reaches over their borders, which is said.

Scored by the CoNLL average, clusters of one mention removed, as OntoNotes has none; the score with them stands beside.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from elmore.display import pluralize
from elmore.errors import InputError, InputWarning
from elmore.fields import checked_field
from elmore.nn.devices import send
from elmore.tasks.core.config import TaskOptions, TaskRecipe, TrainingOptions
from elmore.tasks.core.task import Batch, Dataset, Labels, Task, TaskModel
from elmore.tasks.coref.metric import conll_counts, conll_of_counts, coreference_scores, without_singletons
from elmore.tasks.coref.model import (
    DocumentTokens,
    RankedSpans,
    SpanLimits,
    SpanRanker,
    antecedent_loss,
    link_clusters,
    rank_together,
)
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.metrics.score import Score
from elmore.tasks.modules.rnn import BiLstm
from elmore.tasks.readers.conll2012 import Mention, document_columns, mentions, read_conll2012

LONGEST_DOCUMENT = 10_000  # words; the layers of more would fill gigabytes
TokenSpan = tuple[int, int]  # the first token of a document or of a part, and the one after the last


@dataclass(frozen=True, kw_only=True)
class CorefOptions(TaskOptions):
    """[task] of coreference."""

    hidden: int = checked_field(200, at_least=1)  # of the biLSTM, in each direction
    layers: int = checked_field(1, at_least=1)
    scorer_hidden: tuple[int, ...] = checked_field((150, 150), at_least=1)  # of both feed-forward networks
    feature_dim: int = checked_field(20, at_least=1)  # of embeddings of widths and distances
    lexical_dropout: float = checked_field(0.5, at_least=0, at_most=0.95)  # on the vectors of tokens
    dropout: float = checked_field(0.2, at_least=0, at_most=0.95)  # everywhere else
    max_width: int = checked_field(10, at_least=1)  # words of a span
    spans_per_word: float = checked_field(0.4, above=0)  # that are kept
    max_antecedents: int = checked_field(250, at_least=1)
    max_sentences: int = checked_field(50, at_least=1)  # that a step of training reads

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.scorer_hidden:
            raise InputError("scorer_hidden is empty; the networks that score spans have one hidden layer or more")


@dataclass(frozen=True, kw_only=True)
class CorefRecipe(TaskRecipe):
    """How coreference is learnt."""

    task: CorefOptions = CorefOptions()
    training: TrainingOptions = TrainingOptions(batch_size=1)  # noqa: RUF009  # frozen

    def __post_init__(self) -> None:
        if self.training.batch_size != 1:
            raise InputError(
                f"training.batch_size is {self.training.batch_size}; coref reads one document at a time: set it to 1"
            )


class CorefExample(NamedTuple):
    """A document, or a part of a long one."""

    sentences: Sequence[Sequence[str]]
    mentions: Sequence[Mention] = ()  # by tokens of this part
    offsets: Sequence[tuple[int, int]] = ()  # of raw text: the characters of each token
    document: str = ""  # file and line; of raw text, what it is called
    name: str = "text"  # of the document, and of the part of it that was annotated by itself
    part: str = "000"
    first: int = 0  # tokens of the document before this part


_Part = tuple[CorefExample, Sequence[Sequence[TokenSpan]]]  # and the clusters that were found in it


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
    sentences: tuple[int, ...]  # how many tokens each has
    clusters: tuple[tuple[MentionText, ...], ...]
    name: str = field(default="text", compare=False)  # where it is from: its file, or which of several texts it is

    def __str__(self) -> str:
        """The columns of CoNLL-2012."""
        starts, ends = ({place[side]: token for token, place in enumerate(self.offsets)} for side in (0, 1))
        found = [
            Mention(number, starts[one.start], ends[one.end] + 1)
            for number, cluster in enumerate(self.clusters)
            for one in cluster
        ]
        words = iter([self.text[start:end] for start, end in self.offsets])
        return document_columns([list(islice(words, length)) for length in self.sentences], found, name=self.name)


class CoreferenceModel(TaskModel[CorefExample, list[list[TokenSpan]]]):
    """Links the spans of a document."""

    def __init__(self, options: CorefOptions, embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.lexical_dropout = nn.Dropout(options.lexical_dropout)
        self.encoder = BiLstm(embedder.input_dim, options.hidden, layers=options.layers, input_dropout=0.0)
        self.dropout = nn.Dropout(options.dropout)
        self.ranker = SpanRanker(
            self.encoder.output_dim + embedder.output_dim,
            embedder.input_dim,
            hidden=options.scorer_hidden,
            feature_dim=options.feature_dim,
            dropout=options.dropout,
            limits=SpanLimits(options.max_width, options.spans_per_word, options.max_antecedents),
        )

    def loss(self, batch: Batch[CorefExample]) -> Tensor:
        ranked: RankedSpans = self.ranker(self._tokens(batch))
        [example] = batch.examples
        cluster_of = {(mention.start, mention.end): mention.cluster for mention in example.mentions}
        spans = zip(ranked.spans.starts.tolist(), ranked.spans.ends.tolist(), strict=True)
        clusters = send(torch.tensor([cluster_of.get(span, -1) for span in spans]), ranked.scores.device)
        return antecedent_loss(ranked, clusters) + self.embedder.penalty()

    @classmethod
    def predict_together(
        cls, members: Sequence[Self], batches: Sequence[Batch[CorefExample]]
    ) -> list[list[list[TokenSpan]]]:
        tokens = [one._tokens(batch) for one, batch in zip(members, batches, strict=True)]
        return [link_clusters(rank_together([one.ranker for one in members], tokens))]

    def _tokens(self, batch: Batch[CorefExample]) -> DocumentTokens:
        h, x = map(torch.cat, zip(*map(self._read, batch.inputs), strict=True))
        return DocumentTokens(h, x, [length for inputs in batch.inputs for length in inputs.lengths])

    def _read(self, inputs: TokenInputs) -> tuple[Tensor, Tensor]:  # (N, D), (N, X)
        """Some sentences, as `DocumentTokens` has them."""
        vectors = self.embedder(inputs)
        x = self.lexical_dropout(vectors.input)
        h = self.dropout(self.encoder(x, inputs.lengths))
        if vectors.output is not None:
            h = torch.cat([h, vectors.output.to(h.dtype)], dim=2)
        # All their tokens in a row; a mask for an index would have the host wait for how many there are.
        places = np.flatnonzero(np.arange(h.shape[1]) < np.array(inputs.lengths).reshape(-1, 1))
        rows = send(torch.from_numpy(places), h.device)
        h, x = (vectors.flatten(0, 1).index_select(0, rows) for vectors in (h, x))
        return h, x


def read(paths: Sequence[str | Path], options: CorefOptions, *, to_train: bool) -> Dataset[CorefExample]:
    """The documents of CoNLL-2012 files; one without sentences is left out, and counted."""
    examples: list[CorefExample] = []
    seen: Counter[str] = Counter()
    for document in read_conll2012(paths):
        found, first = [], 0
        for sentence in document.sentences:
            own = mentions(sentence)
            found += [Mention(one.cluster, one.start + first, one.end + first) for one in own]
            first += len(sentence.tokens)
            seen.update(out_of_reach(own, options.max_width))
        seen["empty"] += not document.sentences
        tokens = [one.tokens for one in document.sentences]
        whole = CorefExample(tokens, found, document=document.place, name=document.name, part=document.part)
        examples += in_parts(whole) if document.sentences else []
    return Dataset(examples, tuple(_notices(seen, options.max_width, to_train=to_train)))


def out_of_reach(own: Sequence[Mention], max_width: int) -> Counter[str]:
    """How many mentions of a sentence the model cannot find, or not beside others, by the reason.

    >>> out_of_reach([Mention(1, 0, 3), Mention(2, 1, 4), Mention(3, 1, 4), Mention(4, 0, 9)], max_width=5)
    Counter({'wide': 1, 'crossing': 1, 'again': 1})
    """
    spans = [(one.start, one.end) for one in own]
    distinct = sorted(set(spans))
    near = [span for span in distinct if span[1] - span[0] <= max_width]
    crossing = sum(any(start < s < end < e for start, end in near) for s, e in near)
    return Counter(wide=len(distinct) - len(near), crossing=crossing, again=len(spans) - len(distinct))


def _notices(seen: Mapping[str, int], max_width: int, *, to_train: bool) -> Iterator[str]:
    """What there is to say of these documents."""
    if seen["empty"]:
        yield f"left out {pluralize(seen['empty'], 'document')} without sentences"
    if seen["wide"]:
        verb = "has" if seen["wide"] == 1 else "have"
        wide = f"{pluralize(seen['wide'], 'mention')} {verb} more than {max_width} words"
        yield f"{wide}, and cannot be found (task.max_width)"
    if seen["crossing"]:
        verb = "crosses" if seen["crossing"] == 1 else "cross"
        yield f"{pluralize(seen['crossing'], 'mention')} {verb} another: of two that do, one is found at most"
    if seen["again"]:
        verb = "has the words of another" if seen["again"] == 1 else "have the words of others"
        after = "the last cluster is learnt" if to_train else "a span is found in one cluster at most"
        yield f"{pluralize(seen['again'], 'mention')} {verb}, in a second cluster: {after}"


def in_parts(document: CorefExample, *, longest: int | None = None) -> list[CorefExample]:
    """The document, or where it has more than LONGEST_DOCUMENT words parts of it, cut between sentences."""
    lengths = list(map(len, document.sentences))
    longest = LONGEST_DOCUMENT if longest is None else longest
    if sum(lengths) <= longest:
        return [document]
    borders, words = [0], 0
    for number, length in enumerate(lengths):
        if words and words + length > longest:
            borders.append(number)
            words = 0
        words += length
    stops = [*borders[1:], len(lengths)]
    warnings.warn(
        f"{document.document}: has {sum(lengths):,} words, and is read in {len(stops)} parts of up to "
        f"{longest:,}; no cluster reaches from one to another",
        InputWarning,
        stacklevel=3,
    )
    return [cut(document, start, stop) for start, stop in zip(borders, stops, strict=True)]


def cut(document: CorefExample, start: int, stop: int) -> CorefExample:
    """Some sentences of a document, and the mentions in them."""
    first = sum(map(len, document.sentences[:start]))
    end = first + sum(map(len, document.sentences[start:stop]))
    inside = [
        Mention(one.cluster, one.start - first, one.end - first)
        for one in document.mentions
        if first <= one.start and one.end <= end
    ]
    return document._replace(
        sentences=document.sentences[start:stop],
        mentions=inside,
        offsets=document.offsets[first:end],
        first=document.first + first,
    )


def draw_sentences(document: CorefExample, options: CorefOptions, draw: np.random.Generator) -> CorefExample:
    """As many sentences in a row as a step reads, from anywhere in the document."""
    spare = len(document.sentences) - options.max_sentences
    if spare <= 0:
        return document
    start = int(draw.integers(spare + 1))
    return cut(document, start, start + options.max_sentences)


def labels(examples: Sequence[CorefExample], options: CorefOptions) -> Labels:  # noqa: ARG001  # every task has them
    """There is nothing to know; but something must be there to learn."""
    if not has_clusters(examples):
        raise InputError("the training data has no two mentions of one cluster; they stand in the last column")
    return {}


def check(examples: Sequence[CorefExample], known: Labels) -> None:  # noqa: ARG001  # every task has them
    """Refuse data without clusters, as files of semantic roles may be; whatever was found in it would be wrong."""
    if not has_clusters(examples):
        raise InputError(
            f"{examples[0].document}: no two mentions of one cluster follow; they stand in the last column"
        )


def has_clusters(examples: Sequence[CorefExample]) -> bool:
    return any(len({m.cluster for m in one.mentions}) < len(one.mentions) for one in examples)


def score(examples: Sequence[CorefExample], predictions: Sequence[Sequence[Sequence[TokenSpan]]]) -> Score:
    """The CoNLL average; the parts of a document are put together again."""
    gold, predicted = [], []
    for document in _documents(zip(examples, predictions, strict=True)):
        key: dict[int, list[TokenSpan]] = {}
        for part, _ in document:
            for mention in part.mentions:
                key.setdefault(mention.cluster, []).append((mention.start + part.first, mention.end + part.first))
        gold.append(list(key.values()))
        predicted.append(_whole_clusters(document))
    own = coreference_scores([without_singletons(key) for key in gold], [without_singletons(one) for one in predicted])
    other = coreference_scores(gold, predicted)
    parts = {**own.parts, "with_singletons": other.value, **{f"with_singletons.{k}": v for k, v in other.parts.items()}}
    # What is told after each epoch.
    parts |= {
        name: sum(own.parts[f"{m}.{name}"] for m in ("muc", "b_cubed", "ceaf_e")) / 3
        for name in ("precision", "recall")
    }
    table = f"{own.table}\nthe same with clusters of one mention: {other.value:.2f}"
    return Score(own.metric, own.value, parts, table)


def _documents(parts: Iterable[_Part]) -> list[list[_Part]]:
    """The parts of each document. One begins with its first token, whatever it is called: a file may come twice."""
    documents: list[list[_Part]] = []
    for part in parts:
        if part[0].first == 0 or not documents:
            documents.append([])
        documents[-1].append(part)
    return documents


def _whole_clusters(parts: Sequence[_Part]) -> list[list[TokenSpan]]:
    """All clusters that were found in the parts of a document, by its own tokens."""
    return [
        [(start + part.first, end + part.first) for start, end in cluster] for part, found in parts for cluster in found
    ]


def counts(example: CorefExample, clusters: Sequence[Sequence[TokenSpan]]) -> list[float]:
    """What one document adds to the score; a part of a very long one counts as a document."""
    key: dict[int, list[TokenSpan]] = {}
    for mention in example.mentions:
        key.setdefault(mention.cluster, []).append((mention.start, mention.end))
    return conll_counts(without_singletons(key.values()), without_singletons(clusters))


def official(examples: Sequence[CorefExample], predictions: Sequence[Sequence[Sequence[TokenSpan]]]) -> str:
    """The documents once more, with the clusters that were found: what the CoNLL scorer takes beside the key."""
    documents = []
    for parts in _documents(zip(examples, predictions, strict=True)):
        found = [Mention(number, *span) for number, cluster in enumerate(_whole_clusters(parts)) for span in cluster]
        sentences = [tokens for part, _ in parts for tokens in part.sentences]
        documents.append(document_columns(sentences, found, name=parts[0][0].name, part=parts[0][0].part))
    return "\n".join(documents)


def parse(text: str, tokenizer: StyledTokenizer) -> list[CorefExample]:
    """A text as one document."""
    sentences = [cut for cut in tokenizer.sentences(text) if cut.tokens]
    if not sentences:
        return []
    places = [place for one in sentences for place in one.offsets]
    return in_parts(CorefExample([one.tokens for one in sentences], offsets=places, document=tokenizer.name))


def result(
    text: str,
    examples: Sequence[CorefExample],
    predictions: Sequence[Sequence[Sequence[TokenSpan]]],
    labels: Labels,  # noqa: ARG001
) -> CorefText:
    clusters = []
    for example, found in zip(examples, predictions, strict=True):
        for cluster in found:
            places = [(example.offsets[start][0], example.offsets[end - 1][1]) for start, end in cluster]
            clusters.append(tuple(MentionText(text[start:end], start, end) for start, end in places))
    return CorefText(
        text,
        tokens=tuple(token for example in examples for tokens in example.sentences for token in tokens),
        offsets=tuple(place for example in examples for place in example.offsets),
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
    score=score,
    counts=counts,
    count_score=conll_of_counts,
    official=official,
    reads_documents=True,
    ensemble_fields=SpanLimits._fields,
    draw_part=draw_sentences,
    parse=parse,
    result=result,
)
