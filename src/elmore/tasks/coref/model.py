"""Which spans of a document are mentions, and of what: every span is scored, and linked to one before it or to none.

    span g_i        = [h_start; h_end; width; head],    head = attention of the span's own tokens over their vectors x
    score(i, j)     = mention(g_i) + mention(g_j) + pair(g_i, g_j, g_i * g_j, distance),    score(i, none) = 0
    loss            = - sum over i of log(sum of p(i, j) over the right j before i);  none is right where no j is

Lee et al., 2017. Of all spans those with the highest mention scores are kept, as many as a share of the words, none
crossing another; only they are linked, each to the nearest before it.

N tokens of a document, S spans, K spans that are kept, A antecedents, D size of h, X size of x, G size of g.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmore.errors import InputError
from elmore.nn.devices import send
from elmore.tasks.modules.attention import masked_softmax
from elmore.tasks.modules.ensembling import mean_scores
from elmore.tasks.modules.feed_forward import FeedForward

DISTANCE_BINS = (0, 1, 2, 3, 4, 5, 8, 16, 32, 64)  # the first distance of each
SPANS_AT_ONCE = 2**15  # when all are scored
ROWS_AT_ONCE = 128  # spans whose antecedents are scored together
# Numbers that scores of pairs may keep for the way back; where it would be more, they are made again there.
MOST_KEPT = 2**29


class Spans(NamedTuple):
    """Spans of a document, by their tokens; in ordinary memory, where whoever asks for them need not wait."""

    starts: NDArray[np.int64]  # (S,)
    ends: NDArray[np.int64]  # (S,) the token after the last

    def on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Starts and ends on a device."""
        starts, ends = send(torch.from_numpy(np.stack(self)), device).unbind()
        return starts, ends


class RankedSpans(NamedTuple):
    """The spans that are kept, in order, and how well each goes with those before it."""

    spans: Spans  # K of them
    antecedents: Tensor  # (K, A) numbers of kept spans; the nearest first
    is_antecedent: Tensor  # (K, A) false where there are fewer
    scores: Tensor  # (K, 1 + A); the first is that of having none, 0


class DocumentTokens(NamedTuple):
    """The tokens of a document, in a row."""

    h: Tensor  # (N, D) in their contexts
    x: Tensor  # (N, X) by themselves
    lengths: Sequence[int]  # of the sentences


