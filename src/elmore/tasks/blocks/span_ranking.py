"""Which spans of a document are mentions, and of what: every span is scored, and linked to one before it or to none.

    span g_i        = [h_start; h_end; width; head],    head = attention of the span's own tokens over their vectors x
    score(i, j)     = mention(g_i) + mention(g_j) + pair(g_i, g_j, g_i * g_j, distance),    score(i, none) = 0
    loss            = - sum over i of log(sum of p(i, j) over the right j before i);  none is right where no j is

Lee et al., 2017. Of all spans those with the highest mention scores are kept, as many as a share of the words, none
crossing another; only they are linked, each to the nearest before it.

N tokens of a document, S spans, K spans that are kept, A antecedents, D size of h, X size of x, G size of g.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmore.tasks.blocks.attention import masked_softmax
from elmore.tasks.blocks.feed_forward import FeedForward

DISTANCE_BINS = (0, 1, 2, 3, 4, 5, 8, 16, 32, 64)  # the first distance of each
SPANS_AT_ONCE = 2048  # when all are scored
ROWS_AT_ONCE = 64  # spans whose antecedents are scored together; what is between is made again on the way back


class Spans(NamedTuple):
    """Spans of a document, by their tokens."""

    starts: Tensor  # (S,)
    ends: Tensor  # (S,) the token after the last


class RankedSpans(NamedTuple):
    """The spans that are kept, in order, and how well each goes with those before it."""

    spans: Spans  # K of them
    antecedents: Tensor  # (K, A) numbers of kept spans; the nearest first
    is_antecedent: Tensor  # (K, A) false where there are fewer
    scores: Tensor  # (K, 1 + A); the first is that of having none, 0


class SpanLimits(NamedTuple):
    """How many spans are looked at; those of Lee et al., 2017."""

    max_width: int = 10  # tokens
    spans_per_word: float = 0.4  # that are kept
    max_antecedents: int = 250


class SpanRanker(nn.Module):
    """Scores spans and their antecedents.

    >>> ranker = SpanRanker(4, 3, hidden=(5,), limits=SpanLimits(max_width=2))
    >>> ranked = ranker(torch.ones(6, 4), torch.ones(6, 3), [4, 2])  # two sentences
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

    def forward(self, h: Tensor, x: Tensor, lengths: Sequence[int]) -> RankedSpans:  # (N, D), (N, X), sentences
        spans = self.keep(h, x, lengths)
        g = self.represent(h, x, spans)
        mention = _unrounded(self.mention(g).squeeze(1))  # (K,)
        offsets = torch.arange(1, max(min(len(g) - 1, self.limits.max_antecedents), 0) + 1, device=g.device)
        antecedents = torch.arange(len(g), device=g.device).unsqueeze(1) - offsets  # (K, A)
        is_antecedent = antecedents >= 0
        antecedents = antecedents.clamp_min(0)
        bins = torch.bucketize(offsets, torch.tensor(DISTANCE_BINS, device=g.device), right=True) - 1
        distance = self.feature_dropout(self.distances(bins))  # (A, feature)
        theirs = nn.functional.embedding(antecedents, mention.unsqueeze(1)).squeeze(2)
        scores = mention.unsqueeze(1) + theirs + _unrounded(self.pair(g, antecedents, distance))
        # A large negative number, not -inf, of whose sums the gradients would not be numbers.
        scores = scores.masked_fill(~is_antecedent, torch.finfo(scores.dtype).min / 4)
        return RankedSpans(spans, antecedents, is_antecedent, torch.cat([scores.new_zeros(len(g), 1), scores], dim=1))

    def represent(self, h: Tensor, x: Tensor, spans: Spans) -> Tensor:  # -> (S, G)
        starts, ends = spans
        places = starts.unsqueeze(1) + torch.arange(self.limits.max_width, device=h.device)  # (S, width)
        inside, places = places < ends.unsqueeze(1), places.clamp_max(len(h) - 1)
        # All by embedding(), whose gradients are added up in one order, which those of an index are not.
        logits = nn.functional.embedding(places, self.head_attention(h)).squeeze(2)
        attention = masked_softmax(logits, inside).to(x.dtype)
        head = torch.bmm(attention.unsqueeze(1), nn.functional.embedding(places, x)).squeeze(1)
        width = self.feature_dropout(self.widths(ends - starts - 1))
        first, last = (nn.functional.embedding(place, h) for place in (starts, ends - 1))
        return torch.cat([first, last, width, head], dim=1)

    @torch.no_grad()
    def keep(self, h: Tensor, x: Tensor, lengths: Sequence[int]) -> Spans:
        """The spans to be linked; those that are not need no gradient, so that none is kept for them."""
        starts, ends = all_spans(lengths, self.limits.max_width)
        was_training, scores = self.training, []
        self.eval()  # which spans are kept is no matter of chance
        for first in range(0, len(starts), SPANS_AT_ONCE):
            here = slice(first, first + SPANS_AT_ONCE)
            some = Spans(*(torch.from_numpy(part[here]).to(h.device) for part in (starts, ends)))
            scores.append(self.mention(self.represent(h, x, some)).squeeze(1).float().cpu())
        self.train(was_training)
        most = max(int(self.limits.spans_per_word * sum(lengths)), 1)
        kept = prune(starts, ends, torch.cat(scores).numpy(), most)
        return Spans(*(torch.from_numpy(part[kept]).to(h.device) for part in (starts, ends)))


