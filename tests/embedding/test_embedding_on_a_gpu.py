"""The Embedder on a GPU: the numbers of the numpy engine, and identical bits with `batch_invariant`.

Run with: python -m pytest -m gpu tests/embedding
"""

import gc
import random

import numpy as np
import pytest
import torch
from torch import Tensor

from elmore import Elmo, Embedder
from elmore.config import SMALL
from elmore.defaults import ComputeName
from elmore.engine import open_engine
from elmore.engine.word_store import WORD_BYTES, WordStore
from elmore.formats import Checkpoint, ModelCard
from elmore.model import Model
from elmore.nn.devices import to_arrays
from fresh_network import fresh_network

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="an NVIDIA GPU is needed"),
]

WORDS = [f"Word{number}" + "x" * (number % 23) for number in range(3000)]
# The largest difference of one number, and of all vectors together relative to their size.
CLOSE: dict[ComputeName, tuple[float, float]] = {
    "float32": (1e-4, 1e-5),
    "tf32": (2e-2, 2e-3),
    "bfloat16": (2e-1, 2e-2),
}


def random_model() -> Model:
    return Model(
        Checkpoint(config=SMALL, tensors=to_arrays(fresh_network(SMALL).state_dict()), card=ModelCard(name="random"))
    )


def some_sentences(seed: int, number: int) -> list[list[str]]:
    draw = random.Random(seed)
    return [draw.choices(WORDS, k=draw.choice([0, 1, 2, 5, 17, 18, 33, 70])) for _ in range(number)]


@pytest.fixture(scope="module")
def model() -> Model:
    return random_model()


@pytest.fixture(scope="module")
def reference(model: Model) -> Embedder:
    """The numpy engine, which is the specification."""
    embedder = Embedder(model, device="cpu")
    engine = open_engine(model.checkpoint, device="cpu", engine="numpy")
    embedder._running = embedder._running._replace(engine=engine, store=WordStore(engine, model.word_indexer))
    return embedder


@pytest.mark.parametrize("compute", CLOSE)
@pytest.mark.parametrize("layers", ["average", "all"])
def test_gpu_encode_equals_numpy_engine(model: Model, reference: Embedder, compute: ComputeName, layers: str) -> None:
    embedder = Embedder(model, device="cuda", compute=compute)
    sentences = some_sentences(1, 60)
    expected = reference.encode(sentences, layers=layers)
    largest, relative = CLOSE[compute]
    # The first time as it is, then captured, then replayed; one sentence, a few, and all.
    for part in (sentences[4:5], sentences[:7], sentences, sentences, sentences, sentences[4:5]):
        found = embedder.encode(part, layers=layers)
        wanted = [expected[sentences.index(words)] for words in part]
        for one, other in zip(found, wanted, strict=True):
            assert one.shape == other.shape
        one, other = (np.concatenate([array.reshape(-1) for array in some]) for some in (found, wanted))
        assert np.abs(one - other).max() <= largest
        assert np.linalg.norm(one - other) <= relative * np.linalg.norm(other)


def test_gpu_encode_iter_equals_encode_tensors(model: Model) -> None:
    embedder = Embedder(model, device="cuda", compute="bfloat16")
    sentences = some_sentences(2, 4000)
    kept = embedder.encode_tensors(sentences, dtype="float16", batch_tokens=5000)
    assert all(tensor.is_cuda for tensor in kept)
    arrays = embedder.encode_iter(sentences, dtype="float16", batch_tokens=5000)
    for array, tensor in zip(arrays, kept, strict=True):
        assert np.array_equal(array, tensor.cpu().numpy())


def test_gpu_word_store_equals_numpy_engine_after_growth(model: Model, reference: Embedder) -> None:
    engine = open_engine(model.checkpoint, device="cuda")
    store = WordStore(engine, model.word_indexer, max_bytes=20_000 * (4 * SMALL.vector_dim + WORD_BYTES))
    words = [f"{number} words" for number in range(50_000)]
    for start in (0, 5_000, 40_000):
        some = words[start : start + 10_000]
        numbered = store.number(some)
        vectors = numbered.table[torch.from_numpy(numbered.numbers).cuda()][:100].cpu().numpy()
        expected = reference.engine.encode_words(model.word_indexer.index(some[:100]))
        np.testing.assert_allclose(vectors, expected, rtol=1e-4, atol=1e-5)


