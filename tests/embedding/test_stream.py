"""How sentences are taken from a stream and put together in batches."""

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from torch import Tensor

from elmore import Embedder
from elmore.config import ModelConfig
from elmore.embedding import stream


def test_a_stream_is_read_in_bounded_pieces(tiny: Embedder) -> None:
    taken = 0

    def sentences():
        nonlocal taken
        while True:
            taken += 1
            yield ["An", "endless", "stream"]

    endless = tiny.encode_iter(sentences(), batch_tokens=100)
    for _ in range(1000):
        next(endless)
    # A sentence is five positions with its boundaries, a batch has 20; chunks of 1, 4, 16, 16 and 16 batches were read.
    assert stream.BATCHES_AHEAD == 16
    assert taken == 20 * (1 + 4 + 16 + 16 + 16)


def test_a_batch_has_no_more_sentences_than_asked_for(tiny: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    of_words = stream.Batch.of_words

    def noted(sentences: list[list[str]], config: ModelConfig) -> stream.Batch:
        sizes.append(len(sentences))
        return of_words(sentences, config)

    monkeypatch.setattr(stream.Batch, "of_words", noted)
    tiny.encode([["bow"]] * 10, batch_size=4)
    assert sizes == [4, 4, 2]


def test_vectors_that_were_given_out_are_let_go_before_more_is_read(
    tiny: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Tensor]] = []
    kept: list[int] = []
    apart = stream.SentenceEncoder._apart

    def noted(*given: Any) -> list[Tensor]:
        vectors = apart(*given)
        made.extend(map(weakref.ref, vectors))
        return vectors

    def sentences() -> Iterator[list[str]]:
        for _ in range(300):
            kept.append(sum(one() is not None for one in made))
            yield ["Nothing", "is", "kept"]

    monkeypatch.setattr(stream.SentenceEncoder, "_apart", noted)
    for _vectors in tiny.encode_iter(sentences(), batch_tokens=20):
        pass  # which has the last one in hand
    assert len(made) == 300
    assert max(kept) == 1
