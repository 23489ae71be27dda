"""The end-to-end coreference model: every span of a document is scored and linked to a preceding span or to none.

    span g_i        = [h_start; h_end; width; head],    head = attention of the span's tokens over their vectors x
    score(i, j)     = mention(g_i) + mention(g_j) + pair(g_i, g_j, g_i * g_j, distance),    score(i, none) = 0
    loss            = - sum over i of log(sum of p(i, j) over the correct j before i);  none is correct if there is no j

Lee et al., 2017. The spans with the highest mention scores remain after pruning, as many as a share of the words, none
crossing another. Only these are linked, each to one of the nearest spans before it. As in Peters et al., 2018, A.6,
with these differences: speakers and genres are not used; the head of a span averages all vectors of a token, including
ELMo's; the biLSTM is an ordinary one.

N tokens of a document, S spans, K spans after pruning, A antecedents, D size of h, X size of x, G size of g, F size of
features.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmore.errors import InputError
from elmore.fields import checked_field
from elmore.nn.devices import send
from elmore.tasks.core.config import TaskOptions
from elmore.tasks.core.task import Batch, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.modules.attention import masked_softmax
from elmore.tasks.modules.ensembling import mean_scores
from elmore.tasks.modules.feed_forward import FeedForward
from elmore.tasks.modules.rnn import BiLstm
from elmore.tasks.readers.conll2012 import Mention

TokenSpan = tuple[int, int]  # the first token of a document or of a part, and the token after the last

DISTANCE_BINS = (0, 1, 2, 3, 4, 5, 8, 16, 32, 64)  # the first distance of each
SPAN_BATCH = 2**15  # spans whose mention scores are computed together
PAIR_BATCH = 128  # spans whose antecedents are scored together
# Numbers of pair scores that are stored for the backward pass; if there are more, it computes them again.
MAX_STORED = 2**29


class Spans(NamedTuple):
    """Spans of a document, by their tokens, in the memory of the CPU: reading them never waits for a GPU."""

    starts: NDArray[np.int64]  # (S,)
    ends: NDArray[np.int64]  # (S,) the token after the last

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Starts and ends as tensors on a device."""
        starts, ends = send(torch.from_numpy(np.stack(self)), device).unbind()
        return starts, ends


class RankedSpans(NamedTuple):
    """The spans that remain after pruning, in order, and the scores of their antecedents."""

    spans: Spans  # K of them
    antecedents: Tensor  # (K, A) indices of remaining spans; the nearest first
    is_antecedent: Tensor  # (K, A) false if there are fewer antecedents
    scores: Tensor  # (K, 1 + A); the first is the score of no antecedent, 0


class DocumentTokens(NamedTuple):
    """The tokens of a document, without padding."""

    h: Tensor  # (N, D) with context
    x: Tensor  # (N, X) without context
    lengths: Sequence[int]  # of the sentences


class SpanLimits(NamedTuple):
    """Limits of the number of spans; the defaults are those of Lee et al., 2017."""

    max_width: int = 10  # tokens
    spans_per_word: float = 0.4  # that remain after pruning
    max_antecedents: int = 250