def test_gpu_elmo_and_carried_state_equal_cpu(model: Model, reference: Embedder) -> None:
    sentences = some_sentences(3, 20)
    elmo, expected = Elmo(model, dropout=0.0).to("cuda"), Elmo(model, dropout=0.0)
    for _ in range(3):
        torch.testing.assert_close(elmo(sentences).mixed[0].cpu(), expected(sentences).mixed[0], rtol=1e-3, atol=1e-4)
    embedder = Embedder(model, device="cuda")
    wanted = reference.encode(sentences, state="carry", batch_size=3)
    for one, other in zip(embedder.encode(sentences, state="carry", batch_size=3), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_gpu_elmo_under_autocast_runs_in_bfloat16(model: Model) -> None:
    elmo, expected = Elmo(model, dropout=0.0).to("cuda"), Elmo(model, dropout=0.0)
    sentences = some_sentences(3, 20)
    with torch.autocast("cuda", torch.bfloat16):
        (mixed,), _ = elmo(sentences)
    assert elmo.network._engine.compute == "bfloat16"
    torch.testing.assert_close(mixed.float().cpu(), expected(sentences).mixed[0], rtol=0, atol=0.2)


@pytest.mark.parametrize("compute", CLOSE)
def test_gpu_memory_is_freed_with_the_embedder(reference: Embedder, compute: ComputeName) -> None:
    sentences = some_sentences(6, 500)
    expected = np.concatenate(reference.encode(sentences))
    before, most = None, 2**20
    for _ in range(3):
        embedder = Embedder(random_model(), device="cuda", compute=compute)
        for _ in range(3):  # as it is, captured, replayed
            found = np.concatenate(embedder.encode(sentences))
        assert np.abs(found - expected).max() <= CLOSE[compute][0]
        del embedder
        gc.collect()
        torch.cuda.synchronize()
        # What libraries set up for good is there after the first.
        after = torch.cuda.memory_allocated()
        assert before is None or after <= before + most
        before = after


def test_gpu_models_used_in_turns_reuse_their_graphs() -> None:
    embedders = [Embedder(random_model(), device="cuda", compute="bfloat16") for _ in range(2)]
    sentences = some_sentences(7, 500)

    def graphs(embedder: Embedder) -> dict[object, object]:
        prepared = embedder.engine._lstm[0]  # type: ignore[attr-defined]
        return {window: captured.graph for window, captured in prepared.graphs.items()}

    for _ in range(3):
        for embedder in embedders:
            embedder.encode(sentences)
    captured = [graphs(embedder) for embedder in embedders]
    assert all(graph is not None for some in captured for graph in some.values())
    for embedder in embedders:
        embedder.encode(sentences)
    assert [graphs(embedder) for embedder in embedders] == captured


def test_gpu_tf32_setting_is_restored(model: Model) -> None:
    Embedder(model, device="cuda", compute="tf32").encode([["Bow"]])
    assert not torch.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("compute", CLOSE)
def test_gpu_batch_invariant_encode_returns_same_bits_in_any_batch(model: Model, compute: ComputeName) -> None:
    embedder = Embedder(model, device="cuda", compute=compute, batch_invariant=True)
    sentences = some_sentences(4, 1500)
    together = [tensor.cpu() for tensor in embedder.encode_tensors(sentences, layers="all")]

    def same(numbers: list[int], **options: int) -> None:
        fresh = Embedder(model, device="cuda", compute=compute, batch_invariant=True)
        found: list[Tensor] = fresh.encode_tensors([sentences[n] for n in numbers], layers="all", **options)  # type: ignore[arg-type]
        for number, tensor in zip(numbers, found, strict=True):
            assert torch.equal(tensor.cpu(), together[number]), f"sentence {number} of {len(sentences[number])} words"

    shuffled = list(range(len(sentences)))
    random.Random(5).shuffle(shuffled)
    same(shuffled)
    same(shuffled[:300], batch_tokens=700)
    same(shuffled[:40], batch_size=3)
    for number in shuffled[:5]:
        same([number])
