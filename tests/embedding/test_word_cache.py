"""The word cache: the same vectors with and without it, in bounded memory."""

import copy
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore import Embedder
from elmore.embedding import word_cache
from elmore.embedding.word_cache import WordCache
from elmore.model import Model


def cache_of(model: Model, *, words: int) -> WordCache:
    vector_dim = model.config.vector_dim
    max_bytes = words * (4 * vector_dim + word_cache.WORD_BYTES)
    return WordCache(model.network.words, vector_dim=vector_dim, max_bytes=max_bytes)


@settings(deadline=None)
@given(
    sentences=st.lists(st.lists(st.sampled_from("abcdefghijklm"), max_size=6), min_size=1, max_size=8),
    capacity=st.integers(1, 9),
)
def test_vectors_are_those_of_the_encoder_whatever_was_remembered_and_forgotten(tiny_model, sentences, capacity):
    cache = cache_of(tiny_model, words=capacity)
    unbounded = cache_of(tiny_model, words=1000)
    for sentence in sentences:
        batch = tiny_model.batch([sentence])
        with torch.inference_mode():
            vectors = cache.vectors(batch)
            assert torch.equal(vectors, unbounded.vectors(batch))
            torch.testing.assert_close(vectors, tiny_model.network.words(batch.inputs), atol=5e-6, rtol=0)
        assert len(cache) <= capacity


def test_a_known_word_is_not_encoded_again(tiny_model: Model, monkeypatch) -> None:
    cache = cache_of(tiny_model, words=100)
    encoded: list[int] = []
    real = cache._encoded
    monkeypatch.setattr(cache, "_encoded", lambda batch, numbers: encoded.append(len(numbers)) or real(batch, numbers))
    for sentence in (["a", "b"], ["b", "c"], ["a", "b", "c"]):
        cache.vectors(tiny_model.batch([sentence]))
    assert encoded == [4, 1]  # the boundaries are words too


def test_the_word_used_least_recently_goes_first(tiny_model: Model) -> None:
    cache = cache_of(tiny_model, words=4)
    for word in "ab", "a", "c":
        cache.vectors(tiny_model.batch([list(word)]))
    assert set(cache._rows) == {"<S>", "</S>", "a", "c"}


def test_words_of_any_mode_of_autograd_can_be_remembered(tiny_model: Model) -> None:
    cache = cache_of(tiny_model, words=3)
    for word in "abcd":
        with torch.inference_mode(mode=word in "ac"):
            cache.vectors(tiny_model.batch([[word]]))
    assert len(cache) == 3


def test_a_stop_half_way_leaves_no_wrong_vectors_behind(tiny_model: Model, monkeypatch) -> None:
    cache = cache_of(tiny_model, words=4)
    right = cache.vectors(tiny_model.batch([["a", "b"]]))

    class Stopping(torch.Tensor):
        def __setitem__(self, *_: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(cache, "_table", cache._table.as_subclass(Stopping))
    with pytest.raises(KeyboardInterrupt):
        cache.vectors(tiny_model.batch([["c"]]))
    monkeypatch.undo()
    assert torch.equal(cache.vectors(tiny_model.batch([["a", "b"]])), right)


def test_a_copy_starts_without_memory_and_gives_the_same(tiny: Embedder) -> None:
    words = ["I", "took", "a", "bow", "."]
    expected = tiny.encode([words])[0]
    for copied in (copy.deepcopy(tiny), pickle.loads(pickle.dumps(tiny))):
        assert len(copied._cache) == 0
        assert np.array_equal(copied.encode([words])[0], expected)


def test_threads_may_share_an_embedder(tiny: Embedder) -> None:
    sentences = [[f"Word{n}", "and", f"word{n % 7}"] for n in range(200)]
    expected = tiny.encode(sentences)
    shared = copy.deepcopy(tiny)
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(lambda _: shared.encode(sentences), range(8)):
            assert all(np.array_equal(ours, theirs) for ours, theirs in zip(vectors, expected, strict=True))


def test_what_a_word_costs_is_not_underestimated() -> None:
    word, size = "antidisestablishmentarianism", 1000
    words = {f"{word}{number}": number for number in range(size)}
    letters = sum(map(sys.getsizeof, words)) / size
    # An ordered dictionary keeps a linked list, of some 64 bytes a node, beside a plain one's table.
    index = sys.getsizeof(words) / size + sys.getsizeof(size) + 64
    assert letters + index < word_cache.WORD_BYTES * 1.5