class SpanLimits(NamedTuple):
    """How many spans are looked at; those of Lee et al., 2017."""

    max_width: int = 10  # tokens
    spans_per_word: float = 0.4  # that are kept
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
        return rank_together([self], [tokens])

    def rank(self, tokens: DocumentTokens, spans: Spans) -> RankedSpans:
        """Score these spans, and each with those before it."""
        g = self.represent(tokens.h, tokens.x, *spans.on(tokens.h.device))
        mention = _unrounded(self.mention(g).squeeze(1))  # (K,)
        offsets = torch.arange(1, max(min(len(g) - 1, self.limits.max_antecedents), 0) + 1)
        bins = send(torch.bucketize(offsets, torch.tensor(DISTANCE_BINS), right=True) - 1, g.device)
        antecedents = torch.arange(len(g), device=g.device).unsqueeze(1) - send(offsets, g.device)  # (K, A)
        is_antecedent = antecedents >= 0
        antecedents = antecedents.clamp_min(0)
        distance = self.feature_dropout(self.distances(bins))  # (A, feature)
        theirs = nn.functional.embedding(antecedents, mention.unsqueeze(1)).squeeze(2)
        scores = mention.unsqueeze(1) + theirs + _unrounded(self.pair(g, antecedents, distance))
        # A large negative number, not -inf, of whose sums the gradients would not be numbers.
        scores = scores.masked_fill(~is_antecedent, torch.finfo(scores.dtype).min / 4)
        return RankedSpans(spans, antecedents, is_antecedent, torch.cat([scores.new_zeros(len(g), 1), scores], dim=1))

    def represent(self, h: Tensor, x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:  # -> (S, G)
        head = self._heads(h, x, starts, ends)
        width = self.feature_dropout(self.widths(ends - starts - 1))
        # By embedding(), whose gradients are added up in one order, which those of an index are not.
        first, last = (nn.functional.embedding(place, h) for place in (starts, ends - 1))
        return torch.cat([first, last, width, head], dim=1)

    def _heads(self, h: Tensor, x: Tensor, starts: Tensor, ends: Tensor) -> Tensor:  # -> (S, X)
        places = starts.unsqueeze(1) + torch.arange(self.limits.max_width, device=h.device)  # (S, width)
        inside, places = places < ends.unsqueeze(1), places.clamp_max(len(h) - 1)
        logits = nn.functional.embedding(places, self.head_attention(h)).squeeze(2)
        attention = masked_softmax(logits, inside).to(x.dtype)
        return torch.bmm(attention.unsqueeze(1), nn.functional.embedding(places, x)).squeeze(1)

    @torch.no_grad()
    def mention_scores(self, tokens: DocumentTokens, spans: Spans) -> Tensor:  # (S,)
        """How much each is a mention, without gradients and without dropout: who is kept is no matter of chance."""
        was_training = self.training
        self.eval()
        scores = self._mention_scores(tokens.h, tokens.x, spans)
        self.train(was_training)
        return scores.float()

    def _mention_scores(self, h: Tensor, x: Tensor, spans: Spans) -> Tensor:  # (S,)
        """As `mention` of what `represent` gives; its first layer is applied to tokens, of which there are fewer."""
        layer = cast("nn.Linear", self.mention.layers[0])  # a ModuleList does not tell
        sizes = [h.shape[1], h.shape[1], self.widths.embedding_dim, x.shape[1]]
        first, last, width, head = torch.split(layer.weight, sizes, dim=1)
        by_first, by_last = nn.functional.linear(h, first, layer.bias), nn.functional.linear(h, last)
        by_width, by_x = nn.functional.linear(self.widths.weight, width), nn.functional.linear(x, head)
        scores = []
        for start in range(0, len(spans.starts), SPANS_AT_ONCE):
            here = slice(start, start + SPANS_AT_ONCE)
            starts, ends = Spans(spans.starts[here], spans.ends[here]).on(h.device)
            products = by_first.index_select(0, starts) + by_last.index_select(0, ends - 1)
            products = products + by_width.index_select(0, ends - starts - 1) + self._heads(h, by_x, starts, ends)
            scores.append(self.mention.after_first(products).squeeze(1))
        return torch.cat(scores)


class PairScorer(nn.Module):
    """A feed-forward network over [g_i; g_j; g_i * g_j; distance], for each i and its antecedents j, the nearest first.

    What its first layer makes of single spans is made once for each, and not once for each pair; and W (g_i * g_j) is
    (W * g_i) g_j, so that all pairs of some spans are one product of matrices, and no pair is laid out at full size.
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
        own, other, product, far = torch.split(self.first.weight, [size, size, size, distance.shape[1]], dim=1)
        from_own = nn.functional.linear(g, own, self.first.bias)
        from_other = nn.functional.linear(g, other)
        from_distance = nn.functional.linear(distance, far)
        units = self.first.out_features
        is_much = count * units * (8 * most + size) > MOST_KEPT
        scores = []
        for start in range(0, count, ROWS_AT_ONCE):
            stop = min(start + ROWS_AT_ONCE, count)
            # The last of these spans has as many before it as its number says; further ones nobody has.
            nearest, first = min(stop - 1, most), max(start - most, 0)

            def score(start: int = start, stop: int = stop, nearest: int = nearest, first: int = first) -> Tensor:
                rows, window = slice(start, stop), slice(first, stop)
                weights = (g[rows].unsqueeze(1) * product).flatten(0, 1)  # (rows * units, G)
                pairs = nn.functional.linear(g[window], weights).view(-1, stop - start, units)  # (window, rows, units)
                pairs = pairs + from_other[window].unsqueeze(1)
                places = (antecedents[rows, :nearest] - first).clamp_min(0)  # (rows, A)
                x = pairs.transpose(0, 1).gather(1, places.unsqueeze(2).expand(-1, -1, units))
                x = x + from_own[rows].unsqueeze(1) + from_distance[:nearest]
                found: Tensor = self.rest(self.dropout(torch.relu(x))).squeeze(2)
                return found

            found = checkpoint(score, use_reentrant=False) if is_much and torch.is_grad_enabled() else score()
            scores.append(nn.functional.pad(found, (0, most - nearest)))
        return torch.cat(scores)


def rank_together(rankers: Sequence[SpanRanker], tokens: Sequence[DocumentTokens]) -> RankedSpans:
    """What several rankers make of a document, each with tokens of its own: the means of their scores.

    Together they choose which spans are kept, and only these are linked.
    """
    limits, lengths = rankers[0].limits, tokens[0].lengths
    if any(ranker.limits != limits for ranker in rankers):
        raise InputError("the models look at spans of other widths or numbers; their scores cannot be put together")
    every = Spans(*all_spans(lengths, limits.max_width))
    pairs = list(zip(rankers, tokens, strict=True))
    mentions = mean_scores([ranker.mention_scores(own, every) for ranker, own in pairs]).cpu().numpy()
    kept = prune(*every, mentions, max(int(limits.spans_per_word * sum(lengths)), 1))
    spans = Spans(every.starts[kept], every.ends[kept])
    each = [ranker.rank(own, spans) for ranker, own in pairs]
    return each[0]._replace(scores=mean_scores([one.scores for one in each]))


def all_spans(lengths: Sequence[int], max_width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First tokens, and tokens after the last, of all spans within sentences of these lengths, in order.

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
    """Which spans are kept, in order of their places: the best ones, none that crosses a better one.

    >>> prune(np.array([0, 1, 0]), np.array([2, 3, 1]), np.array([3.0, 2.0, 1.0], np.float32), 2)
    array([2, 0])
    """
    # Of equal scores, the one that stands first.
    order = np.argsort(-scores, kind="stable")
    longest_from: dict[int, int] = {}  # of those kept, by first token, the furthest end
    longest_to: dict[int, int] = {}  # by end, the first token that is furthest away
    kept: list[int] = []
    for number, start, end in zip(order.tolist(), starts[order].tolist(), ends[order].tolist(), strict=True):
        if len(kept) == most:
            break
        for place in range(start + 1, end):
            if longest_from.get(place, 0) > end or longest_to.get(place, start) < start:
                break
        else:
            kept.append(number)
            longest_from[start] = max(longest_from.get(start, 0), end)
            longest_to[end] = min(longest_to.get(end, start), start)
    chosen = np.array(kept, np.int64)
    return chosen[np.lexsort((ends[chosen], starts[chosen]))]


def antecedent_loss(ranked: RankedSpans, clusters: Tensor) -> Tensor:  # (K,) -> ()
    """Minus the logarithm of the probability of all right antecedents together, summed over spans.

    `clusters` has the number of each span's cluster, and -1 where it is in none.
    """
    theirs = clusters[ranked.antecedents]
    is_right = (theirs == clusters.unsqueeze(1)) & (clusters >= 0).unsqueeze(1) & ranked.is_antecedent
    has_none = ~is_right.any(dim=1, keepdim=True)
    smallest = torch.finfo(ranked.scores.dtype).min / 4
    right = ranked.scores.masked_fill(~torch.cat([has_none, is_right], dim=1), smallest)
    return (ranked.scores.logsumexp(dim=1) - right.logsumexp(dim=1)).sum()


def link_clusters(ranked: RankedSpans) -> list[list[tuple[int, int]]]:
    """Clusters of the spans that are linked, each to its best antecedent; of equals, to none, then to the nearest."""
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
    """In float32 at least: under autocast scores come out rounded, and are added up."""
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
