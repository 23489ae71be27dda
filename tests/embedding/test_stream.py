"""Packs of sentences through an engine: every vector as for the sentence alone, in order, in bounded memory."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmore.embedding.options import InferenceOptions, LayerSelection
from elmore.embedding.stream import (
    LONG_SENTENCE,
    EncodedBatch,
    SentenceBatch,
    SentenceEncoder,
    _Pack,
    packs,
    split_long_sentences,
)
from elmore.engine.engine import Engine, PackSize
from elmore.engine.rows import PackedRows
from elmore.engine.word_store import NumberedWords, WordStore
from elmore.errors import InputWarning, OutOfMemory
from elmore.model import Model
from engine_proxy import ENGINES, EngineProxy, engine_named, vectors_alone

# Sums in another order: a row among others differs by rounding.
CLOSE = {"rtol": 1e-5, "atol": 5e-6}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tiny_model: Model) -> Engine:
    return engine_named(request.param, tiny_model)


def encoder_of(engine: Any, model: Model, *, to_host: bool = True, **options: Any) -> SentenceEncoder:
    store = WordStore(engine, model.word_indexer)
    return SentenceEncoder(engine, store, model.start, InferenceOptions(**options), to_host=to_host)


def batches_of(sentences: Sequence[list[str]], size: int = 7) -> Iterator[SentenceBatch[int]]:
    """Batches with the number of each sentence."""
    for first in range(0, len(sentences), size):
        some = sentences[first : first + size]
        yield SentenceBatch(some, range(first, first + len(some)))


def joined(batches: Iterator[EncodedBatch[int]]) -> list[Any]:
    """The vectors of all sentences; checks that payloads come in order."""
    numbers, vectors = [], []
    for batch in batches:
        numbers += batch.payloads
        vectors += batch.split()
    assert numbers == list(range(len(numbers)))
    return vectors


@settings(max_examples=25)
@given(
    sentences=st.lists(st.lists(st.sampled_from("ABCDEFGHIJ"), max_size=30), min_size=1, max_size=20),
    tokens=st.integers(1, 60),
    rows=st.integers(1, 8),
    layers=st.sampled_from(["average", "top", "all", 0, [2, 1]]),
)
def test_encode_equals_each_sentence_alone(
    tiny_model: Model, engine: Engine, sentences: list[list[str]], tokens: int, rows: int, layers: Any
) -> None:
    encoder = encoder_of(engine, tiny_model, layers=layers, batch_tokens=tokens, batch_size=rows)
    found = joined(encoder.encode(batches_of(sentences)))
    selection = LayerSelection.parse(layers, num_layers=3)
    for vectors, sentence in zip(found, sentences, strict=True):
        alone = vectors_alone(engine, tiny_model, sentence)
        selected = [alone[index] for index in selection.indices]
        expected = np.mean(selected, axis=0) if selection.averaged else np.stack(selected)
        assert vectors.shape == expected.shape
        np.testing.assert_allclose(vectors, expected, **CLOSE)


def test_encode_returns_the_requested_dtype(tiny_model: Model, engine: Engine) -> None:
    for layers in ("average", "all"):
        whole, half = (
            next(encoder_of(engine, tiny_model, layers=layers, dtype=dtype).encode(batches_of([["a", "b"]]))).vectors
            for dtype in (np.float32, np.float16)
        )
        assert (whole.dtype, half.dtype) == (np.float32, np.float16)
        assert np.array_equal(half, whole.astype(np.float16))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_encode_carrying_state_continues_each_row(tiny_model: Model, engine: Engine, size: int) -> None:
    lengths = [3, 0, 5, 2, 2, 7, 1, 4, 0, 6, 1]
    sentences = [[f"word{number}-{place}" for place in range(length)] for number, length in enumerate(lengths)]
    encoder = encoder_of(engine, tiny_model, layers="all", state="carry", batch_size=size)
    found = joined(encoder.encode(batches_of(sentences)))
    # Row r of the batches alone: one sentence at a time, with the state of the previous one.
    for row in range(size):
        alone = encoder_of(engine, tiny_model, layers="all", state="carry", batch_size=1)
        expected = joined(alone.encode(batches_of(sentences[row::size])))
        for vectors, other in zip(found[row::size], expected, strict=True):
            np.testing.assert_allclose(vectors, other, **CLOSE)
    assert any(np.abs(one - vectors_alone(engine, tiny_model, own)[-1]).max(initial=0) > 1e-3 for one, own in zip(
        [vectors[-1] for vectors in found[size:]], sentences[size:], strict=True
    ))  # fmt: skip


def test_encode_carrying_state_starts_from_zeros(tiny_model: Model) -> None:
    engine = engine_named("numpy", tiny_model)
    warm = tiny_model.with_start(type(tiny_model.start)(tiny_model.start.h + 0.5, tiny_model.start.c + 0.5), "a test")
    cold, other = (
        joined(encoder_of(engine, model, state="carry", batch_size=2).encode(batches_of([["a", "b"]])))
        for model in (tiny_model, warm)
    )
    assert np.array_equal(cold[0], other[0])


def test_packs_start_small_and_contain_every_sentence(tiny_model: Model) -> None:
    sentences = [[f"word{number}"] * 998 for number in range(200)]
    groups = [SentenceBatch(sentences[at : at + 70], range(at, min(at + 70, 200))) for at in (0, 70, 140)]
    found = list(packs(groups, lambda: 100_000))
    assert [payload for _, payloads in found for payload in payloads] == list(range(200))
    assert [len(words) for words, _ in found] == [7, 25, 100, 68]
    for words, payloads in found:
        assert words == [sentences[number] for number in payloads]


@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=30), size=st.integers(1, 40), drawn=st.integers(1, 9))
def test_packs_end_with_the_sentence_that_fills_them(lengths: list[int], size: int, drawn: int) -> None:
    groups = [
        SentenceBatch([["a"] * length for length in lengths[at : at + drawn]], lengths[at : at + drawn])
        for at in range(0, len(lengths), drawn)
    ]
    found = [np.array([len(one) for one in words]) for words, _ in packs(groups, lambda: size)]
    assert np.concatenate(found).tolist() == lengths
    for own in found[:-1]:
        assert (own + 2).sum() >= size
    for own in found:
        assert (own + 2)[:-1].sum() < size


def test_encode_runs_no_more_rows_than_batch_size(tiny_model: Model) -> None:
    rows: list[int] = []

    class CountingEngine(EngineProxy):
        def run(self, table: Any, packed: PackedRows, *arguments: Any, **options: Any) -> Any:
            rows.append(packed.num_rows)
            return self.engine.run(table, packed, *arguments, **options)

    engine = CountingEngine(engine_named("numpy", tiny_model))
    sentences = [["bow"] * (number % 4) for number in range(50)]
    list(encoder_of(engine, tiny_model, batch_size=3).encode(batches_of(sentences)))
    assert rows == [3]


class SmallEngine(EngineProxy):
    """An engine without memory for packs of more than so many words; notes what was tried."""

    def __init__(self, engine: Engine, *, words: int) -> None:
        super().__init__(engine)
        self.words = words
        self.tried: list[int] = []

    def run(self, table: Any, rows: PackedRows, *arguments: Any, **options: Any) -> Any:
        self.tried.append(len(rows.words))
        if len(rows.words) > self.words:
            raise MemoryError
        return self.engine.run(table, rows, *arguments, **options)


@pytest.mark.parametrize("to_host", [True, False])
def test_encode_halves_a_pack_that_does_not_fit(tiny_model: Model, engine: Engine, to_host: bool) -> None:
    small = SmallEngine(engine, words=10)
    sentences = [["a", "b", "c", "d"], ["e", "f"]] * 6
    encoder = encoder_of(small, tiny_model, to_host=to_host, batch_tokens=25)
    with pytest.warns(InputWarning, match="a batch of 5 sentences did not fit into memory; trying it in halves"):
        found = joined(encoder.encode(batches_of(sentences)))
    expected = joined(encoder_of(engine, tiny_model, batch_tokens=25).encode(batches_of(sentences)))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, **CLOSE)
    assert small.tried[0] == 16
    # The packs after the failure are small enough.
    assert max(small.tried[3:]) <= 10


def test_encode_that_does_not_fit_with_one_sentence_raises_out_of_memory(tiny_model: Model) -> None:
    encoder = encoder_of(SmallEngine(engine_named("numpy", tiny_model), words=2), tiny_model)
    with pytest.raises(OutOfMemory, match="one sentence of 3 words does not fit into memory; split the sentence"):
        list(encoder.encode(batches_of([["a", "b", "c"]])))


def test_encode_passes_other_errors_of_the_engine_on(tiny_model: Model) -> None:
    class BrokenEngine(EngineProxy):
        def run(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("something else")

    encoder = encoder_of(BrokenEngine(engine_named("numpy", tiny_model)), tiny_model)
    with pytest.raises(RuntimeError, match="something else"):
        list(encoder.encode(batches_of([["a"], ["b"]])))


@pytest.mark.parametrize("to_host", [True, False])
@pytest.mark.parametrize("layers", ["average", "all"])
def test_encode_runs_long_sentences_separately_and_restores_order(
    tiny_model: Model, layers: str, to_host: bool
) -> None:
    sentences = [["b", "c"]] * 200 + [["a"] * length for length in (3, 700, 0, 2, 1500, 1)]
    engine = SmallEngine(engine_named("numpy", tiny_model), words=10_000)
    encoder = encoder_of(engine, tiny_model, layers=layers, to_host=to_host, batch_tokens=2048, batch_size=64)
    found = joined(encoder.encode(batches_of(sentences, 300)))
    assert engine.tried == [405, 2200, 1]
    for vectors, sentence in zip(found[199:], sentences[199:], strict=True):
        alone = vectors_alone(engine.engine, tiny_model, sentence)
        expected = np.mean(alone, axis=0) if layers == "average" else np.stack(alone)
        np.testing.assert_allclose(vectors, expected, **CLOSE)


@given(
    lengths=st.lists(st.integers(0, 3000), min_size=1, max_size=50),
    rows=st.integers(1, 60),
    tokens=st.integers(1, 50_000),
)
def test_split_long_sentences_leaves_rows_of_similar_length(lengths: list[int], rows: int, tokens: int) -> None:
    size = PackSize(rows, tokens)
    words = NumberedWords(np.arange(sum(lengths)), None, (0, 1))
    whole = _Pack(words, np.array(lengths), np.arange(len(lengths)))
    parts, done = [whole], []
    while parts:
        part = parts.pop()
        if (separated := split_long_sentences(part, size)) is not None:
            parts.extend(separated)
            continue
        done.append(part)
        longest, steps = int(part.lengths.max()) + 2, 2 * tokens // min(rows, len(part.lengths))
        assert longest <= max(steps, LONG_SENTENCE) or int(part.lengths.min()) + 2 > max(steps, LONG_SENTENCE)
    assert sorted(place for part in done for place in part.indices) == list(range(len(lengths)))
    starts = np.cumsum(lengths) - lengths
    for part in done:
        expected = [np.arange(starts[place], starts[place] + lengths[place]) for place in part.indices]
        assert np.array_equal(part.words.numbers, np.concatenate(expected))


class AsynchronousEngine(EngineProxy):
    """Like an engine on a GPU: `fetch` starts a copy, and the returned function waits for it."""

    is_asynchronous = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.events: list[str] = []

    def run(self, *arguments: Any, **options: Any) -> Any:
        self.events.append("run")
        return self.engine.run(*arguments, **options)

    def fetch(self, array: Any) -> Callable[[], Any]:
        self.events.append("start copy")

        def wait() -> Any:
            self.events.append("wait")
            return array

        return wait


def test_encode_on_an_asynchronous_engine_waits_one_pack_later(tiny_model: Model) -> None:
    whole = engine_named("numpy", tiny_model)
    engine = AsynchronousEngine(whole)
    sentences = [["a", "b"], ["c", "d"], ["e", "f"]]
    found = joined(encoder_of(engine, tiny_model, batch_tokens=1).encode(batches_of(sentences)))
    one = ["run", "start copy"]
    assert engine.events == [*one, *one, "wait", *one, "wait", "wait"]
    expected = joined(encoder_of(whole, tiny_model, batch_tokens=1).encode(batches_of(sentences)))
    for vectors, other in zip(found, expected, strict=True):
        assert np.array_equal(vectors, other)


def test_encode_without_copy_to_host_never_fetches(tiny_model: Model) -> None:
    engine = AsynchronousEngine(engine_named("numpy", tiny_model))
    encoder = encoder_of(engine, tiny_model, to_host=False, batch_tokens=1)
    joined(encoder.encode(batches_of([["a"], ["b"]])))
    assert engine.events == ["run", "run"]


def test_encode_frees_vectors_before_it_runs_the_next_pack(tiny_model: Model) -> None:
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    class WatchingEngine(EngineProxy):
        def run(self, *arguments: Any, **options: Any) -> Any:
            alive.append(sum(one() is not None for one in made))
            layers, state = self.engine.run(*arguments, **options)
            made.append(weakref.ref(layers))
            return layers, state

        def fetch(self, array: Any) -> Callable[[], Any]:
            made.append(weakref.ref(array))
            return self.engine.fetch(array)

    engine = WatchingEngine(engine_named("numpy", tiny_model))
    sentences = [["Nothing", "is", "saved"]] * 32
    for options in ({"batch_tokens": 20}, {"state": "carry", "batch_size": 4}):
        for batch in encoder_of(engine, tiny_model, **options).encode(batches_of(sentences)):
            del batch
        assert len(alive) == 8
        assert max(alive) == 0
        alive.clear()
