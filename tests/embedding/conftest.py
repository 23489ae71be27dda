"""Spools to write files from."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmore.embedding.spool import EmbeddedSentence, Spool

Spooled = Callable[..., Spool]


@pytest.fixture
def spooled(tmp_path: Path) -> Iterator[Spooled]:
    """Makes a full spool of sentences; each word of sentence i gets vectors made from i and its place."""
    count = itertools.count()
    with ExitStack() as held:

        def fill(
            sentences: Sequence[Sequence[str]],
            *,
            labels: Sequence[str | None] | None = None,
            numbers: Sequence[int] | None = None,
            layers: int | None = None,
            dtype: Any = "float32",
            job: Mapping[str, Any] | None = None,
        ) -> Spool:
            folder = tmp_path / f"spool{next(count)}"
            spool = held.enter_context(Spool(folder, job or {"model": "tiny"}, dim=4, layers=layers, dtype=dtype))
            for i, words in enumerate(sentences):
                number = i if numbers is None else numbers[i]
                label = None if labels is None else labels[i]
                spool.append(EmbeddedSentence(number, words, label, vectors_of(number, len(words), layers)))
            return spool

        yield fill


def vectors_of(number: int, words: int, layers: int | None) -> np.ndarray:
    shape = (words, 4) if layers is None else (layers, words, 4)
    return np.random.default_rng(number).standard_normal(shape).astype(np.float32)


@pytest.fixture(name="vectors_of")
def vectors_of_fixture() -> Callable[[int, int, int | None], np.ndarray]:
    """The vectors that `spooled` gives a sentence."""
    return vectors_of
