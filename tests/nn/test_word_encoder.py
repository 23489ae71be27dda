"""A word becomes a vector, whatever its neighbours are."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmore.config import Activation, CharacterConfig, ModelConfig
from elmore.nn.word_encoder import Highway
from elmore.text.vocabulary import Vocabulary
from elmore.text.word_ids import WordIndexer
from fresh_network import fresh_network
from reference.strategies import models, patiently, words
from reference.twin import Model, Twin

BOTH = ModelConfig(
    characters=CharacterConfig(embedding_dim=3, filters=((1, 2), (3, 4)), num_highways=2, max_characters=9),
    vocab_size=4,
    word_embedding_dim=5,
    vector_dim=6,
    cell_dim=7,
)
WORD_INDEXER = WordIndexer(BOTH, vocabulary=Vocabulary(["<S>", "</S>", "<UNK>", "cat"]))


@patiently
@given(models, st.lists(words, min_size=1, max_size=6))
def test_words_have_the_vectors_of_the_reference(model: Model, some: list[str]) -> None:
    twin = Twin.of(model)
    vectors = twin.bilm.words(twin.word_indexer.index(some))
    np.testing.assert_allclose(vectors, [model.token_vector(word) for word in some], rtol=0, atol=1e-12)


@patiently
@given(models, st.lists(words, min_size=1, max_size=6))
def test_a_word_has_the_same_vector_beside_any_others(model: Model, some: list[str]) -> None:
    twin = Twin.of(model, dtype=torch.float32)
    together = twin.bilm.words(twin.word_indexer.index(some))
    alone = torch.cat([twin.bilm.words(twin.word_indexer.index([word])) for word in some])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-6)


def test_an_open_gate_lets_the_transformed_value_through_and_a_shut_one_the_value_itself() -> None:
    highway = Highway(4).requires_grad_(False)
    x = torch.randn(3, 4)
    highway.gate.weight.zero_()
    highway.gate.bias.fill_(100.0)
    assert torch.equal(highway(x), torch.relu(highway.transform(x)))
    highway.gate.bias.fill_(-200.0)
    assert torch.equal(highway(x), x)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_gradients_reach_every_part(activation: Activation) -> None:
    characters = CharacterConfig(
        embedding_dim=3, filters=((1, 2), (3, 4)), activation=activation, num_highways=2, max_characters=9
    )
    encoder = fresh_network(replace(BOTH, characters=characters)).words
    encoder(WORD_INDEXER.index(["cat", "dog", "Déjà", "<S>"])).square().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_only_the_rows_of_words_that_were_read_get_a_gradient() -> None:
    encoder = fresh_network(BOTH).words
    encoder(WORD_INDEXER.index(["cat", "dog"])).sum().backward()
    assert encoder.table is not None
    assert encoder.table.grad is not None
    assert encoder.table.grad.any(dim=1).tolist() == [False, False, True, True]


def test_no_words_have_no_vectors() -> None:
    assert fresh_network(BOTH).words(WORD_INDEXER.index([])).shape == (0, 6)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_a_copy_gives_the_same_vectors(copied: object) -> None:
    encoder = fresh_network(BOTH).words
    inputs = WORD_INDEXER.index(["cat", "dog"])
    assert callable(copied)
    assert torch.equal(copied(encoder)(inputs), encoder(inputs))
