"""The tagger's body: where vectors enter, what is lost, and what is decoded."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from elmore.errors import InputError
from elmore.tasks.modules.crf import LinearChainCrf
from elmore.tasks.tagging.model import SequenceTagger
from ragged_batches import ragged_mask, random_tensor

LENGTHS = [4, 0, 1, 2]


def random_tagger(**options: Any) -> SequenceTagger:
    torch.manual_seed(0)
    return SequenceTagger(5, 3, **options).double()


@pytest.mark.parametrize("hidden", [(), (4,), (4, 2)])
@pytest.mark.parametrize("extra_dim", [0, 2])
def test_emissions_are_linear_in_the_last_output_and_what_stands_beside_it(
    hidden: tuple[int, ...], extra_dim: int
) -> None:
    tagger = random_tagger(hidden=hidden, extra_dim=extra_dim, dropout=0.0)
    x, extra = random_tensor(0, 4, 4, 5), random_tensor(1, 4, 4, extra_dim) if extra_dim else None
    states = x
    for units, encoder in zip(hidden, tagger.encoders, strict=True):
        states = encoder(states, LENGTHS)
        assert states.shape[2] == 2 * units
    features = states.detach().numpy() if extra is None else np.concatenate([states.detach(), extra], axis=2)
    expected = features @ tagger.emissions.weight.detach().numpy().T + tagger.emissions.bias.detach().numpy()
    np.testing.assert_allclose(tagger(x, LENGTHS, extra).detach(), expected, rtol=0, atol=1e-12)


def test_without_a_crf_the_loss_of_a_sentence_is_the_cross_entropy_of_its_tokens() -> None:
    mask, emissions = ragged_mask(LENGTHS), random_tensor(2, 4, 4, 3).masked_fill(~ragged_mask(LENGTHS)[..., None], 50)
    gold = torch.randint(0, 3, (4, 4)).masked_fill(~mask, -1)
    found = random_tagger(hidden=()).loss(emissions, gold, mask)
    for row, length in enumerate(LENGTHS):
        expected = 0.0
        for scores, tag in zip(emissions[row, :length].numpy(), gold[row], strict=False):
            expected += np.log(np.exp(scores).sum()) - scores[tag]
        assert found[row].item() == pytest.approx(expected, abs=1e-12)


def test_with_a_crf_loss_and_tags_are_the_crfs() -> None:
    crf, mask = LinearChainCrf(3).double(), ragged_mask(LENGTHS)
    tagger = random_tagger(hidden=(), crf=crf)
    emissions, gold = random_tensor(3, 4, 4, 3), torch.randint(0, 3, (4, 4))
    assert torch.equal(tagger.loss(emissions, gold, mask), -crf.log_likelihood(emissions, gold, mask))
    with torch.no_grad():
        crf.transitions.copy_(torch.tensor([[0.0, 9, 0], [0, 0, 9], [9, 0, 0]]))  # one after the other
    assert tagger.decode(emissions, mask) == crf.decode(emissions, mask)
    assert tagger.decode(emissions, mask) != random_tagger(hidden=()).decode(emissions, mask)


def test_without_a_crf_the_best_tag_of_each_token_is_taken_and_of_equals_the_lowest() -> None:
    emissions = torch.tensor([[[1.0, 3, 2], [0, 5, 5], [9, 0, 0]], [[0, 0, 1], [0, 9, 0], [0, 9, 0]]])
    assert random_tagger(hidden=()).decode(emissions, ragged_mask([3, 1])) == [[1, 1, 0], [2]]


@pytest.mark.parametrize("crf", [False, True])
@pytest.mark.parametrize("hidden", [(), (4, 2)])
def test_a_sentence_is_tagged_alike_alone_and_in_a_batch(hidden: tuple[int, ...], crf: bool) -> None:
    tagger = random_tagger(hidden=hidden, extra_dim=2, crf=LinearChainCrf(3) if crf else None).eval()
    x, extra, mask = random_tensor(4, 4, 6, 5), random_tensor(5, 4, 6, 2), ragged_mask(LENGTHS, places=6)
    gold = torch.randint(0, 3, (4, 6))
    emissions = tagger(x, LENGTHS, extra)
    losses, tags = tagger.loss(emissions, gold, mask), tagger.decode(emissions, mask)
    assert [len(one) for one in tags] == LENGTHS
    for row, length in enumerate(LENGTHS):
        one = (slice(row, row + 1), slice(0, length))
        alone = tagger(x[one], [length], extra[one])
        torch.testing.assert_close(tagger.loss(alone, gold[one], mask[one]), losses[row : row + 1], rtol=0, atol=1e-10)
        assert tagger.decode(alone, mask[one]) == [tags[row]]
    nobody = tagger(x[:, :0], [0, 0, 0, 0], extra[:, :0])
    assert tagger.loss(nobody, gold[:, :0], mask[:, :0]).tolist() == [0, 0, 0, 0]
    assert tagger.decode(nobody, mask[:, :0]) == [[], [], [], []]


def test_dropout_is_on_the_inputs_of_biLSTMs_and_of_the_linear_layer() -> None:
    tagger = random_tagger(hidden=(4, 2), dropout=0.3, output_dropout=0.2)
    assert [encoder.dropout.probability for encoder in tagger.encoders] == [0.3, 0.3]
    assert tagger.output_dropout.probability == 0.2
    probe = random_tagger(hidden=(), output_dropout=0.5)
    nn.init.ones_(probe.emissions.weight)
    x = torch.ones(1, 3, 5, dtype=torch.float64)
    torch.manual_seed(1)
    first = probe(x, [3])
    assert torch.equal(first[:, 0], first[:, 2])  # variational
    assert not torch.equal(first, probe.eval()(x, [3]))
    torch.manual_seed(1)
    assert torch.equal(probe.train()(x, [3]), first)


@pytest.mark.parametrize("crf", [False, True])
def test_it_learns_a_handful_of_sentences(crf: bool) -> None:
    """Tags that hang on the token before, so that a linear layer alone could not."""
    torch.manual_seed(3)
    x, mask = torch.randn(4, 4, 5), ragged_mask(LENGTHS)
    gold = (x[..., 0] > 0).long() + (x[..., 0] > 0).roll(1, dims=1).long()
    tagger = SequenceTagger(5, 3, hidden=(8,), dropout=0.0, crf=LinearChainCrf(3) if crf else None)
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.02)
    losses = []
    for _ in range(100):
        loss = tagger.loss(tagger(x, LENGTHS), gold, mask).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 < losses[0]
    expected = [tags[:length].tolist() for tags, length in zip(gold, LENGTHS, strict=True)]
    assert tagger.decode(tagger(x, LENGTHS), mask) == expected


def test_under_autocast_the_loss_is_in_float32() -> None:
    x, mask = torch.randn(4, 4, 5), ragged_mask(LENGTHS)
    for crf in (None, LinearChainCrf(3)):
        tagger = SequenceTagger(5, 3, hidden=(4,), crf=crf)
        with torch.autocast("cpu", torch.bfloat16):
            emissions = tagger(x, LENGTHS)
            assert emissions.dtype == torch.bfloat16
            loss = tagger.loss(emissions, torch.zeros(4, 4).long(), mask)
        assert loss.dtype == torch.float32
        loss.sum().backward()
        assert all(one.grad is not None and one.grad.isfinite().all() for one in tagger.parameters())


def test_vectors_that_are_missing_too_many_or_of_another_size_are_refused() -> None:
    x, extra = torch.zeros(1, 2, 5), torch.zeros(1, 2, 3)
    with pytest.raises(InputError, match="this network takes extra vectors of size 3"):
        SequenceTagger(5, 3, extra_dim=3)(x, [2])
    with pytest.raises(InputError, match="extra vectors of size 0; these have size 3"):
        SequenceTagger(5, 3)(x, [2], extra)
    with pytest.raises(InputError, match="3 tags and its CRF 4"):
        SequenceTagger(5, 3, crf=LinearChainCrf(4))
