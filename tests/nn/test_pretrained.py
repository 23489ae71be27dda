"""The biLM of other modules: engine without gradients, torch with gradients, and never weights of the past."""

import copy
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

from elmore import Model, load
from elmore.embedding.embedder import Embedder
from elmore.engine.numpy_engine import NumpyEngine
from elmore.engine.state import State
from elmore.nn.pretrained import PretrainedBiLM, WordBatch
from reference.strategies import batches, patiently

SENTENCES = [["I", "took", "a", "bow"], [], ["Me", "too"], ["a", "bow", "and", "a", "bow"]]


@pytest.fixture(scope="module")
def model() -> Model:
    """With a start state that is not zero."""
    tiny = load("tiny-random")
    random = np.random.default_rng(1)
    start = State.zeros(tiny.config)
    h, c = (random.normal(0, 0.5, part.shape).astype(np.float32) for part in (start.h, start.c))
    return tiny.with_start(State(h, c), "chance")


@pytest.fixture
def network(model: Model) -> PretrainedBiLM:
    return PretrainedBiLM.from_model(model)


@pytest.fixture
def batch(model: Model) -> WordBatch:
    return WordBatch.of(SENTENCES, model.word_indexer)


def in_torch(network: PretrainedBiLM, batch: WordBatch) -> Tensor:
    """The layers with the present weights, by autograd."""
    twin = PretrainedBiLM(network.config)
    twin.load_state_dict(network.state_dict())
    twin.start = network.start
    twin.use_kernels("reference")
    return twin.layers(batch).detach()


@pytest.mark.parametrize("boundaries", [False, True])
def test_layers_of_engine_equal_those_of_torch(network: PretrainedBiLM, batch: WordBatch, boundaries: bool) -> None:
    by_engine = network.layers(batch, boundaries=boundaries)
    assert network._engine is not None
    network.requires_grad_()
    in_training = network.layers(batch, boundaries=boundaries)
    assert in_training.requires_grad
    assert by_engine.shape == (3, 4, 7 if boundaries else 5, 32)
    torch.testing.assert_close(by_engine, in_training.detach(), rtol=1e-5, atol=1e-5)
    for row, words in enumerate(SENTENCES):
        assert not by_engine[:, row, len(words) + 2 * boundaries :].any()


def test_layers_of_engine_equal_those_of_embedder(model: Model, network: PretrainedBiLM, batch: WordBatch) -> None:
    expected = Embedder(model, device="cpu").encode(SENTENCES, layers="all")
    for row, layers in enumerate(expected):
        np.testing.assert_allclose(network.layers(batch)[:, row, : layers.shape[1]], layers, rtol=1e-5, atol=1e-5)


def test_layers_of_no_sentences_are_empty(model: Model, network: PretrainedBiLM) -> None:
    empty = WordBatch.of([], model.word_indexer)
    assert network.layers(empty).shape == (3, 0, 0, 32)
    assert network.layers(empty, boundaries=True).shape == (3, 0, 2, 32)


def set_weights(network: PretrainedBiLM) -> None:
    network.load_state_dict({name: tensor / 2 for name, tensor in network.state_dict().items()})


def set_weights_of_parent(network: PretrainedBiLM) -> None:
    parent = nn.Sequential(network)
    parent.load_state_dict({name: tensor / 2 for name, tensor in parent.state_dict().items()})


def take_step(network: PretrainedBiLM, batch: WordBatch) -> None:
    optimizer = torch.optim.SGD(network.requires_grad_().parameters(), lr=0.5)
    network.layers(batch).square().mean().backward()
    optimizer.step()


def change_data(network: PretrainedBiLM) -> None:
    for parameter in network.parameters():
        parameter.data /= 2
    network.forget()


@pytest.mark.parametrize("change", [set_weights, set_weights_of_parent, take_step, change_data])
def test_layers_after_change_of_weights_are_new(
    network: PretrainedBiLM, batch: WordBatch, change: Callable[..., None]
) -> None:
    before = network.eval().layers(batch)
    change(*((network, batch) if change is take_step else (network,)))
    with torch.no_grad():
        after = network.eval().layers(batch)
    assert network._engine is not None
    assert not torch.allclose(before, after, atol=1e-3)
    torch.testing.assert_close(after, in_torch(network, batch), rtol=1e-5, atol=1e-5)


def test_evaluation_between_training_steps_sees_each_step(network: PretrainedBiLM, batch: WordBatch) -> None:
    optimizer = torch.optim.SGD(network.requires_grad_().parameters(), lr=0.5)
    for _ in range(3):
        network.train().layers(batch).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            torch.testing.assert_close(network.eval().layers(batch), in_torch(network, batch), rtol=1e-5, atol=1e-5)
        assert network._engine is not None


def test_pass_without_gradients_in_training_mode_opens_no_engine(network: PretrainedBiLM, batch: WordBatch) -> None:
    network.requires_grad_().train()
    with torch.no_grad():
        network.layers(batch)
    assert network._engine is None


