"""BiDAF with self-attention, part by part in plain NumPy."""

from typing import Any

import numpy as np
import pytest
import torch

from elmore.errors import InputError
from elmore.tasks.modules.rnn import EncoderInputs
from elmore.tasks.squad.model import (
    AttentionFlow,
    Bidaf,
    ResidualSelfAttention,
    SelfAttention,
    SpanLogits,
    SpanPredictor,
    best_spans,
    span_loss,
)
from ragged_batches import ragged_mask, random_tensor

CONTEXTS, QUESTIONS = [5, 1, 3, 6], [2, 4, 1, 3]


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores)
    return powers / powers.sum(axis=-1, keepdims=True)


def linear(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def trilinear(similarity: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    w1, w2, w3, b = (one.detach().numpy() for one in similarity.parameters())
    return np.array([[w1 @ u + w2 @ v + (w3 * u) @ v + b for v in y] for u in x])


def read(encoder: Any, x: np.ndarray) -> np.ndarray:
    """The biGRUs, which have tests of their own, are taken as they are."""
    return encoder(torch.from_numpy(x)[None], [len(x)])[0].detach().numpy()


def plain_flow(flow: AttentionFlow, c: np.ndarray, q: np.ndarray) -> np.ndarray:
    scores = trilinear(flow.similarity, c, q)
    seen = softmax(scores) @ q
    summary = softmax(scores.max(axis=1)) @ c
    return np.concatenate([c, seen, c * seen, c * summary], axis=1)


def plain_self_attention(attention: SelfAttention, x: np.ndarray) -> np.ndarray:
    scores, b = trilinear(attention.similarity, x, x), attention.nothing.item()
    seen = np.zeros_like(x)
    for i in range(len(x)):
        powers = {j: np.exp(scores[i, j]) for j in range(len(x)) if j != i}
        for j, power in powers.items():
            seen[i] += power / (np.exp(b) + sum(powers.values())) * x[j]
    return seen


def plain_residual(block: ResidualSelfAttention, x: np.ndarray) -> np.ndarray:
    z = read(block.encoder, x)
    seen = plain_self_attention(block.attention, z)
    return x + np.maximum(linear(block.projection.layers[0], np.concatenate([seen, z, seen * z], axis=1)), 0)


def plain_predictor(predictor: SpanPredictor, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    s = read(predictor.start_encoder, x)
    e = read(predictor.end_encoder, np.concatenate([x, s], axis=1))
    return linear(predictor.start, s)[:, 0], linear(predictor.end, e)[:, 0]


def randomized(module: Any) -> Any:
    """Float64, and no number left at its first value, where a mistake might not show."""
    torch.manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return module.double().eval()


def padded(seed: int, lengths: list[int], dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Something large stands at padding, which nobody should look at."""
    mask = ragged_mask(lengths, places=max(lengths) + 1)
    return random_tensor(seed, *mask.shape, dim).masked_fill(~mask[..., None], 50), mask


def test_a_paragraph_sees_its_question_as_in_the_equations() -> None:
    flow = randomized(AttentionFlow(3))
    (c, c_mask), (q, q_mask) = padded(0, CONTEXTS, 3), padded(1, QUESTIONS, 3)
    found = flow(c, q, c_mask, q_mask).detach()
    for row, (s, t) in enumerate(zip(CONTEXTS, QUESTIONS, strict=True)):
        np.testing.assert_allclose(
            found[row, :s], plain_flow(flow, c[row, :s].numpy(), q[row, :t].numpy()), rtol=0, atol=1e-10
        )


def test_a_token_sees_all_others_or_nothing_but_never_itself() -> None:
    attention = randomized(SelfAttention(3))
    x, mask = padded(2, CONTEXTS, 3)
    found = attention(x, mask).detach()
    for row, s in enumerate(CONTEXTS):
        np.testing.assert_allclose(
            found[row, :s], plain_self_attention(attention, x[row, :s].numpy()), rtol=0, atol=1e-10
        )
    assert not found[1, 0].any()  # there are no others
    assert SelfAttention(3).nothing.item() == -1  # as Clark and Gardner begin


def test_the_block_adds_to_what_came_in() -> None:
    block = randomized(ResidualSelfAttention(6, hidden=4, dropout=0.2))
    x, mask = padded(3, CONTEXTS, 6)
    found = block(x, mask, tuple(CONTEXTS)).detach()
    for row, s in enumerate(CONTEXTS):
        np.testing.assert_allclose(found[row, :s], plain_residual(block, x[row, :s].numpy()), rtol=0, atol=1e-10)


def inputs(seed: int, lengths: list[int], extra_dim: int) -> EncoderInputs:
    x, mask = padded(seed, lengths, 5)
    return EncoderInputs(x, mask, tuple(lengths), padded(seed + 1, lengths, extra_dim)[0] if extra_dim else None)


@pytest.mark.parametrize("extra_dim", [0, 2])
def test_the_logits_of_a_paragraph_are_those_of_the_equations_whatever_its_batch(extra_dim: int) -> None:
    bidaf = randomized(Bidaf(5, extra_dim=extra_dim, hidden=3))
    context, question = inputs(4, CONTEXTS, extra_dim), inputs(6, QUESTIONS, extra_dim)
    found = bidaf(context, question)
    for row, s in enumerate(CONTEXTS):
        c, q = (read(bidaf.encoder, one.x[row, : one.lengths[row]].numpy()) for one in (context, question))
        if context.extra is not None and question.extra is not None:
            c = np.concatenate([c, context.extra[row, :s].numpy()], axis=1)
            q = np.concatenate([q, question.extra[row, : QUESTIONS[row]].numpy()], axis=1)
        x = np.maximum(linear(bidaf.projection.layers[0], plain_flow(bidaf.flow, c, q)), 0)
        start, end = plain_predictor(bidaf.predictor, plain_residual(bidaf.self_attention, x))
        np.testing.assert_allclose(found.start[row, :s].detach(), start, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.end[row, :s].detach(), end, rtol=0, atol=1e-10)
        assert (found.start[row, s:] < -1e30).all()


def test_its_sizes_are_the_papers() -> None:
    bidaf = Bidaf(400 + 1024, extra_dim=1024)
    assert bidaf.encoder.layers[0].input_size == 1424
    assert bidaf.flow.similarity.x_weight.shape == (1204,)
    assert (bidaf.projection.layers[0].in_features, bidaf.projection.output_dim) == (4 * 1204, 180)
    assert bidaf.self_attention.projection.layers[0].in_features == 3 * 180
    assert bidaf.predictor.end_encoder.layers[0].input_size == 360


def test_the_best_span_is_that_of_all_pairs_within_the_limit() -> None:
    lengths, longest = [7, 1, 4], 3
    mask = ragged_mask(lengths, places=7)
    smallest = torch.finfo(torch.float32).min
    for seed in range(20):
        start, end = (random_tensor(seed * 2 + n, 3, 7).float().masked_fill(~mask, smallest) for n in (0, 1))
        for row, span in enumerate(best_spans(SpanLogits(start, end), longest=longest)):
            pairs = [(i, j) for i in range(lengths[row]) for j in range(i, min(i + longest, lengths[row]))]
            expected = max(pairs, key=lambda pair: start[row, pair[0]].item() + end[row, pair[1]].item())
            assert span[:2] == expected
            own = (
                softmax(start[row, : lengths[row]].double().numpy()),
                softmax(end[row, : lengths[row]].double().numpy()),
            )
            assert span.probability == pytest.approx(own[0][expected[0]] * own[1][expected[1]], rel=1e-5)
            assert span.score == pytest.approx(start[row, expected[0]].item() + end[row, expected[1]].item())


def test_a_limit_beyond_the_paragraph_costs_no_more_than_none() -> None:
    start, end = (random_tensor(seed, 3, 7).float() for seed in (1, 2))
    all_pairs = best_spans(SpanLogits(start, end), longest=7)
    assert best_spans(SpanLogits(start, end), longest=2**40) == all_pairs


def test_the_loss_is_the_sum_of_both_cross_entropies_over_real_tokens() -> None:
    predictor = randomized(SpanPredictor(6, hidden=4))
    x, mask = padded(8, CONTEXTS, 6)
    logits, firsts, lasts = predictor(x, mask, tuple(CONTEXTS)), [1, 0, 2, 0], [3, 0, 2, 5]
    expected = 0.0
    for row, s in enumerate(CONTEXTS):
        start, end = plain_predictor(predictor, x[row, :s].numpy())
        expected -= np.log(softmax(start)[firsts[row]]) + np.log(softmax(end)[lasts[row]])
    found = span_loss(logits, torch.tensor(firsts), torch.tensor(lasts))
    assert found.item() == pytest.approx(expected / 4, abs=1e-10)


def test_dropout_is_drawn_from_torchs_generator_and_in_training_alone() -> None:
    bidaf = randomized(Bidaf(5, hidden=3, dropout=0.5)).train()
    pair = inputs(4, CONTEXTS, 0), inputs(6, QUESTIONS, 0)

    def logits(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return bidaf(*pair).end

    assert torch.equal(logits(1), logits(1))
    assert not torch.equal(logits(1), logits(2))
    bidaf.eval()
    assert torch.equal(logits(1), logits(2))


def test_it_learns_a_handful_and_runs_under_autocast() -> None:
    torch.manual_seed(5)
    bidaf = Bidaf(5, hidden=8, dropout=0.0)
    pair = [one._replace(x=one.x.float()) for one in (inputs(4, CONTEXTS, 0), inputs(6, QUESTIONS, 0))]
    firsts, lasts = torch.tensor([1, 0, 2, 0]), torch.tensor([3, 0, 2, 5])
    optimizer = torch.optim.Adam(bidaf.parameters(), lr=0.01)
    losses = []
    for _ in range(100):
        loss = span_loss(bidaf(*pair), firsts, lasts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 < losses[0]
    assert [span[:2] for span in best_spans(bidaf(*pair), longest=17)] == [(1, 3), (0, 0), (2, 2), (0, 5)]
    with torch.autocast("cpu", torch.bfloat16):
        loss = span_loss(bidaf(*pair), firsts, lasts)
    optimizer.zero_grad()
    loss.backward()
    assert loss.dtype == torch.float32
    assert all(one.grad is not None and one.grad.isfinite().all() for one in bidaf.parameters())


def test_vectors_that_are_missing_are_refused() -> None:
    pair = inputs(4, CONTEXTS, 0), inputs(6, QUESTIONS, 0)
    with pytest.raises(InputError, match="this network takes extra vectors of size 2"):
        randomized(Bidaf(5, extra_dim=2, hidden=3))(*pair)
