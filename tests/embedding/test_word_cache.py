"""The word cache: the same vectors with and without it, in bounded memory."""

import copy
import pickle
import tracemalloc
from collections import OrderedDict
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
    return WordCache(model, max_bytes=words * (4 * model.config.vector_dim + word_cache.WORD_BYTES))


@settings(deadline=None)
@given(
    sentences=st.lists(st.lists(st.sampled_from("abcdefghijklm"), max_size=6), min_size=1, max_size=8),
    capacity=st.integers(1, 9),
)
def test_vectors_are_those_of_the_encoder_whatever_was_remembered_and_forgotten(tiny_model, sentences, capacity):
    cache = cache_of(tiny_model, words=capacity)
    unbounded = cache_of(tiny_model, words=1000)
    for sentence in sentences:
        words = ["<S>", *dict.fromkeys(sentence)]
        with torch.inference_mode():
            vectors = cache.vectors(words)
            assert torch.equal(vectors, unbounded.vectors(words))
            expected = tiny_model.network.words(tiny_model.speller.spell(words))
            torch.testing.assert_close(vectors, expected, atol=5e-6, rtol=0)
        assert len(cache) <= capacity


def test_a_known_word_is_neither_spelt_nor_encoded_again(tiny: Embedder, monkeypatch) -> None:
    model = copy.deepcopy(tiny)
    spelt: list[str] = []
    real = model.model.speller.spell
    monkeypatch.setattr(model.model.speller, "spell", lambda words: spelt.extend(words) or real(words))
    for sentence in (["a", "b"], ["b", "c"], ["a", "b", "c"]):
        model.encode([sentence])
    # The boundaries are words too; where rounding asks for it, groups are filled up with their first.
    size = model.model.network.words.group_size()
    assert spelt == ["<S>", "</S>", "a", "b", *["<S>"] * (-4 % size), *["c"] * size]


def test_the_word_used_least_recently_goes_first(tiny_model: Model) -> None:
    cache = cache_of(tiny_model, words=2)
    for word in "ab", "a", "c":
        cache.vectors(list(word))
    assert set(cache._rows) == {"a", "c"}


def test_words_of_any_mode_of_autograd_can_be_remembered(tiny_model: Model) -> None:
    cache = cache_of(tiny_model, words=3)
    for word in "abcd":
        with torch.inference_mode(mode=word in "ac"):
            cache.vectors([word])
    assert len(cache) == 3


def test_a_stop_half_way_leaves_no_wrong_vectors_behind(tiny_model: Model, monkeypatch) -> None:
    cache = cache_of(tiny_model, words=4)
    right = cache.vectors(["a", "b"])

    class Stopping(torch.Tensor):
        def __setitem__(self, *_: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(cache, "_table", cache._table.as_subclass(Stopping))
    with pytest.raises(KeyboardInterrupt):
        cache.vectors(["c"])
    monkeypatch.undo()
    assert torch.equal(cache.vectors(["a", "b"]), right)


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


@pytest.mark.parametrize("size", [1000, 10_000, 100_000])
def test_what_a_word_costs_beside_its_vector_is_as_estimated(size: int) -> None:
    tracemalloc.start()
    try:
        rows = OrderedDict((f"information{number}", number) for number in range(size))
        cost = tracemalloc.get_traced_memory()[0] / len(rows)
    finally:
        tracemalloc.stop()
    assert 0.75 * word_cache.WORD_BYTES < cost <= word_cache.WORD_BYTES
