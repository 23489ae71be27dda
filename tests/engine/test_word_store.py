"""The word store: the vectors of the engine, each distinct word encoded once, in bounded memory, for any threads."""

import sys
import time
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.engine import open_engine
from elmore.engine.cpu_engine import NumpyTable
from elmore.engine.engine import Engine
from elmore.engine.word_store import WORD_BYTES, WordStore
from elmore.model import Model
from elmore.text.word_ids import WordIds


class CountingEngine:
    """An engine that counts the words it encodes, and fails when told to."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.encoded: list[int] = []
        self.failure: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def encode_words(self, ids: WordIds) -> Any:
        if self.failure is not None:
            raise self.failure
        assert ids.character_ids is not None
        self.encoded.append(len(ids.character_ids))
        return self._engine.encode_words(ids)


@pytest.fixture
def engine(tiny_model: Model) -> CountingEngine:
    return CountingEngine(open_engine(tiny_model.checkpoint, device="cpu"))


def store_of(engine: Any, model: Model, *, words: int = 10_000) -> WordStore:
    return WordStore(engine, model.word_indexer, max_bytes=words * (4 * model.config.vector_dim + WORD_BYTES))


def vectors_of(store: WordStore, words: Sequence[str]) -> np.ndarray:
    numbered = store.number(words)
    vectors: np.ndarray = numbered.table[numbered.numbers]
    return vectors


@given(
    sentences=st.lists(st.lists(st.sampled_from("abcdefghijklm"), max_size=6), min_size=1, max_size=8),
    capacity=st.integers(1, 9),
)
def test_number_returns_vectors_of_the_engine_with_any_capacity(
    tiny_model: Model, sentences: list[list[str]], capacity: int
) -> None:
    engine = open_engine(tiny_model.checkpoint, device="cpu")
    store = store_of(engine, tiny_model, words=capacity)
    for sentence in sentences:
        expected = engine.encode_words(tiny_model.word_indexer.index(sentence))
        np.testing.assert_allclose(vectors_of(store, sentence), expected, rtol=0, atol=1e-6)
        # Words of one call are never split: only the next call starts an empty table.
        assert len(store) <= capacity + len(set(sentence)) + 2


def test_number_returns_the_boundary_words_with_each_table(engine: CountingEngine, tiny_model: Model) -> None:
    store = store_of(engine, tiny_model, words=1)
    expected = engine.encode_words(tiny_model.word_indexer.index(["<S>", "</S>"]))
    for words in (["a", "b"], [], ["c"]):
        numbered = store.number(words)
        np.testing.assert_allclose(numbered.table[list(numbered.boundaries)], expected, rtol=0, atol=1e-6)


def test_number_encodes_each_distinct_word_once(engine: CountingEngine, tiny_model: Model) -> None:
    store = store_of(engine, tiny_model)
    for sentence in (["a", "b", "a"], ["b", "c", "c"], ["a", "b", "c"], ["<S>"]):
        store.number(sentence)
    assert engine.encoded == [4, 1]  # the boundaries with a and b, then c


def test_number_encodes_groups_of_limited_size(engine: CountingEngine, tiny_model: Model) -> None:
    store = store_of(engine, tiny_model)
    words = [f"word{number}" for number in range(2 * engine.word_group)]
    store.number(words)
    assert max(engine.encoded) <= engine.word_group
    assert sum(engine.encoded) == len(words) + 2


def test_word_has_equal_vectors_in_any_company(tiny_model: Model) -> None:
    engine = open_engine(tiny_model.checkpoint, device="cpu")
    words = [f"word{number}" + "x" * (number % 17) for number in range(1500)]
    whole = vectors_of(store_of(engine, tiny_model), words)
    other = store_of(engine, tiny_model)
    for some in (slice(1000, 1030), slice(0, 1500, 7), slice(3, 4)):
        found = vectors_of(other, words[some])
        if engine.name == "native":
            assert np.array_equal(found, whole[some])
        np.testing.assert_allclose(found, whole[some], rtol=0, atol=1e-6)


def test_full_store_starts_an_empty_table_and_old_results_stay_valid(engine: CountingEngine, tiny_model: Model) -> None:
    store = store_of(engine, tiny_model, words=5)
    before = store.number(["a", "b", "c", "d"])
    vectors = before.table[before.numbers].copy()
    after = store.number(["e", "a"])
    assert len(store) == 4
    assert np.array_equal(before.table[before.numbers], vectors)
    np.testing.assert_allclose(after.table[after.numbers[1]], vectors[0], rtol=0, atol=1e-6)


def test_growing_table_leaves_old_results_valid(engine: CountingEngine, tiny_model: Model) -> None:
    store = store_of(engine, tiny_model)
    before = store.number(["a", "b"])
    vectors = before.table[before.numbers].copy()
    for first in range(0, 3000, 500):
        store.number([f"word{number}" for number in range(first, first + 500)])
    assert np.array_equal(before.table[before.numbers], vectors)
    again = store.number(["a", "b"])
    assert np.array_equal(again.table[again.numbers], vectors)


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), MemoryError()])
def test_failed_call_leaves_no_words_without_vectors(
    engine: CountingEngine, tiny_model: Model, failure: BaseException
) -> None:
    store = store_of(engine, tiny_model)
    expected = vectors_of(store, ["a", "b"])
    engine.failure = failure
    with pytest.raises(type(failure)):
        store.number(["c"])
    engine.failure = None
    assert np.array_equal(vectors_of(store, ["c", "a", "b"])[1:], expected)
    assert np.array_equal(vectors_of(store, ["c"]), vectors_of(store_of(engine, tiny_model), ["c"]))


@pytest.mark.parametrize("capacity", [10_000, 40])
def test_threads_share_a_store_with_identical_bits(tiny_model: Model, capacity: int) -> None:
    engine = open_engine(tiny_model.checkpoint, device="cpu")
    if engine.name != "native":
        pytest.skip("other engines round words differently in other groups")
    words = [f"word{number}" + "x" * (number % 11) for number in range(400)]
    expected = vectors_of(store_of(engine, tiny_model), words)
    store = store_of(engine, tiny_model, words=capacity)
    together = Barrier(6)

    def work(thread: int) -> bool:
        draw = np.random.default_rng(thread)
        together.wait(timeout=60)
        for _ in range(40):
            chosen = draw.integers(0, len(words), size=30)
            if not np.array_equal(vectors_of(store, [words[number] for number in chosen]), expected[chosen]):
                return False
        return True

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # many switches between threads
    try:
        with ThreadPoolExecutor(6) as pool:
            assert all(pool.map(work, range(6)))
    finally:
        sys.setswitchinterval(interval)


def test_threads_continue_when_one_of_them_fails(tiny_model: Model) -> None:
    class FailingEngine(CountingEngine):
        def encode_words(self, ids: WordIds) -> Any:
            assert ids.character_ids is not None
            if (ids.character_ids == ord("!")).any():
                raise MemoryError
            return super().encode_words(ids)

    store = store_of(FailingEngine(open_engine(tiny_model.checkpoint, device="cpu")), tiny_model)
    together = Barrier(4)

    def work(thread: int) -> str:
        together.wait(timeout=60)
        try:
            for number in range(50):
                store.number([f"word{number}-{thread}", "!" if thread == 2 else "?"])
        except MemoryError:
            return "failed"
        return "done"

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4), timeout=120)) == ["done", "done", "failed", "done"]


def test_store_holds_no_lock_while_the_engine_computes(tiny_model: Model) -> None:
    store: WordStore

    class CheckingEngine(CountingEngine):
        def encode_words(self, ids: WordIds) -> Any:
            # Another thread can use the store in the meantime.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(len, store).result(timeout=20)
                pool.submit(store.number, []).result(timeout=20) if self.encoded else None
            return super().encode_words(ids)

    store = store_of(CheckingEngine(open_engine(tiny_model.checkpoint, device="cpu")), tiny_model)
    store.number([])
    assert len(vectors_of(store, ["a", "b"])) == 2


def test_threads_append_one_after_the_other(tiny_model: Model) -> None:
    class SlowTable(NumpyTable):
        def append(self, vectors: np.ndarray) -> None:
            length = len(self)
            time.sleep(0.01)
            assert len(self) == length, "another thread appended in the meantime"
            super().append(vectors)

    class SlowEngine(CountingEngine):
        def new_table(self) -> NumpyTable:
            return SlowTable(tiny_model.config.vector_dim)

    store = store_of(SlowEngine(open_engine(tiny_model.checkpoint, device="cpu")), tiny_model)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: store.number([f"word{number}"]), range(12), timeout=60))
    assert len(store) == 14


@pytest.mark.parametrize("size", [1000, 10_000, 100_000])
def test_word_bytes_is_about_the_cost_of_an_index_entry(size: int) -> None:
    tracemalloc.start()
    try:
        index = {f"information{number}": number for number in range(size)}
        cost = tracemalloc.get_traced_memory()[0] / len(index)
    finally:
        tracemalloc.stop()
    assert 0.5 * WORD_BYTES < cost <= WORD_BYTES
