"""ESIM, part by part in plain NumPy."""

from typing import Any

import numpy as np
import pytest
import torch

from elmore.errors import InputError
from elmore.tasks.modules.encoder_inputs import EncoderInputs
from elmore.tasks.modules.esim import Esim, EsimDropout
from ragged_batches import ragged_mask, random_tensor

LENGTHS = ([4, 1, 0, 3], [2, 5, 3, 0])
NO_DROPOUT = EsimDropout(0.0, 0.0, 0.0)


def random_esim(**options: Any) -> Esim:
    torch.manual_seed(0)
    return Esim(5, 3, hidden=4, **options).double()


def sentences(seed: int, lengths: list[int], *, extra_dim: int = 0) -> EncoderInputs:
    """Something large stands at padding, which nobody should look at."""
    mask = ragged_mask(lengths, places=6)
    extra = random_tensor(seed + 1, len(lengths), 6, extra_dim).masked_fill(~mask[..., None], 50) if extra_dim else None
    x = random_tensor(seed, len(lengths), 6, 5).masked_fill(~mask[..., None], 50)
    return EncoderInputs(x, mask, tuple(lengths), extra)


def paired(premises: EncoderInputs, hypotheses: EncoderInputs) -> EncoderInputs:
    """As the network reads them."""
    extra = (
        None if premises.extra is None or hypotheses.extra is None else torch.cat([premises.extra, hypotheses.extra])
    )
    x, mask = torch.cat([premises.x, hypotheses.x]), torch.cat([premises.mask, hypotheses.mask])
    return EncoderInputs(x, mask, (*premises.lengths, *hypotheses.lengths), extra)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores)
    return powers / powers.sum(axis=1, keepdims=True)


def linear(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def read(encoder: Any, x: np.ndarray) -> np.ndarray:
    """The biLSTMs, which have tests of their own, are taken as they are."""
    return encoder(torch.from_numpy(x)[None], [len(x)])[0].detach().numpy()


def plain(esim: Esim, given: list[tuple[np.ndarray, np.ndarray | None]]) -> np.ndarray:
    """One pair: the vectors (T, D) of each sentence, and those (T, E) beside them."""
    a, b = (
        read(esim.encoder, x) if extra is None else np.concatenate([read(esim.encoder, x), extra], axis=1)
        for x, extra in given
    )
    scores = a @ b.T
    pooled = []
    for v, other, own in ((a, b, scores), (b, a, scores.T)):
        seen = softmax(own) @ other if len(other) else np.zeros_like(v)
        m = np.maximum(linear(esim.projection.layers[0], np.concatenate([v, seen, v - seen, v * seen], axis=1)), 0)
        z = read(esim.composition, m) if len(m) else np.zeros((1, 8))
        pooled += [z.mean(axis=0), z.max(axis=0)]
    hidden = np.maximum(linear(esim.output.layers[0], np.concatenate(pooled)), 0)
    return linear(esim.output.output, hidden)


@pytest.mark.parametrize("extra_dim", [0, 2])
def test_a_pairs_logits_are_those_of_the_equations_whatever_its_batch(extra_dim: int) -> None:
    esim = random_esim(extra_dim=extra_dim).eval()
    premise, hypothesis = (sentences(10 * side, lengths, extra_dim=extra_dim) for side, lengths in enumerate(LENGTHS))
    found = esim(paired(premise, hypothesis)).detach()
    for row in range(4):
        given = [
            (
                one.x[row, : one.lengths[row]].numpy(),
                None if one.extra is None else one.extra[row, : one.lengths[row]].numpy(),
            )
            for one in (premise, hypothesis)
        ]
        np.testing.assert_allclose(found[row], plain(esim, given), rtol=0, atol=1e-10)


def test_its_sizes_are_the_papers() -> None:
    esim = Esim(300 + 1024, 3, extra_dim=1024)
    assert esim.encoder.layers[0].input_size == 1324
    assert esim.projection.layers[0].in_features == 6496
    assert Esim(300, 3).projection.layers[0].in_features == 2400
    assert esim.output.layers[0].in_features == 2400


@pytest.mark.parametrize("place", EsimDropout._fields)
def test_each_dropout_is_drawn_from_torchs_generator_and_in_training_alone(place: str) -> None:
    esim = random_esim(dropout=NO_DROPOUT._replace(**{place: 0.5}))
    pairs = paired(sentences(1, [3, 2]), sentences(2, [2, 4]))

    def logits(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return esim(pairs)

    assert torch.equal(logits(1), logits(1))
    assert not torch.equal(logits(1), logits(2))
    esim.eval()
    assert torch.equal(logits(1), logits(2))


def test_it_learns_a_handful_of_pairs() -> None:
    torch.manual_seed(5)
    pairs, gold = paired(sentences(3, [3, 2, 4]), sentences(4, [2, 2, 1])), torch.tensor([0, 2, 1])
    esim = Esim(5, 3, hidden=8, dropout=NO_DROPOUT).double()
    optimizer = torch.optim.Adam(esim.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(esim(pairs), gold)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 < losses[0]


def test_it_runs_under_autocast() -> None:
    esim = random_esim(extra_dim=2, dropout=NO_DROPOUT).float()
    pairs = paired(sentences(5, [4, 0], extra_dim=2), sentences(7, [2, 3], extra_dim=2))
    assert pairs.extra is not None
    pairs = pairs._replace(x=pairs.x.float(), extra=pairs.extra.float())
    expected = esim(pairs)
    with torch.autocast("cpu", torch.bfloat16):
        found = esim(pairs)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05)
    found.float().sum().backward()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in esim.parameters())


def test_vectors_that_are_missing_or_of_another_size_are_refused() -> None:
    pair = paired(sentences(1, [2]), sentences(2, [2]))
    with pytest.raises(InputError, match="extra vectors of size 2 and was given size 0"):
        random_esim(extra_dim=2)(pair)