class SpanRanker(nn.Module):
    """Scores spans and their antecedents.

    >>> ranker = SpanRanker(4, 3, hidden=(5,), limits=SpanLimits(max_width=2))
    >>> ranked = ranker(DocumentTokens(torch.ones(6, 4), torch.ones(6, 3), [4, 2]))  # two sentences
    >>> len(ranked.spans.starts), ranked.scores.shape
    (2, torch.Size([2, 2]))
    """

    def __init__(
        self,
        contextual_dim: int,
        input_dim: int,
        *,
        hidden: Sequence[int] = (150, 150),
        feature_dim: int = 20,
        dropout: float = 0.2,
        limits: SpanLimits = SpanLimits(),  # noqa: B008  # a tuple of numbers
    ) -> None:
        super().__init__()
        self.limits = limits
        self.span_dim = 2 * contextual_dim + feature_dim + input_dim
        self.head_attention = nn.Linear(contextual_dim, 1)
        self.widths = nn.Embedding(limits.max_width, feature_dim)
        self.mention = FeedForward(self.span_dim, hidden, dropout=dropout, output_dim=1)
        self.distances = nn.Embedding(len(DISTANCE_BINS), feature_dim)
        self.pair = PairScorer(self.span_dim, feature_dim, hidden, dropout)
        self.feature_dropout = nn.Dropout(dropout)

    def forward(self, tokens: DocumentTokens) -> RankedSpans:
        return ensemble_rank([self], [tokens])

    def rank(self, tokens: DocumentTokens, spans: Spans) -> RankedSpans:
        """Score these spans, and each with its antecedents."""
        g = self.represent(tokens.h, tokens.x, *spans.on(tokens.h.device))
        mention = _unrounded(self.mention(g).squeeze(1))  # (K,)
        offsets = torch.arange(1, max(min(len(g) - 1, self.limits.max_antecedents), 0) + 1)
        bins = send(torch.bucketize(offsets, torch.tensor(DISTANCE_BINS), right=True) - 1, g.device)
        antecedents = torch.arange(len(g), device=g.device).unsqueeze(1) - send(offsets, g.device)  # (K, A)
        is_antecedent = antecedents >= 0
        antecedents = antecedents.clamp_min(0)
        distance = self.feature_dropout(self.distances(bins))  # (A, feature)
        antecedent_mention = nn.functional.embedding(antecedents, mention.unsqueeze(1)).squeeze(2)
        scores = mention.unsqueeze(1) + antecedent_mention + _unrounded(self.pair(g, antecedents, distance))
        # A large negative number, not -inf: the gradients of sums of -inf are NaN.
        scores = scores.masked_fill(~is_antecedent, torch.finfo(scores.dtype).min / 4)
        return RankedSpans(spans, antecedents, is_antecedent, torch.cat([scores.new_zeros(len(g), 1), scores], dim=1))

    def represent(self, h: Tensor, x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:  # -> (S, G)
        head = self._heads(h, x, starts, ends)
        width = self.feature_dropout(self.widths(ends - starts - 1))
        # embedding() sums gradients in a fixed order; indexing does not.
        first, last = (nn.functional.embedding(index, h) for index in (starts, ends - 1))
        return torch.cat([first, last, width, head], dim=1)

    def _heads(self, h: Tensor, x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:  # -> (S, X)
        tokens = starts.unsqueeze(1) + torch.arange(self.limits.max_width, device=h.device)  # (S, width)
        inside, tokens = tokens < ends.unsqueeze(1), tokens.clamp_max(len(h) - 1)
        logits = nn.functional.embedding(tokens, self.head_attention(h)).squeeze(2)
        attention = masked_softmax(logits, inside).to(x.dtype)
        return torch.bmm(attention.unsqueeze(1), nn.functional.embedding(tokens, x)).squeeze(1)

    @torch.no_grad()
    def mention_scores(self, tokens: DocumentTokens, spans: Spans) -> Tensor:  # (S,)
        """The mention score of each span, without gradients and without dropout, so that pruning is deterministic."""
        was_training = self.training
        self.eval()
        scores = self._mention_scores(tokens.h, tokens.x, spans)
        self.train(was_training)
        return scores.float()

    def _mention_scores(self, h: Tensor, x: Tensor, spans: Spans) -> Tensor:  # (S,)
        """`mention(represent(...))`, with the first layer applied to tokens, which are fewer than spans."""
        layer = cast("nn.Linear", self.mention.layers[0])  # a ModuleList has no types
        sizes = [h.shape[1], h.shape[1], self.widths.embedding_dim, x.shape[1]]
        first, last, width, head = torch.split(layer.weight, sizes, dim=1)
        by_first, by_last = nn.functional.linear(h, first, layer.bias), nn.functional.linear(h, last)
        by_width, by_x = nn.functional.linear(self.widths.weight, width), nn.functional.linear(x, head)
        scores = []
        for start in range(0, len(spans.starts), SPAN_BATCH):
            part = slice(start, start + SPAN_BATCH)
            starts, ends = Spans(spans.starts[part], spans.ends[part]).on(h.device)
            products = by_first.index_select(0, starts) + by_last.index_select(0, ends - 1)
            products = products + by_width.index_select(0, ends - starts - 1) + self._heads(h, by_x, starts, ends)
            scores.append(self.mention.after_first(products).squeeze(1))
        return torch.cat(scores)


class PairScorer(nn.Module):
    """A feed-forward network over [g_i; g_j; g_i * g_j; distance], for each i and its antecedents j, the nearest first.

    The products of the first layer with g_i and with g_j are computed once for each span, not for each pair. W (g_i *
    g_j) is computed as (W * g_i) g_j: one matrix product for all pairs of a group of spans, without storing g_i * g_j.
    """

    def __init__(self, span_dim: int, feature_dim: int, hidden: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(3 * span_dim + feature_dim, hidden[0])
        nn.init.xavier_uniform_(self.first.weight)
        nn.init.zeros_(self.first.bias)
        self.dropout = nn.Dropout(dropout)
        self.rest = FeedForward(hidden[0], hidden[1:], dropout=dropout, output_dim=1)

    def forward(self, g: Tensor, antecedents: Tensor, distance: Tensor) -> Tensor:  # (K, G), (K, A), (A, F) -> (K, A)
        (count, size), most = g.shape, antecedents.shape[1]
        blocks = torch.split(self.first.weight, [size, size, size, distance.shape[1]], dim=1)
        span_weight, antecedent_weight, product_weight, distance_weight = blocks
        from_span = nn.functional.linear(g, span_weight, self.first.bias)
        from_antecedent = nn.functional.linear(g, antecedent_weight)
        from_distance = nn.functional.linear(distance, distance_weight)
        units = self.first.out_features
        is_large = count * units * (8 * most + size) > MAX_STORED
        scores = []
        for start in range(0, count, PAIR_BATCH):
            stop = min(start + PAIR_BATCH, count)
            # Span number n has n antecedents, so the last span of the group has the most.
            nearest, first = min(stop - 1, most), max(start - most, 0)

            def score(start: int = start, stop: int = stop, nearest: int = nearest, first: int = first) -> Tensor:
                rows, window = slice(start, stop), slice(first, stop)
                weights = (g[rows].unsqueeze(1) * product_weight).flatten(0, 1)  # (rows * units, G)
                pairs = nn.functional.linear(g[window], weights).view(-1, stop - start, units)  # (window, rows, units)
                pairs = pairs + from_antecedent[window].unsqueeze(1)
                columns = (antecedents[rows, :nearest] - first).clamp_min(0)  # (rows, A)
                x = pairs.transpose(0, 1).gather(1, columns.unsqueeze(2).expand(-1, -1, units))
                x = x + from_span[rows].unsqueeze(1) + from_distance[:nearest]
                group_scores: Tensor = self.rest(self.dropout(torch.relu(x))).squeeze(2)
                return group_scores

            group = checkpoint(score, use_reentrant=False) if is_large and torch.is_grad_enabled() else score()
            scores.append(nn.functional.pad(group, (0, most - nearest)))
        return torch.cat(scores)


@dataclass(frozen=True, kw_only=True)
class CorefOptions(TaskOptions):
    """[task] of coreference."""

    hidden: int = checked_field(200, at_least=1)  # of the biLSTM, in each direction
    layers: int = checked_field(1, at_least=1)
    scorer_hidden: tuple[int, ...] = checked_field((150, 150), at_least=1)  # of both feed-forward networks
    feature_dim: int = checked_field(20, at_least=1)  # of embeddings of widths and distances
    lexical_dropout: float = checked_field(0.5, at_least=0, at_most=0.95)  # on the vectors of tokens
    dropout: float = checked_field(0.2, at_least=0, at_most=0.95)  # in all other layers
    max_width: int = checked_field(10, at_least=1)  # words of a span
    spans_per_word: float = checked_field(0.4, above=0)  # that remain after pruning
    max_antecedents: int = checked_field(250, at_least=1)
    max_sentences: int = checked_field(50, at_least=1)  # of a document, in one training step

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.scorer_hidden:
            raise InputError("scorer_hidden is empty; the networks that score spans need a hidden layer")


class CorefExample(NamedTuple):
    """A document, or a part of a long document."""

    sentences: Sequence[Sequence[str]]
    mentions: Sequence[Mention] = ()  # by tokens of this part
    offsets: Sequence[tuple[int, int]] = ()  # of raw text: the characters of each token
    document: str = ""  # file and line; of raw text, its name
    name: str = "text"  # of the document, and of the part that was annotated separately
    part: str = "000"
    first: int = 0  # tokens of the document before this part


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
        tokens = [model._tokens(batch) for model, batch in zip(members, batches, strict=True)]
        return [link_clusters(ensemble_rank([model.ranker for model in members], tokens))]

    def _tokens(self, batch: Batch[CorefExample]) -> DocumentTokens:
        h, x = map(torch.cat, zip(*map(self._encode, batch.inputs), strict=True))
        return DocumentTokens(h, x, [length for inputs in batch.inputs for length in inputs.lengths])

    def _encode(self, inputs: TokenInputs) -> tuple[Tensor, Tensor]:  # (N, D), (N, X)
        """The vectors h and x of some sentences."""
        vectors = self.embedder(inputs)
        x = self.lexical_dropout(vectors.input)
        h = self.dropout(self.encoder(x, inputs.lengths))
        if vectors.output is not None:
            h = torch.cat([h, vectors.output.to(h.dtype)], dim=2)
        # Remove padding by index: a mask as index would wait for the device to count its tokens.
        indices = np.flatnonzero(np.arange(h.shape[1]) < np.array(inputs.lengths).reshape(-1, 1))
        rows = send(torch.from_numpy(indices), h.device)
        h, x = (vectors.flatten(0, 1).index_select(0, rows) for vectors in (h, x))
        return h, x


def ensemble_rank(rankers: Sequence[SpanRanker], tokens: Sequence[DocumentTokens]) -> RankedSpans:
    """The means of several rankers' scores of a document; each ranker has its own vectors of the tokens.

    Spans are pruned by the means of the mention scores.
    """
    limits, lengths = rankers[0].limits, tokens[0].lengths
    if any(ranker.limits != limits for ranker in rankers):
        raise InputError("the models have different limits of spans; their scores cannot be averaged")
    candidates = Spans(*all_spans(lengths, limits.max_width))
    pairs = list(zip(rankers, tokens, strict=True))
    mentions = mean_scores([ranker.mention_scores(own, candidates) for ranker, own in pairs]).cpu().numpy()
    remaining = prune(*candidates, mentions, max(int(limits.spans_per_word * sum(lengths)), 1))
    spans = Spans(candidates.starts[remaining], candidates.ends[remaining])
    ranked = [ranker.rank(own, spans) for ranker, own in pairs]
    return ranked[0]._replace(scores=mean_scores([member.scores for member in ranked]))


def all_spans(lengths: Sequence[int], max_width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First tokens, and tokens after the last, of all spans within sentences of these lengths, in order of tokens.

    >>> [part.tolist() for part in all_spans([2, 1], 10)]
    [[0, 0, 1, 2], [1, 2, 2, 3]]
    """
    counts = np.array(lengths, np.int64)
    sentence_ends = np.repeat(np.cumsum(counts), counts)  # of each token
    starts = np.arange(len(sentence_ends)).reshape(-1, 1)
    ends = starts + np.arange(1, max_width + 1)
    is_span = ends <= sentence_ends.reshape(-1, 1)
    return np.broadcast_to(starts, ends.shape)[is_span], ends[is_span]


def prune(
    starts: NDArray[np.int64], ends: NDArray[np.int64], scores: NDArray[np.float32], most: int
) -> NDArray[np.int64]:
    """The indices of at most `most` spans with the best scores, in text order; none crosses a better span.

    >>> prune(np.array([0, 1, 0]), np.array([2, 3, 1]), np.array([3.0, 2.0, 1.0], np.float32), 2)
    array([2, 0])
    """
    # A stable sort: ties go to the first span.
    order = np.argsort(-scores, kind="stable")
    furthest_end: dict[int, int] = {}  # of the selected spans, by first token
    furthest_start: dict[int, int] = {}  # by end
    selected: list[int] = []
    for number, start, end in zip(order.tolist(), starts[order].tolist(), ends[order].tolist(), strict=True):
        if len(selected) == most:
            break
        for inner in range(start + 1, end):
            if furthest_end.get(inner, 0) > end or furthest_start.get(inner, start) < start:
                break
        else:
            selected.append(number)
            furthest_end[start] = max(furthest_end.get(start, 0), end)
            furthest_start[end] = min(furthest_start.get(end, start), start)
    chosen = np.array(selected, np.int64)
    return chosen[np.lexsort((ends[chosen], starts[chosen]))]


def antecedent_loss(ranked: RankedSpans, clusters: Tensor) -> Tensor:  # (K,) -> ()
    """Minus the log-probability of all correct antecedents together, summed over spans.

    `clusters` has the number of each span's cluster, and -1 for a span without a cluster.
    """
    antecedent_clusters = clusters[ranked.antecedents]
    is_same = (antecedent_clusters == clusters.unsqueeze(1)) & (clusters >= 0).unsqueeze(1)
    is_correct = is_same & ranked.is_antecedent
    has_none = ~is_correct.any(dim=1, keepdim=True)
    smallest = torch.finfo(ranked.scores.dtype).min / 4
    correct = ranked.scores.masked_fill(~torch.cat([has_none, is_correct], dim=1), smallest)
    return (ranked.scores.logsumexp(dim=1) - correct.logsumexp(dim=1)).sum()


def link_clusters(ranked: RankedSpans) -> list[list[tuple[int, int]]]:
    """Clusters of linked spans, each linked to its best antecedent; ties go to no antecedent, then to the nearest."""
    best = (ranked.scores.argmax(dim=1) - 1).tolist()
    spans = list(zip(ranked.spans.starts.tolist(), ranked.spans.ends.tolist(), strict=True))
    antecedents = ranked.antecedents.tolist()
    cluster_of: dict[int, list[int]] = {}
    for number, choice in enumerate(best):
        if choice >= 0:
            before = antecedents[number][choice]
            cluster = cluster_of.setdefault(before, [before])
            cluster.append(number)
            cluster_of[number] = cluster
    distinct = {id(cluster): cluster for cluster in cluster_of.values()}
    return [[spans[number] for number in cluster] for cluster in sorted(distinct.values())]


def _unrounded(scores: Tensor) -> Tensor:
    """At least float32, because scores are summed, and autocast rounds them."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
