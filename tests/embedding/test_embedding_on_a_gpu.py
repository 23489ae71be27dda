"""What an Embedder gives on a GPU: the reference's numbers, and the same bits where that is promised."""

import gc
import random
from typing import cast

import numpy as np
import pytest
import torch
from torch import Tensor

from elmore import Elmo, Embedder
from elmore.config import SMALL, ModelConfig
from elmore.defaults import ComputeName
from elmore.embedding.word_table import WordTable
from elmore.formats import Card
from elmore.model import Model
from elmore.network.bilm import BiLM, LstmLayer
from elmore.network.initialization import initialize
from elmore.network.state import State
from elmore.text.spelling import Speller

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="an NVIDIA GPU is needed"),
]

WORDS = [f"Word{number}" + "x" * (number % 23) for number in range(3000)]
# The largest difference, and the largest of all vectors together, relative to their size.
CLOSE: dict[ComputeName, tuple[float, float]] = {
    "float32": (1e-4, 1e-5),
    "tf32": (2e-2, 2e-3),
    "bfloat16": (2e-1, 2e-2),
}


def random_model(config: ModelConfig = SMALL) -> Model:
    network = BiLM(config)
    initialize(network, torch.Generator().manual_seed(1))
    network.eval().requires_grad_(requires_grad=False)
    return Model(network, Speller(config), State.zeros(config), Card(name="random"))


def some_sentences(seed: int, number: int) -> list[list[str]]:
    draw = random.Random(seed)
    return [draw.choices(WORDS, k=draw.choice([0, 1, 2, 5, 17, 18, 33, 70])) for _ in range(number)]


@pytest.fixture(scope="module")
def model() -> Model:
    return random_model()


@pytest.fixture(scope="module")
def reference() -> Embedder:
    """In float32 on the CPU, by the plainest kernels: of a model of its own, for what is moved from it has them too."""
    embedder = Embedder(random_model())
    embedder.model.network.use_kernels("reference")
    return embedder


@pytest.mark.parametrize("compute", CLOSE)
@pytest.mark.parametrize("layers", ["average", "all"])
def test_vectors_are_those_of_the_reference(
    model: Model, reference: Embedder, compute: ComputeName, layers: str
) -> None:
    embedder = Embedder(model.to("cuda"), compute=compute)
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


def test_arrays_that_were_copied_meanwhile_are_those_that_stay_on_the_gpu(model: Model) -> None:
    embedder = Embedder(model.to("cuda"), compute="bfloat16")
    sentences = some_sentences(2, 4000)
    kept = embedder.encode_tensors(sentences, dtype="float16", batch_tokens=5000)
    assert all(tensor.is_cuda for tensor in kept)
    arrays = embedder.encode_iter(sentences, dtype="float16", batch_tokens=5000)
    for array, tensor in zip(arrays, kept, strict=True):
        assert np.array_equal(array, tensor.cpu().numpy())


def test_a_table_of_words_that_grew_is_the_one_that_is_read(model: Model, reference: Embedder) -> None:
    moved = model.to("cuda")
    table = WordTable(moved, largest=20_000)
    words = [f"{number} words" for number in range(50_000)]
    with torch.no_grad():
        for start in (0, 5_000, 40_000):
            some = words[start : start + 10_000]
            numbered = table.read(some, len(some))
            vectors = numbered.table[torch.from_numpy(numbered.numbers).cuda()].cpu()
            expected = reference.model.network.words(model.speller.spell(some[:100]))
            torch.testing.assert_close(vectors[:100], expected, rtol=1e-4, atol=1e-5)


def test_a_frozen_elmo_and_a_carried_state_are_read_by_graphs_too(model: Model, reference: Embedder) -> None:
    sentences = some_sentences(3, 20)
    elmo, expected = Elmo(model.to("cuda"), dropout=0.0).to("cuda"), Elmo(model, dropout=0.0)
    for _ in range(3):
        torch.testing.assert_close(elmo(sentences).mixed[0].cpu(), expected(sentences).mixed[0], rtol=1e-3, atol=1e-4)
    embedder = Embedder(model.to("cuda"))
    wanted = reference.encode(sentences, state="carry", batch_size=3)
    for one, other in zip(embedder.encode(sentences, state="carry", batch_size=3), wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("compute", CLOSE)
def test_a_model_that_is_gone_takes_its_memory_along_and_the_next_one_reads(
    reference: Embedder, compute: ComputeName
) -> None:
    sentences = some_sentences(6, 500)
    expected = np.concatenate(reference.encode(sentences))
    before, most = None, 2**20
    for _ in range(3):
        embedder = Embedder(random_model().to("cuda"), compute=compute)
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


def test_two_models_in_turns_keep_their_graphs() -> None:
    embedders = [Embedder(random_model().to("cuda"), compute="bfloat16") for _ in range(2)]
    sentences = some_sentences(7, 500)

    def graphs(embedder: Embedder) -> dict[object, object]:
        network, start = embedder.model.network, embedder.model.start
        with torch.no_grad():
            recurrence = network.kernels(start.h, start).recurrence
            prepared = cast("LstmLayer", network.lstm[0]).prepared(recurrence, torch.bfloat16)
        return {window: captured.graph for window, captured in prepared.graphs.items()}

    for _ in range(3):
        for embedder in embedders:
            embedder.encode(sentences)
    captured = [graphs(embedder) for embedder in embedders]
    assert all(graph is not None for some in captured for graph in some.values())
    for embedder in embedders:
        embedder.encode(sentences)
    assert [graphs(embedder) for embedder in embedders] == captured


def test_tf32_is_left_as_it_was(model: Model) -> None:
    Embedder(model.to("cuda"), compute="tf32").encode([["Bow"]])
    assert not torch.backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("compute", CLOSE)
def test_a_sentence_has_the_same_bits_alone_in_any_batch_and_in_any_order(model: Model, compute: ComputeName) -> None:
    embedder = Embedder(model.to("cuda"), compute=compute, batch_invariant=True)
    sentences = some_sentences(4, 1500)
    together = [tensor.cpu() for tensor in embedder.encode_tensors(sentences, layers="all")]

    def same(numbers: list[int], **options: int) -> None:
        fresh = Embedder(model.to("cuda"), compute=compute, batch_invariant=True)
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
