"""What holds of weights that a network lets go of while a kernel has them in its own form."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from elmore import Elmo, Embedder
from elmore.kernels.native_library import Number, native_library, native_obstacle
from elmore.kernels.native_packing import pack, pack_gates, unpack, unpack_gates
from elmore.kernels.native_word_encoding import native_word_encoding
from elmore.kernels.word_encoding import CharacterWeights, WordEncoderWeights
from elmore.model import load
from elmore.network.bilm import BiLM, LstmLayer

pytestmark = pytest.mark.skipif(native_obstacle(Number.FLOAT32) is not None, reason="needs the native kernels")

SENTENCE = [["I", "took", "a", "bow"]]
MATRICES = ["lstm.0.input", "lstm.1.projection", "words.highways.0.transform.weight", "words.projection.weight"]


@pytest.fixture
def embedder() -> Embedder:
    """One that has read something."""
    embedder = Embedder.from_pretrained("tiny-random")
    embedder.encode(SENTENCE)
    return embedder


def first_layer(network: BiLM) -> LstmLayer:
    layer = network.lstm[0]
    assert isinstance(layer, LstmLayer)
    return layer


def is_released(network: BiLM) -> bool:
    released = {bool(network.get_parameter(name).isnan().all()) for name in MATRICES}
    assert len(released) == 1  # all of them, or none
    return released.pop()


@pytest.mark.parametrize(("rows", "cells"), [(16, 64), (3, 5), (17, 33)])
def test_packed_matrices_come_back_to_the_bit(rows: int, cells: int) -> None:
    library = native_library()
    assert not isinstance(library, str)
    lanes = library.lanes(Number.FLOAT32)
    gates, plain = torch.randn(2, rows, 4 * cells), torch.randn(2, cells, rows)
    assert torch.equal(unpack_gates(pack_gates(gates, Number.FLOAT32, lanes), cells), gates)
    assert torch.equal(unpack(pack(plain, Number.FLOAT32, lanes), cells, rows), plain)


@pytest.mark.parametrize("features", [(16, 8), (3, 5), (37, 130)])
def test_packed_word_encoders_come_back_to_the_bit(features: tuple[int, int]) -> None:
    inner, outer = features
    matrices = [torch.randn(inner, inner) for _ in range(4)] + [torch.randn(outer, inner)]
    linears = [(matrix, torch.randn(len(matrix))) for matrix in matrices]
    highways = [(linears[0], linears[1]), (linears[2], linears[3])]
    table, filters = torch.randn(7, 4), [(torch.randn(inner, 4, 2), torch.randn(inner))]
    characters = CharacterWeights(table, filters, tanh=False, highways=highways)
    encoding = native_word_encoding(Number.FLOAT32)
    assert encoding.restore is not None
    restored = encoding.restore(encoding.prepare(WordEncoderWeights(None, characters, linears[4])))
    assert [torch.equal(one, other) for one, other in zip(restored, matrices, strict=True)] == [True] * 5


def test_an_embedder_that_loaded_its_model_has_weights_in_one_form(embedder: Embedder) -> None:
    assert is_released(embedder._model.network)


def test_words_that_were_encoded_while_weights_were_let_go_are_remembered(embedder: Embedder, monkeypatch) -> None:
    monkeypatch.setattr(embedder._cache, "_encoded", lambda words: pytest.fail(f"{words} were encoded again"))
    embedder.encode(SENTENCE)


def test_weights_that_came_back_are_let_go_again(embedder: Embedder) -> None:
    embedder.fingerprint()
    assert not is_released(embedder._model.network)
    embedder.encode([["other", "words"]])
    assert is_released(embedder._model.network)


def test_a_model_that_was_given_keeps_its_weights() -> None:
    model = load("tiny-random")
    Embedder(model).encode(SENTENCE)
    assert not is_released(model.network)


def test_whoever_asks_for_the_model_has_all_of_it_for_good(embedder: Embedder) -> None:
    expected, model = load("tiny-random"), embedder.model
    embedder.encode(SENTENCE)
    for (name, own), one in zip(model.network.named_parameters(), expected.network.parameters(), strict=True):
        assert torch.equal(own, one), name


def test_the_fingerprint_is_the_same_before_and_after_reading(embedder: Embedder) -> None:
    expected = load("tiny-random").fingerprint()
    assert embedder.fingerprint() == expected
    embedder.encode(SENTENCE)
    assert embedder.fingerprint() == expected


def test_what_is_saved_after_reading_is_the_model(embedder: Embedder, tmp_path) -> None:
    embedder.save_pretrained(tmp_path / "saved")
    assert load(tmp_path / "saved").fingerprint() == load("tiny-random").fingerprint()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_has_weights_and_gives_the_same_bits(embedder: Embedder, copied) -> None:
    (expected,) = embedder.encode(SENTENCE)
    other = copied(embedder)
    (vectors,) = other.encode(SENTENCE)
    assert (vectors == expected).all()
    assert other.fingerprint() == load("tiny-random").fingerprint()


def test_other_kernels_and_another_kind_of_number_find_weights(embedder: Embedder) -> None:
    network = embedder._model.network
    network.use_kernels("reference")
    (vectors,) = embedder.encode(SENTENCE)
    assert torch.tensor(vectors).isfinite().all()
    assert first_layer(network.double()).input.isfinite().all()


def test_a_model_can_be_trained_after_it_has_read(embedder: Embedder) -> None:
    elmo = Elmo(embedder.model, requires_grad=True)
    optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1)
    before = first_layer(elmo.network).input.clone()
    elmo(SENTENCE).mixed[0].sum().backward()
    optimizer.step()
    after = first_layer(elmo.network).input
    assert after.isfinite().all()
    assert not torch.equal(before, after)


def test_threads_that_begin_together_give_the_same_bits() -> None:
    (expected,) = Embedder.from_pretrained("tiny-random").encode(SENTENCE)
    for _ in range(20):
        embedder = Embedder.from_pretrained("tiny-random")
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(embedder.encode, [SENTENCE] * 4))
        assert all((vectors == expected).all() for (vectors,) in found)