class PairScorer(nn.Module):
    """A feed-forward network over [g_i; g_j; g_i * g_j; distance], for each i and its antecedents j, the nearest first.

    What its first layer makes of single spans is made once for each, and not once for each pair.
    """

    def __init__(self, span_dim: int, feature_dim: int, hidden: Sequence[int], dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(3 * span_dim + feature_dim, hidden[0])
        nn.init.xavier_uniform_(self.first.weight)
        nn.init.zeros_(self.first.bias)
        self.dropout = nn.Dropout(dropout)
        self.rest = FeedForward(hidden[0], hidden[1:], dropout=dropout, output_dim=1)

    def forward(self, g: Tensor, antecedents: Tensor, distance: Tensor) -> Tensor:  # (K, G), (K, A), (A, F) -> (K, A)
        size = g.shape[1]
        own, other, product, far = torch.split(self.first.weight, [size, size, size, distance.shape[1]], dim=1)
        from_own = nn.functional.linear(g, own, self.first.bias)
        from_other = nn.functional.linear(g, other)
        from_distance = nn.functional.linear(distance, far)

        def score(rows: Tensor, before: Tensor, from_distance: Tensor) -> Tensor:  # (rows,), (rows, A) -> (rows, A)
            products = nn.functional.embedding(rows, g).unsqueeze(1) * nn.functional.embedding(before, g)
            x = nn.functional.linear(products, product) + nn.functional.embedding(before, from_other)
            x = x + nn.functional.embedding(rows, from_own).unsqueeze(1) + from_distance
            found: Tensor = self.rest(self.dropout(torch.relu(x))).squeeze(2)
            return found

        scores = []
        for rows in torch.split(torch.arange(len(g)), ROWS_AT_ONCE):
            # The last of these spans has as many before it as its number says; further ones nobody has.
            most = min(int(rows[-1]), antecedents.shape[1])
            before = antecedents[rows[0] : rows[-1] + 1, :most]
            some = (rows.to(g.device), before, from_distance[:most])
            found = checkpoint(score, *some, use_reentrant=False) if torch.is_grad_enabled() else score(*some)
            scores.append(nn.functional.pad(found, (0, antecedents.shape[1] - most)))
        return torch.cat(scores)


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
    longest_from: dict[int, int] = {}  # of those kept, by first token, the furthest end
    longest_to: dict[int, int] = {}  # by end, the first token that is furthest away
    kept: list[int] = []
    # Of equal scores, the one that stands first.
    for number in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == most:
            break
        start, end = int(starts[number]), int(ends[number])
        crosses = any(longest_from.get(place, 0) > end for place in range(start + 1, end)) or any(
            longest_to.get(place, start) < start for place in range(start + 1, end)
        )
        if not crosses:
            kept.append(number)
            longest_from[start] = max(longest_from.get(start, 0), end)
            longest_to[end] = min(longest_to.get(end, start), start)
    return np.array(sorted(kept, key=lambda number: (starts[number], ends[number])), np.int64)


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
