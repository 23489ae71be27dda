"""The biattentive classifier, part by part in plain NumPy."""

from typing import Any

import numpy as np
import pytest
import torch

from elmore.errors import InputError
from elmore.tasks.classification.model import BiattentiveClassifier, ClassifierDropout
from ragged_batches import ragged_mask, random_tensor

LENGTHS = [4, 0, 1, 3]
NO_DROPOUT = ClassifierDropout(0.0, 0.0, 0.0, 0.0)


def random_classifier(**options: Any) -> BiattentiveClassifier:
    torch.manual_seed(0)
    return BiattentiveClassifier(5, 3, hidden=4, output_dims=(6, 4), **options).double()


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores)
    return powers / powers.sum(axis=-1, keepdims=True)


def linear(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def plain(classifier: BiattentiveClassifier, sentence: np.ndarray, extra: np.ndarray | None) -> np.ndarray:
    """One sentence (T, D); its biLSTMs, which have tests of their own, are taken as they are."""
    pooled = np.zeros(4 * 8)
    if len(sentence):

        def read(encoder: Any, x: np.ndarray) -> np.ndarray:
            return encoder(torch.from_numpy(x)[None], [len(x)])[0].detach().numpy()

        x = read(classifier.encoder, np.maximum(linear(classifier.feed_forward.layers[0], sentence), 0))
        x = x if extra is None else np.concatenate([x, extra], axis=1)
        c = softmax(x @ x.T) @ x
        z = read(classifier.integrator, np.concatenate([x, x - c, x * c], axis=1))
        weights = softmax(linear(classifier.self_attentive.scores, z)[:, 0])
        pooled = np.concatenate([z.max(axis=0), z.min(axis=0), z.mean(axis=0), weights @ z])
    network: Any = classifier.output
    for layer in network.layers:
        if hasattr(network, "pieces"):
            pooled = linear(layer, pooled).reshape(-1, network.pieces).max(axis=1)
        else:
            pooled = np.maximum(linear(layer, pooled), 0)
    return linear(network.output, pooled) if hasattr(network, "output") else pooled


@pytest.mark.parametrize("maxout", [False, True])
@pytest.mark.parametrize("extra_dim", [0, 2])
def test_a_sentences_logits_are_those_of_the_equations_whatever_its_batch(extra_dim: int, maxout: bool) -> None:
    classifier = random_classifier(extra_dim=extra_dim, maxout=maxout).eval()
    mask = ragged_mask(LENGTHS, places=6)
    x, extra = random_tensor(0, 4, 6, 5), random_tensor(1, 4, 6, extra_dim) if extra_dim else None
    found = classifier(x.masked_fill(~mask[..., None], 50), mask, LENGTHS, extra).detach()
    assert found.shape == (4, 3)
    for row, length in enumerate(LENGTHS):
        own = None if extra is None else extra[row, :length].numpy()
        np.testing.assert_allclose(found[row], plain(classifier, x[row, :length].numpy(), own), rtol=0, atol=1e-10)


@pytest.mark.parametrize("lengths", [[0], [0, 0], [1]])
def test_batches_of_one_and_of_nothing_are_classified_and_trained_on(lengths: list[int]) -> None:
    classifier, mask = random_classifier(extra_dim=2), ragged_mask(lengths)
    x, extra = random_tensor(2, *mask.shape, 5), random_tensor(3, *mask.shape, 2)
    classifier(x, mask, lengths, extra).square().sum().backward()
    gradients = [one.grad for one in classifier.parameters() if one.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_its_sizes_are_the_papers() -> None:
    classifier = BiattentiveClassifier(300 + 1024, 5, extra_dim=1024)
    assert classifier.integrator.layers[0].input_size == 3 * (600 + 1024)
    assert classifier.self_attentive.scores.in_features == 600
    output: Any = BiattentiveClassifier(300, 5).output
    assert [layer.in_features for layer in output.layers] == [2400, 1200]
    maxout: Any = BiattentiveClassifier(300, 5, maxout=True).output
    assert [(layer.out_features, one.p) for layer, one in zip(maxout.layers, maxout.dropouts, strict=True)] == [
        (1200 * 4, 0.2),  # McCann et al.'s and AllenNLP's: maxout 1200, 600, 5 of 4 pieces
        (600 * 4, 0.3),
        (5 * 4, 0.0),
    ]
    assert sum(layer.in_features for layer in maxout.layers) == 2400 + 1200 + 600


@pytest.mark.parametrize("place", ClassifierDropout._fields)
def test_each_dropout_is_drawn_from_torchs_generator_and_in_training_alone(place: str) -> None:
    classifier = random_classifier(dropout=NO_DROPOUT._replace(**{place: 0.5}))
    x, mask = random_tensor(4, 4, 4, 5), ragged_mask(LENGTHS)

    def logits(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return classifier(x, mask, LENGTHS)

    assert torch.equal(logits(1), logits(1))
    assert not torch.equal(logits(1), logits(2))
    classifier.eval()
    assert torch.equal(logits(1), logits(2))


def test_it_learns_a_handful_of_sentences() -> None:
    torch.manual_seed(5)
    x, mask, gold = torch.randn(4, 4, 5), ragged_mask(LENGTHS), torch.tensor([0, 1, 2, 1])
    classifier = BiattentiveClassifier(5, 3, hidden=8, output_dims=(8, 8), dropout=NO_DROPOUT)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        loss = torch.nn.functional.cross_entropy(classifier(x, mask, LENGTHS), gold)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 < losses[0]
    assert classifier(x, mask, LENGTHS).argmax(dim=1).tolist() == gold.tolist()


def test_it_runs_under_autocast() -> None:
    classifier = random_classifier(extra_dim=2, dropout=NO_DROPOUT).float()
    x, extra, mask = torch.randn(4, 4, 5), torch.randn(4, 4, 2), ragged_mask(LENGTHS)
    expected = classifier(x, mask, LENGTHS, extra)
    with torch.autocast("cpu", torch.bfloat16):
        found = classifier(x, mask, LENGTHS, extra)
    # bfloat16 has eight bits, and the logits are of about 1.
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05)
    found.float().sum().backward()
    assert all(one.grad is not None and one.grad.isfinite().all() for one in classifier.parameters())


def test_vectors_that_are_missing_or_of_another_size_are_refused() -> None:
    x, mask = torch.zeros(1, 2, 5), torch.ones(1, 2).bool()
    with pytest.raises(InputError, match="this network takes extra vectors of size 2"):
        BiattentiveClassifier(5, 3, hidden=4, extra_dim=2)(x, mask, [2])
    with pytest.raises(InputError, match="this network takes extra vectors of size 0"):
        BiattentiveClassifier(5, 3, hidden=4)(x, mask, [2], torch.zeros(1, 2, 3))
