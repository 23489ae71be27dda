"""Files of vectors to read."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import OpenWriter, VectorType, writer_for
from embedded_sentences import DIM, embedded, vectors_of

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes sentences to a file, and returns its path."""
    count = itertools.count()

    def write_file(
        path: Path,
        sentences: Sequence[Sequence[str]],
        *,
        labels: Sequence[str | None] | None = None,
        numbers: Sequence[int] | None = None,
        layers: int | None = None,
        dtype: Any = "float32",
        job: Mapping[str, Any] | None = None,
        writer: OpenWriter | None = None,
    ) -> Path:
        batch = embedded(sentences, labels=labels, numbers=numbers, layers=layers)
        layout = VectorType(DIM, layers, dtype)
        with Spool(
            tmp_path / f"spool{next(count)}", job or {"model": "tiny"}, writer or writer_for(path), layout
        ) as spool:
            spool.append(batch)
            spool.finish(path)
        return path

    return write_file


@pytest.fixture(name="vectors_of")
def vectors_of_fixture() -> Callable[[int, int, int | None], np.ndarray]:
    """The vectors that `write` gives a sentence."""
    return vectors_of