def test_frozen_network_has_one_engine_in_both_modes(network: PretrainedBiLM, batch: WordBatch) -> None:
    network.train().layers(batch)
    engine = network._engine
    network.eval().layers(batch)
    assert network.train()._engine is engine


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_number_types_run_in_torch(network: PretrainedBiLM, batch: WordBatch, dtype: torch.dtype) -> None:
    expected = network.layers(batch)
    found = network.to(dtype).layers(batch)
    assert network._engine is None
    assert found.dtype == dtype
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=1e-5 if dtype == torch.float64 else 0.1)


def test_autocast_runs_in_torch(network: PretrainedBiLM, batch: WordBatch) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        network.layers(batch)
    assert network._engine is None


def test_replica_of_data_parallel_runs_in_torch(network: PretrainedBiLM, batch: WordBatch) -> None:
    network._is_replica = True  # as torch marks it
    network.layers(batch)
    assert network._engine is None


def test_named_kernels_run_in_torch(network: PretrainedBiLM, batch: WordBatch) -> None:
    network.use_kernels("cpu")
    network.layers(batch)
    assert network._engine is None


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda network: pickle.loads(pickle.dumps(network))])
def test_copy_opens_its_own_engine(network: PretrainedBiLM, batch: WordBatch, copied: Any) -> None:
    expected = network.layers(batch)
    twin = copied(network)
    assert twin._engine is None
    assert torch.equal(twin.layers(batch), expected)
    set_weights(twin)
    assert torch.equal(network.layers(batch), expected)


def test_threads_that_start_together_get_the_same_bits(network: PretrainedBiLM, batch: WordBatch) -> None:
    expected = network.layers(batch)
    for _ in range(10):
        network.forget()
        with ThreadPoolExecutor(4) as threads:
            assert all(torch.equal(one, expected) for one in threads.map(network.layers, [batch] * 4))


def test_layers_may_be_part_of_a_training(network: PretrainedBiLM, batch: WordBatch) -> None:
    with torch.inference_mode():
        network.layers(batch)
    weight = torch.ones(32, requires_grad=True)
    (network.layers(batch) @ weight).sum().backward()
    assert weight.grad is not None
    assert weight.grad.any()


def test_training_leaves_the_model_unchanged(model: Model, network: PretrainedBiLM, batch: WordBatch) -> None:
    before = {name: array.copy() for name, array in model.checkpoint.float_arrays().items()}
    take_step(network, batch)
    for name, array in model.checkpoint.float_arrays().items():
        assert np.array_equal(array, before[name]), name


def test_with_weights_returns_copy_of_present_weights(model: Model, network: PretrainedBiLM, batch: WordBatch) -> None:
    assert network.with_weights(model.without_weights()).fingerprint() == model.fingerprint()
    take_step(network, batch)
    trained = network.with_weights(model.without_weights())
    assert trained.fingerprint() != model.fingerprint()
    expected = in_torch(network, batch)
    set_weights(network)
    torch.testing.assert_close(PretrainedBiLM.from_model(trained).layers(batch), expected, rtol=1e-5, atol=1e-5)


def test_layers_run_through_numpy_engine_without_native_library(
    network: PretrainedBiLM, batch: WordBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = network.layers(batch)
    # `elmore.engine.open_engine` is the function.
    monkeypatch.setattr(sys.modules["elmore.engine.open_engine"], "why_unavailable", lambda precision: "not built")
    network.forget()
    torch.testing.assert_close(network.layers(batch), expected, rtol=1e-5, atol=1e-5)
    assert isinstance(network._engine, NumpyEngine)


@patiently
@given(batches)
def test_word_batch_contains_each_distinct_word_once(tiny_model: Model, texts: list[list[str]]) -> None:
    batch = WordBatch.of(texts, tiny_model.word_indexer)
    words = ["<S>", "</S>", *dict.fromkeys(word for text in texts for word in text if word not in ("<S>", "</S>"))]
    expected = tiny_model.word_indexer.index(words)
    assert batch.ids.word_ids is expected.word_ids is None
    assert np.array_equal(batch.ids.character_ids, expected.character_ids)
    assert [words[number] for number in batch.rows.words] == [word for text in texts for word in text]
    assert batch.rows.lengths.tolist() == list(map(len, texts))
    assert batch.rows.carried


def test_word_batch_survives_pickling(model: Model, network: PretrainedBiLM, batch: WordBatch) -> None:
    assert torch.equal(network.layers(pickle.loads(pickle.dumps(batch))), network.layers(batch))


def test_state_dict_has_the_names_of_the_checkpoint(model: Model, network: PretrainedBiLM) -> None:
    assert network.state_dict().keys() == model.checkpoint.tensors.keys()
    alone = replace(model.checkpoint, tensors=dict(model.checkpoint.tensors))
    assert PretrainedBiLM.from_checkpoint(alone).state_dict().keys() == network.state_dict().keys()
