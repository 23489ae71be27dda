"""Spans and their antecedents: by the equations in plain NumPy, span by span and pair by pair."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from elmore.tasks.coref import model as span_ranking
from elmore.tasks.coref.model import (
    DocumentTokens,
    RankedSpans,
    SpanLimits,
    SpanRanker,
    Spans,
    all_spans,
    antecedent_loss,
    link_clusters,
    prune,
)
from elmore.tasks.modules.feed_forward import FeedForward
from ragged_batches import random_tensor
from reference.strategies import patiently, seeds

BINS = [0, 1, 2, 3, 4, 5, 5, 5, *[6] * 8, *[7] * 16, *[8] * 32]  # of the distances 0 to 63; 9 from there on


def random_ranker(seed: int, **limits: float) -> SpanRanker:
    torch.manual_seed(seed)
    ranker = SpanRanker(3, 2, hidden=(5, 4), feature_dim=2, dropout=0.3, limits=SpanLimits(**limits)).double()
    for parameter in ranker.parameters():  # biases too, which begin at zero
        torch.nn.init.normal_(parameter)
    return ranker.eval()


def plain_network(network: FeedForward, x: np.ndarray) -> float:
    for layer in network.layers:
        x = np.maximum(layer.weight.detach().numpy() @ x + layer.bias.detach().numpy(), 0)
    return float((network.output.weight.detach().numpy() @ x + network.output.bias.detach().numpy())[0])


def plain_span(ranker: SpanRanker, h: np.ndarray, x: np.ndarray, start: int, end: int) -> np.ndarray:
    weight, bias = ranker.head_attention.weight.detach().numpy()[0], ranker.head_attention.bias.item()
    logits = np.array([weight @ h[token] + bias for token in range(start, end)])
    shares = np.exp(logits) / np.exp(logits).sum()
    width = ranker.widths.weight.detach().numpy()[end - start - 1]
    return np.concatenate([h[start], h[end - 1], width, shares @ x[start:end]])


def plain_pair(ranker: SpanRanker, own: np.ndarray, other: np.ndarray, distance: int) -> float:
    far = ranker.distances.weight.detach().numpy()[BINS[distance] if distance < 64 else 9]
    both = np.concatenate([own, other, own * other, far])
    first = ranker.pair.first
    hidden = np.maximum(first.weight.detach().numpy() @ both + first.bias.detach().numpy(), 0)
    return plain_network(ranker.pair.rest, hidden)


@patiently
@given(seed=seeds, lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), antecedents=st.integers(1, 6))
def test_scores_are_those_of_the_equations(seed: int, lengths: list[int], antecedents: int) -> None:
    ranker = random_ranker(seed, max_width=3, spans_per_word=0.8, max_antecedents=antecedents)
    h, x = random_tensor(seed, sum(lengths), 3), random_tensor(seed + 1, sum(lengths), 2)
    ranked = ranker(DocumentTokens(h, x, lengths))
    spans = list(zip(ranked.spans.starts.tolist(), ranked.spans.ends.tolist(), strict=True))
    assert spans == sorted(spans)
    vectors = [plain_span(ranker, h.numpy(), x.numpy(), *span) for span in spans]
    scores = [plain_network(ranker.mention, vector) for vector in vectors]
    for number, own in enumerate(vectors):
        expected = {-1: 0.0}
        for before in range(max(number - antecedents, 0), number):
            pair = plain_pair(ranker, own, vectors[before], number - before)
            expected[before] = scores[number] + scores[before] + pair
        found = {-1: ranked.scores[number, 0].item()}
        for place, before in enumerate(ranked.antecedents[number].tolist()):
            if ranked.is_antecedent[number, place]:
                found[before] = ranked.scores[number, 1 + place].item()
            else:
                assert ranked.scores[number, 1 + place] < -1e30
        assert found == pytest.approx(expected, abs=1e-9)


def test_the_spans_kept_are_the_best_of_all_and_of_a_share_of_the_words() -> None:
    ranker, lengths = random_ranker(3, max_width=2, spans_per_word=0.4), [7, 5]
    h, x = random_tensor(1, 12, 3), random_tensor(2, 12, 2)
    every = list(zip(*(part.tolist() for part in all_spans(lengths, 2)), strict=True))
    scores = [plain_network(ranker.mention, plain_span(ranker, h.numpy(), x.numpy(), *span)) for span in every]
    kept, order = [], np.argsort([-score for score in scores]).tolist()
    for start, end in (every[number] for number in order):
        if len(kept) < 4 and not any(s < start < e < end or start < s < end < e for s, e in kept):
            kept.append((start, end))
    found = ranker.train()(DocumentTokens(h, x, lengths)).spans
    assert list(zip(found.starts.tolist(), found.ends.tolist(), strict=True)) == sorted(kept)
    assert ranker.training


def test_all_spans_lie_within_their_sentences() -> None:
    starts, ends = all_spans([3, 0, 1], 2)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4)]


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 5)), min_size=1, max_size=12, unique=True),
    st.integers(1, 12),
    seeds,
)
def test_no_span_that_is_kept_crosses_another(spans, most, seed):
    starts, ends = np.array([s for s, _ in spans]), np.array([s + width for s, width in spans])
    scores = np.random.default_rng(seed).normal(size=len(spans)).astype(np.float32)
    expected: list[int] = []
    for number in np.argsort(-scores).tolist():
        s, e = starts[number], ends[number]
        if len(expected) < most and not any(
            starts[k] < s < ends[k] < e or s < starts[k] < e < ends[k] for k in expected
        ):
            expected.append(number)
    assert sorted(prune(starts, ends, scores, most).tolist()) == sorted(expected)


def ranked_of(scores: list[list[float]]) -> RankedSpans:
    """Spans of one token; in each row the score of none, then of the nearest before it, and so on."""
    count = len(scores)
    table = torch.full((count, count), -1e30, dtype=torch.float64)
    for row, own in enumerate(scores):
        table[row, : len(own)] = torch.tensor(own, dtype=torch.float64)
    antecedents = torch.arange(count)[:, None] - torch.arange(1, count)
    spans = Spans(np.arange(count), np.arange(count) + 1)
    return RankedSpans(spans, antecedents.clamp_min(0), antecedents >= 0, table)


SCORES = [[0.0], [0.0, 2.0], [0.0, -1.0, 1.0], [0.0, 0.5, -2.0, 3.0]]


def test_the_loss_is_that_of_all_right_antecedents_together() -> None:
    # The first, third and fourth are of one cluster; the second is of none.
    right = [{0}, {0}, {2}, {1, 3}]  # places in each row
    expected = -sum(
        np.log(sum(np.exp(own[place]) for place in places) / sum(np.exp(own)))
        for own, places in zip(SCORES, right, strict=True)
    )
    found = antecedent_loss(ranked_of(SCORES), torch.tensor([5, -1, 5, 5]))
    assert found.item() == pytest.approx(expected)


def test_spans_without_a_cluster_are_not_of_one() -> None:
    alone = antecedent_loss(ranked_of(SCORES), torch.tensor([-1, -1, -1, -1])).item()
    assert alone == pytest.approx(sum(np.log(np.exp(own).sum()) for own in SCORES))


def test_links_make_clusters_and_what_is_linked_to_none_is_in_none() -> None:
    assert link_clusters(ranked_of(SCORES)) == [[(0, 1), (1, 2), (2, 3), (3, 4)]]
    apart = [[0.0], [0.0, -1.0], [0.0, -1.0, 1.0], [0.0, -1.0, 2.0, 1.0], [0.0, -3.0, -2.0, -1.0, -1.0]]
    assert link_clusters(ranked_of(apart)) == [[(0, 1), (2, 3)], [(1, 2), (3, 4)]]
    assert link_clusters(ranked_of([[0.0], [0.0, 0.0]])) == []


def test_gradients_are_the_same_however_many_spans_are_scored_at_once_and_kept(monkeypatch) -> None:
    h, x = random_tensor(1, 9, 3), random_tensor(2, 9, 2)
    results: list[list[Tensor]] = []
    for rows, kept in ((1, 0), (1, 2**30), (3, 2**30), (64, 0), (64, 2**30)):
        monkeypatch.setattr(span_ranking, "PAIR_BATCH", rows)
        monkeypatch.setattr(span_ranking, "MAX_STORED", kept)  # of 0, all is made again on the way back
        ranker = random_ranker(5, spans_per_word=1.0)
        leaves = [h.clone().requires_grad_(), x.clone().requires_grad_()]
        ranked = ranker(DocumentTokens(*leaves, [5, 4]))
        clusters = torch.arange(len(ranked.spans.starts)) % 2
        antecedent_loss(ranked, clusters).backward()
        # What is added to all logits of a softmax moves nothing.
        moved = [one for name, one in ranker.named_parameters() if name != "head_attention.bias"]
        results.append([*(leaf.grad for leaf in leaves), *(one.grad for one in moved)])
    for several in zip(*results, strict=True):
        assert several[0].any()
        for other in several[1:]:
            torch.testing.assert_close(several[0], other, rtol=1e-9, atol=1e-11)


def test_a_document_of_one_word_has_one_span_and_no_antecedents() -> None:
    ranked = random_ranker(1)(DocumentTokens(random_tensor(1, 1, 3), random_tensor(2, 1, 2), [1]))
    assert ranked.scores.tolist() == [[0.0]]
    assert link_clusters(ranked) == []
    assert antecedent_loss(ranked, torch.tensor([0])).item() == 0
