"""The engine for GPUs against the NumPy engine. Here it runs in plain torch on the CPU."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from elmore import Embedder, Model, load
from elmore.config import ORIGINAL, SMALL, CharacterConfig, ModelConfig
from elmore.embedding.options import InferenceOptions
from elmore.engine import open_engine
from elmore.engine.cpu_engine import NumpySoftmax
from elmore.engine.engine import PackSize
from elmore.engine.numpy_engine import NumpyEngine
from elmore.engine.rows import PackedRows, RowSteps
from elmore.engine.state import State
from elmore.engine.word_store import WordStore
from elmore.errors import InputError, InputWarning, OutOfMemory
from elmore.formats.checkpoint import Checkpoint
from elmore.nn import gpu_engine
from elmore.nn.devices import to_arrays
from elmore.nn.gpu_engine import GpuEngine, GpuTable, TorchSoftmax, pack_size
from elmore.text.word_ids import WordIds
from fresh_network import fresh_network

CHARACTERS = CharacterConfig(embedding_dim=3, filters=((1, 4), (3, 5)), num_highways=1, max_characters=12)
WORDS = 40  # rows of the tables below
CONFIGS = {
    "characters": ModelConfig(characters=CHARACTERS, vector_dim=3, cell_dim=5, cell_clip=0.4, projection_clip=0.3),
    "tanh": ModelConfig(characters=replace(CHARACTERS, activation="tanh"), vector_dim=3, cell_dim=5),
    "words and characters": ModelConfig(
        characters=CHARACTERS, vocab_size=9, word_embedding_dim=4, vector_dim=3, cell_dim=5
    ),
    "words": ModelConfig(
        characters=None,
        vocab_size=9,
        word_embedding_dim=3,
        token_projection=False,
        vector_dim=3,
        cell_dim=3,
        lstm_projection=False,
    ),
    "forward": ModelConfig(
        characters=CHARACTERS, vector_dim=3, cell_dim=5, directions="forward", skip_connections=False
    ),
    "backward": ModelConfig(characters=CHARACTERS, vector_dim=3, cell_dim=5, directions="backward", lstm_layers=3),
}


class Engines(NamedTuple):
    gpu: GpuEngine
    numpy: NumpyEngine


def checkpoint_of(config: ModelConfig) -> Checkpoint:
    network = fresh_network(config)
    return Checkpoint(config=config, tensors=to_arrays(network.state_dict()))


def engines_for(config: ModelConfig) -> Engines:
    checkpoint = checkpoint_of(config)
    return Engines(GpuEngine(checkpoint, device="cpu", compute="float32"), NumpyEngine(checkpoint))


@pytest.fixture(scope="module", params=CONFIGS)
def engines(request: pytest.FixtureRequest) -> Engines:
    return engines_for(CONFIGS[request.param])


TWO = engines_for(CONFIGS["characters"])


def table_for(config: ModelConfig) -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(0, 1, (WORDS, config.vector_dim)).astype(np.float32)


def random_state(config: ModelConfig, rows: int) -> State:
    random = np.random.default_rng(2)
    zeros = State.zeros(config, rows)
    return State(*(random.normal(0, 0.5, part.shape).astype(np.float32) for part in (zeros.h, zeros.c)))


def assert_close(found: Any, expected: NDArray[Any]) -> None:
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-5)


lengths_of_sentences = st.lists(st.integers(0, 30), min_size=1, max_size=20).map(np.array)


def rows_of(lengths: NDArray[np.int64], *, rows: int | None = None) -> PackedRows:
    """Sentences over the words of `table_for`; one in each row if `rows` is None."""
    words = np.random.default_rng(3).integers(0, WORDS, int(lengths.sum()))
    if rows is None:
        return PackedRows.one_per_row(words, lengths, boundaries=(7, 8))
    return PackedRows.pack(words, lengths, boundaries=(7, 8), rows=rows)


@given(
    lengths=lengths_of_sentences,
    rows=st.integers(1, 8),
    depth=st.sampled_from([None, 0, 1, 2]),
    boundaries=st.booleans(),
)
def test_run_of_packed_rows_equals_numpy_engine(lengths, rows, depth, boundaries):
    compare_runs(TWO, rows_of(lengths, rows=rows), random_state(TWO.gpu.config, 1), depth, boundaries)


@given(lengths=lengths_of_sentences, depth=st.sampled_from([None, 0, 1]), boundaries=st.booleans())
def test_run_of_carried_rows_equals_numpy_engine(lengths, depth, boundaries):
    state = random_state(TWO.gpu.config, len(lengths))
    found, expected = compare_runs(TWO, rows_of(lengths), state, depth, boundaries)
    assert_close(found.h, expected.h)
    assert_close(found.c, expected.c)


def compare_runs(
    engines: Engines, rows: PackedRows, state: State, depth: int | None, boundaries: bool
) -> tuple[State, State]:
    table = table_for(engines.gpu.config)
    found, after = engines.gpu.run(torch.from_numpy(table), rows, state, depth=depth, boundaries=boundaries)
    expected, expected_after = engines.numpy.run(table, rows, state, depth=depth, boundaries=boundaries)
    numbers = range(len(expected))
    assert len(found) == len(expected)
    assert_close(found.stack(numbers), expected.stack(numbers))
    assert_close(found.stack([numbers[-1], 0]), expected.stack([numbers[-1], 0]))
    assert_close(found.average(numbers), expected.average(numbers))
    assert found.average([0], np.float16).dtype == found.stack([0], np.float16).dtype == torch.float16
    return after, expected_after


def test_run_equals_numpy_engine_for_all_shapes_of_models(engines: Engines) -> None:
    lengths = np.array([4, 0, 17, 2, 9])
    compare_runs(engines, rows_of(lengths, rows=2), random_state(engines.gpu.config, 1), None, False)
    compare_runs(engines, rows_of(lengths), random_state(engines.gpu.config, 5), None, True)


def test_run_of_many_steps_uses_windows_of_each_size() -> None:
    lengths = np.array([150, 33, 7])
    compare_runs(TWO, rows_of(lengths, rows=3), random_state(TWO.gpu.config, 1), None, False)
    compare_runs(TWO, rows_of(lengths), random_state(TWO.gpu.config, 3), None, False)


def test_run_steps_equals_numpy_engine(engines: Engines) -> None:
    config = engines.gpu.config
    lengths = np.array([6, 4, 0])
    words = np.random.default_rng(4).integers(0, WORDS, (config.num_directions, 6, 3))
    steps, state, table = RowSteps(words, lengths, None), random_state(config, 3), table_for(config)
    found, after = engines.gpu.run_steps(torch.from_numpy(table), steps, state)
    expected, expected_after = engines.numpy.run_steps(table, steps, state)
    assert_close(found, expected)
    assert_close(after.h, expected_after.h)
    assert_close(after.c, expected_after.c)


def test_run_rejects_state_of_another_shape() -> None:
    table = torch.from_numpy(table_for(TWO.gpu.config))
    with pytest.raises(InputError, match=r"state\.h has shape \(2, 2, 2, 3\); it must have shape \(2, 2, 1, 3\)"):
        TWO.gpu.run(table, rows_of(np.array([1]), rows=1), State.zeros(TWO.gpu.config, 2))
    with pytest.raises(InputError, match=r"state\.h has shape \(2, 2, 1, 3\); it must have shape \(2, 2, 2, 3\)"):
        TWO.gpu.run(table, rows_of(np.array([1, 2])), State.zeros(TWO.gpu.config, 1))


@pytest.mark.parametrize("rows", [None, 1])
def test_run_rejects_words_beyond_the_table(rows: int | None) -> None:
    packed = rows_of(np.array([5]), rows=rows)
    state = State.zeros(TWO.gpu.config)
    for wrong, complaint in (
        (replace(packed, words=packed.words + WORDS), r"rows\.words contains \d+; it must be from 0 to 39"),
        (replace(packed, boundaries=(7, -1)), r"rows\.boundaries contains -1"),
    ):
        with pytest.raises(InputError, match=complaint):
            TWO.gpu.run(torch.from_numpy(table_for(TWO.gpu.config)), wrong, state)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"words": np.full((2, 3, 1), WORDS)}, r"steps\.words contains 40"),
        ({"lengths": np.array([4])}, r"steps\.lengths are from 4 to 4; they must be from 0 to 3"),
        ({"lengths": np.array([3, 3])}, r"steps\.lengths has shape \(2,\); it must have shape \(1\)"),
    ],
)
def test_run_steps_rejects_wrong_steps(change: dict[str, Any], complaint: str) -> None:
    steps = RowSteps(np.zeros((2, 3, 1), dtype=np.int64), np.array([3]), None)._replace(**change)
    with pytest.raises(InputError, match=complaint):
        TWO.gpu.run_steps(torch.from_numpy(table_for(TWO.gpu.config)), steps, State.zeros(TWO.gpu.config))


@given(lengths=lengths_of_sentences, rows=st.integers(1, 8))
def test_device_rows_equal_packed_rows(lengths, rows):
    packed = rows_of(lengths, rows=rows)
    names = ("forward", "backward")
    steps = packed.steps(names)
    for boundaries in (False, True):
        on_device = gpu_engine._DeviceRows(packed, torch.device("cpu"), boundaries=boundaries)
        expected = packed.words_with_boundaries() if boundaries else packed.words
        assert on_device.selected_words.tolist() == expected.tolist()
        words, starts = on_device.words_and_starts(names)
        is_read = np.arange(len(steps.words[0]))[:, None] < steps.lengths
        assert np.array_equal(words.numpy()[:, is_read], steps.words[:, is_read])
        assert np.array_equal(starts.numpy(), steps.starts)
        for name in names:
            assert on_device.positions(name).tolist() == packed.positions(name, boundaries=boundaries).tolist()


def ids_for(config: ModelConfig, count: int) -> WordIds:
    random = np.random.default_rng(5)
    characters = random.integers(0, 261, (count, 12)) if config.characters else None
    return WordIds(characters, random.integers(0, config.vocab_size, count) if config.vocab_size else None)


def test_encode_words_equals_numpy_engine(engines: Engines, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ids_for(engines.gpu.config, 11)
    expected = engines.numpy.encode_words(ids)
    assert_close(engines.gpu.encode_words(ids), expected)
    monkeypatch.setattr(engines.gpu, "word_group", 4)
    assert_close(engines.gpu.encode_words(ids), expected)
    assert engines.gpu.encode_words(ids.select(np.arange(0))).shape == (0, engines.gpu.config.vector_dim)


def test_encode_words_has_the_same_bits_in_any_group(tiny_model: Model) -> None:
    engine = GpuEngine(tiny_model.checkpoint, device="cpu", compute="float32")
    ids = tiny_model.word_indexer.index([f"word{number}" for number in range(1100)], trimmed=False)
    together = engine.encode_words(ids)
    for some in ([0], [29, 3], list(range(1000, 1030)), list(range(5, 1099, 7))):
        assert torch.equal(engine.encode_words(ids.select(np.array(some))), together[some])


def test_table_grows_and_leaves_earlier_arrays_unchanged() -> None:
    table = GpuTable(3, torch.float32, torch.device("cpu"))
    rows = torch.randn(70_000, 3)
    table.append(rows[:10_000])
    before = table.array()
    kept = before[:10_000].clone()
    table.append(rows[10_000:60_000])
    table.append(rows[60_000:])
    assert len(table) == 70_000
    assert torch.equal(before[:10_000], kept)
    assert torch.equal(table.array()[:70_000], rows)


def test_store_over_the_engine_starts_a_new_table_when_full(tiny_model: Model) -> None:
    engine = GpuEngine(tiny_model.checkpoint, device="cpu", compute="float32")
    store = WordStore(engine, tiny_model.word_indexer, max_bytes=5 * (4 * 16 + 200))
    before = store.number(["a", "b", "c", "d"])
    kept = before.table[before.numbers].clone()
    after = store.number(["e", "a"])
    assert len(store) == 4  # with the boundaries
    assert torch.equal(before.table[before.numbers], kept)
    assert torch.equal(after.table[after.numbers[1]], kept[0])


def test_softmax_equals_numpy_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(6)
    weight, bias, hidden = (random.normal(0, 1, shape).astype(np.float32) for shape in ((50, 4), (50,), (2100, 4)))
    classes = random.integers(0, 50, 2100)
    expected = NumpySoftmax(weight, bias)
    for block in (2**26, 9_000):
        monkeypatch.setattr(gpu_engine, "LOGITS_AT_ONCE", block)
        found = TWO.gpu.new_softmax(weight, bias)
        assert isinstance(found, TorchSoftmax)
        assert_close(
            found.log_probabilities(torch.from_numpy(hidden), classes), expected.log_probabilities(hidden, classes)
        )
        assert_close(found.log_distribution(torch.from_numpy(hidden[0])), expected.log_distribution(hidden[0]))


def test_engine_used_in_inference_mode_works_outside_of_it(tiny_model: Model) -> None:
    expected = Embedder(tiny_model, device="cpu").encode(SENTENCES)
    with torch.inference_mode():
        embedder = embedder_on_gpu_engine(tiny_model)
        embedder.encode(["other words"])
    first, *_ = vectors = embedder.encode_tensors(SENTENCES)
    assert not first.is_inference()
    weight = torch.ones(32, requires_grad=True)
    (first @ weight).sum().backward()
    for one, other in zip(vectors, expected, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("compute", ["tf32", "int8"])
def test_engine_rejects_modes_of_other_devices(tiny_model: Model, compute: Any) -> None:
    with pytest.raises(InputError, match=f"compute='{compute}'"):
        GpuEngine(tiny_model.checkpoint, device="cpu", compute=compute)


def test_engine_in_bfloat16_is_close(tiny_model: Model) -> None:
    expected = np.concatenate(Embedder(tiny_model, device="cpu").encode(SENTENCES))
    embedder = embedder_on_gpu_engine(tiny_model, GpuEngine(tiny_model.checkpoint, device="cpu", compute="bfloat16"))
    found = np.concatenate(embedder.encode(SENTENCES))
    assert found.dtype == np.float32
    assert np.linalg.norm(found - expected) < 0.02 * np.linalg.norm(expected)


def test_engine_reports_lack_of_memory_as_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(gpu_engine, "gather_vectors", fail)
    with pytest.raises(OutOfMemory, match="there is too little memory on cpu; use a smaller batch"):
        TWO.gpu.run(
            torch.from_numpy(table_for(TWO.gpu.config)), rows_of(np.array([1]), rows=1), State.zeros(TWO.gpu.config)
        )


def test_pack_size_is_smaller_for_smaller_gpu() -> None:
    large = pack_size(ORIGINAL, memory=141 * 2**30, bytes_per_number=4)
    small = pack_size(ORIGINAL, memory=8 * 2**30, bytes_per_number=4)
    assert small.tokens < large.tokens
    assert small.rows < large.rows == 2048
    assert pack_size(SMALL, memory=141 * 2**30, bytes_per_number=2).rows == 4096


# An Embedder on this engine.

SENTENCES: list[Any] = ["I took a bow.", ["pre", "tokenised"], [], "Me too.", ["a"] * 40]


def embedder_on_gpu_engine(model: Model, engine: GpuEngine | None = None, *, batch_invariant: bool = False) -> Embedder:
    embedder = Embedder(model, device="cpu")
    opened = engine or open_engine(model.checkpoint, engine="gpu", device="cpu", batch_invariant=batch_invariant)
    assert isinstance(opened, GpuEngine)
    if batch_invariant:
        # As many rows as a GPU has are slow on a CPU.
        opened.pack_size, opened._fixed_rows = PackSize(rows=8, tokens=2048), 8
    store = WordStore(opened, model.word_indexer)
    embedder._running = embedder._running._replace(engine=opened, store=store)
    return embedder


@pytest.fixture(scope="module", params=[False, True], ids=["as it comes", "batch-invariant"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    return embedder_on_gpu_engine(load("tiny-random"), batch_invariant=request.param)


@pytest.mark.parametrize("layers", ["average", "all", "top", 0])
@pytest.mark.parametrize("is_asynchronous", [False, True])
def test_embedder_gives_the_same_vectors_in_the_same_order(
    tiny: Embedder, embedder: Embedder, layers: Any, is_asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedder.engine, "is_asynchronous", is_asynchronous)
    expected = tiny.encode(SENTENCES, layers=layers)
    for options in ({}, {"batch_tokens": 10}, {"batch_size": 2}):
        for one, other in zip(embedder.encode(SENTENCES, layers=layers, **options), expected, strict=True):
            assert_close(one, other)
    for tensor, other in zip(embedder.encode_tensors(SENTENCES, layers=layers), expected, strict=True):
        assert isinstance(tensor, torch.Tensor)
        assert_close(tensor, other)


def test_embedder_returns_payloads_and_pools_tokens(tiny: Embedder, embedder: Embedder) -> None:
    items = [(["I", "did", "n't"], "first"), ([], "second"), (["Ca", "n't"], "third")]
    options = InferenceOptions(batch_tokens=4, token_style="penn", dtype="float16")
    encoded = list(embedder.encode_batches(iter(items), options))
    assert [payload for batch in encoded for payload in batch.payloads] == ["first", "second", "third"]
    expected = tiny.encode([words for words, _ in items], token_style="penn")
    for vectors, other in zip((own for batch in encoded for own in batch.split()), expected, strict=True):
        assert vectors.dtype == np.float16
        np.testing.assert_allclose(vectors, other, atol=2e-3)


def test_embedder_carries_state(tiny: Embedder, embedder: Embedder) -> None:
    sentences = [["to", "be"], ["or"], ["not", "to", "be"], ["a"]]
    expected = tiny.encode(sentences, state="carry", batch_size=2)
    for one, other in zip(embedder.encode(sentences, state="carry", batch_size=2), expected, strict=True):
        assert_close(one, other)


def test_batch_invariant_embedder_gives_the_same_bits_in_any_batch() -> None:
    embedder = embedder_on_gpu_engine(load("tiny-random"), batch_invariant=True)
    random = np.random.default_rng(7)
    sentences = [[f"Word{n}" for n in random.integers(0, 60, length)] for length in random.integers(0, 30, 40)]
    together = embedder.encode(sentences, layers="all")
    shuffled = random.permutation(len(sentences)).tolist()
    for some, options in ((shuffled, {}), (shuffled[:20], {"batch_tokens": 90}), (shuffled[:9], {"batch_size": 2})):
        fresh = embedder_on_gpu_engine(load("tiny-random"), batch_invariant=True)
        found = fresh.encode([sentences[number] for number in some], layers="all", **options)
        assert all(np.array_equal(one, together[number]) for one, number in zip(found, some, strict=True))


def test_threads_share_an_embedder(tiny: Embedder) -> None:
    embedder = embedder_on_gpu_engine(load("tiny-random"), batch_invariant=True)
    texts = [[[f"{start}-{n}" for n in range(length)] for length in (3, 9, 0, 20)] for start in range(8)]
    expected = [np.concatenate(embedder.encode(text)) for text in texts]
    fresh = embedder_on_gpu_engine(load("tiny-random"), batch_invariant=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(fresh.encode, texts * 2))
    finally:
        sys.setswitchinterval(interval)
    for vectors, own in zip(found, expected * 2, strict=True):
        assert np.array_equal(np.concatenate(vectors), own)


def failing_above(words: int, engine: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make the engine run out of memory for packs with more words; returns the sizes of the packs."""
    sizes: list[int] = []
    run = engine.run

    def limited(table: Any, rows: PackedRows, state: State, **options: Any) -> Any:
        sizes.append(len(rows.words))
        if sizes[-1] > words:
            raise OutOfMemory("there is too little memory on cuda:0")
        return run(table, rows, state, **options)

    monkeypatch.setattr(engine, "run", limited)
    return sizes


def test_pack_without_memory_runs_in_halves_and_the_next_is_smaller(
    tiny: Embedder, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = [["a", "b", "c", "d"], ["e", "f"]] * 6
    sizes = failing_above(10, embedder.engine, monkeypatch)
    with pytest.warns(InputWarning, match="a batch of 5 sentences did not fit into memory; trying it in halves"):
        found = embedder.encode(sentences, batch_tokens=25)
    for one, other in zip(found, tiny.encode(sentences), strict=True):
        assert_close(one, other)
    assert sizes[0] == 16
    assert max(sizes[3:]) <= 10


def test_sentence_without_memory_is_an_error(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_above(2, embedder.engine, monkeypatch)
    with pytest.raises(OutOfMemory, match="one sentence of 3 words does not fit into memory; split the sentence"):
        embedder.encode([["a", "b", "c"]])
