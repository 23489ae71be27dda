"""Weighted sums of layers (3.6)."""

from collections.abc import Sequence

import numpy as np

from reference.network import Array


def mix(layers: Sequence[Array], scalars: Sequence[float], gamma: float) -> Array:
    """gamma times the sum of the layers (each n, size), weighted by the softmax of the scalars."""
    shares = [float(np.exp(s - max(scalars))) for s in scalars]
    total = np.zeros_like(layers[0])
    for share, layer in zip(shares, layers, strict=True):
        total += share / sum(shares) * layer
    return gamma * total


def masked_batch_norm(sentences: Sequence[Array], *, eps: float = 1e-12) -> list[Array]:
    """Normalise one layer of a whole batch, given as its sentences (each n, size) without any padding.

    One mean and one variance for all positions and components. Give the sentences with boundaries for the numbers of
    AllenNLP, without for those of bilm-tf.
    """
    numbers = np.concatenate([sentence.ravel() for sentence in sentences])
    mean = numbers.sum() / len(numbers)
    variance = ((numbers - mean) ** 2).sum() / len(numbers)
    return [(sentence - mean) / np.sqrt(variance + eps) for sentence in sentences]
