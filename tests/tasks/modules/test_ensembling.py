"""Several networks decide by the means of their probabilities or scores; one alone as if there were no others."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError
from elmore.tasks.coref.model import DocumentTokens, SpanLimits, SpanRanker, all_spans, ensemble_rank, prune
from elmore.tasks.modules.crf import AllowedTransitions, LinearChainCrf
from elmore.tasks.modules.ensembling import mean_of_probabilities, mean_scores
from elmore.tasks.tagging.model import SequenceTagger, ensemble_decode
from ragged_batches import random_tensor
from reference.strategies import patiently, seeds


@patiently
@given(seed=seeds, members=st.integers(1, 4))
def test_the_softmax_of_the_mean_is_the_mean_of_the_softmaxes(seed: int, members: int) -> None:
    logits = [9 * random_tensor(seed + number, 2, 3, 5) for number in range(members)]
    expected = torch.stack([one.softmax(dim=-1) for one in logits]).mean(dim=0)
    found = mean_of_probabilities(logits)
    torch.testing.assert_close(found.softmax(dim=-1), expected)
    sizes = torch.stack([one.logsumexp(dim=-1) for one in logits]).mean(dim=0)
    torch.testing.assert_close(found.logsumexp(dim=-1), sizes)


def test_what_one_network_says_is_left_as_it_is() -> None:
    logits = random_tensor(1, 3, 4)
    assert mean_of_probabilities([logits]) is logits
    assert mean_scores([logits]) is logits


def test_what_is_forbidden_stays_so() -> None:
    logits = torch.tensor([[0.0, -torch.inf, -800.0], [-800.0, -torch.inf, 0.0]])
    found = mean_of_probabilities([logits[:1], logits[1:]])
    assert found[0, 1] == -torch.inf
    torch.testing.assert_close(found.softmax(dim=1), torch.tensor([[0.5, 0.0, 0.5]]))


def random_tagger(seed: int, *, crf: bool) -> SequenceTagger:
    torch.manual_seed(seed)
    allowed = AllowedTransitions(
        torch.tensor([True, True, False]),
        torch.tensor([[True, True, False], [True] * 3, [True] * 3]),
        torch.ones(3).bool(),
    )
    own = LinearChainCrf(3, transitions_allowed=allowed) if crf else None
    if own is not None:
        for parameter in own.parameters():
            torch.nn.init.normal_(parameter)
    return SequenceTagger(2, 3, hidden=(), crf=own).double()


@patiently
@given(seed=seeds)
def test_crfs_decide_by_the_mean_of_all_their_scores(seed: int) -> None:
    taggers = [random_tagger(seed + number, crf=True) for number in range(3)]
    emissions = [3 * random_tensor(seed + number, 1, 4, 3) for number in range(3)]
    crf = taggers[0].crf

    def score(tags: tuple[int, ...]) -> float:
        total = torch.zeros(())
        for tagger, own in zip(taggers, emissions, strict=True):
            total += tagger.crf.start_transitions[tags[0]] + tagger.crf.end_transitions[tags[-1]]
            total += sum(own[0, place, tag] for place, tag in enumerate(tags))
            total += sum(tagger.crf.transitions[pair] for pair in pairwise(tags))
        return float(total.detach())

    possible = [
        tags
        for tags in product(range(3), repeat=4)
        if crf.allowed_starts[tags[0]] and all(crf.allowed_pairs[pair] for pair in pairwise(tags))
    ]
    [found] = ensemble_decode(taggers, emissions, torch.ones(1, 4, dtype=torch.bool))
    assert tuple(found) == max(possible, key=score)


def test_without_a_crf_every_token_has_the_tag_that_is_most_probable_on_the_mean() -> None:
    taggers = [random_tagger(number, crf=False) for number in range(3)]
    # Two lean a little to the first, one is sure of the second.
    emissions = [torch.tensor([[[0.1, 0.0, -9.0]]])] * 2 + [torch.tensor([[[0.0, 9.0, -9.0]]])]
    assert ensemble_decode(taggers, emissions, torch.ones(1, 1, dtype=torch.bool)) == [[1]]
    assert ensemble_decode(taggers[:2], emissions[:2], torch.ones(1, 1, dtype=torch.bool)) == [[0]]


def test_taggers_with_a_crf_and_without_cannot_decide_together() -> None:
    taggers = [random_tagger(number, crf=number == 0) for number in range(2)]
    with pytest.raises(InputError, match="some of the taggers have a CRF and some have none"):
        ensemble_decode(taggers, [torch.zeros(1, 1, 3)] * 2, torch.ones(1, 1, dtype=torch.bool))


def random_ranker(seed: int, **limits: float) -> SpanRanker:
    torch.manual_seed(seed)
    return SpanRanker(3, 2, hidden=(5, 4), feature_dim=2, limits=SpanLimits(**limits)).double().eval()


def test_rankers_choose_and_link_spans_by_the_means_of_their_scores() -> None:
    rankers = [random_ranker(number, max_width=3) for number in range(3)]
    lengths = [4, 5]
    tokens = [DocumentTokens(random_tensor(n, 9, 3), random_tensor(n + 9, 9, 2), lengths) for n in range(3)]
    ranked = ensemble_rank(rankers, tokens)
    starts, ends = all_spans(lengths, 3)
    with torch.no_grad():
        mentions = [
            ranker.mention(ranker.represent(own.h, own.x, torch.from_numpy(starts), torch.from_numpy(ends)))
            for ranker, own in zip(rankers, tokens, strict=True)
        ]
    kept = prune(starts, ends, np.mean([one.squeeze(1).float().numpy() for one in mentions], axis=0), 3)
    assert (ranked.spans.starts.tolist(), ranked.spans.ends.tolist()) == (starts[kept].tolist(), ends[kept].tolist())
    each = [ranker.rank(own, ranked.spans).scores for ranker, own in zip(rankers, tokens, strict=True)]
    torch.testing.assert_close(ranked.scores, torch.stack(each).mean(dim=0))


def test_rankers_of_other_spans_cannot_decide_together() -> None:
    rankers = [random_ranker(1, max_width=3), random_ranker(1, max_width=4)]
    tokens = DocumentTokens(random_tensor(1, 2, 3), random_tensor(2, 2, 2), [2])
    with pytest.raises(InputError, match="the models have different limits of spans"):
        ensemble_rank(rankers, [tokens, tokens])
