"""Sentences with vectors that follow from their numbers, for tests of files and work folders."""

from collections.abc import Sequence

import numpy as np

from elmore.embedding.vector_files import EmbeddedSentences

DIM = 4


def vectors_of(number: int, words: int, layers: int | None) -> np.ndarray:
    """The vectors of a sentence."""
    shape = (words, DIM) if layers is None else (layers, words, DIM)
    return np.random.default_rng(number).standard_normal(shape).astype(np.float32)


def embedded(
    sentences: Sequence[Sequence[str]],
    *,
    labels: Sequence[str | None] | None = None,
    numbers: Sequence[int] | None = None,
    layers: int | None = None,
) -> EmbeddedSentences:
    """A batch of these sentences."""
    numbers = range(len(sentences)) if numbers is None else numbers
    empty = vectors_of(0, 0, layers)
    vectors = [vectors_of(number, len(words), layers) for number, words in zip(numbers, sentences, strict=True)]
    return EmbeddedSentences(
        numbers=numbers,
        words=sentences,
        labels=labels or [None] * len(sentences),
        vectors=np.concatenate([empty, *vectors], axis=-2),
        digests=[f"{number:032x}" for number in numbers],
    )


def numbered(numbers: Sequence[int], *, layers: int | None = None) -> EmbeddedSentences:
    """A batch of sentences whose words follow from their numbers too: none to six words, and a label or none."""
    words = [[f"wörd{number}-{position}" for position in range(number % 7)] for number in numbers]
    labels = [f"s{number}" if number % 3 else None for number in numbers]
    return embedded(words, labels=labels, numbers=numbers, layers=layers)


def one_by_one(numbers: Sequence[int], *, layers: int | None = None) -> list[EmbeddedSentences]:
    """The same sentences, a batch for each."""
    return [numbered([number], layers=layers) for number in numbers]
