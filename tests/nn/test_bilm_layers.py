"""The layers of `BiLM.run`: in the caller's order, with boundaries, zero beyond the end of a sentence."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from elmore.config import CharacterConfig, ModelConfig
from elmore.nn.bilm import StateTensors, padding_mask
from elmore.nn.pretrained import WordBatch
from elmore.text.word_ids import WordIndexer
from fresh_network import fresh_network
from reference.strategies import batches, models, patiently
from reference.twin import Model, Twin

CONFIG = ModelConfig(
    characters=CharacterConfig(embedding_dim=3, filters=((1, 4), (2, 5)), num_highways=1), vector_dim=3, cell_dim=5
)


def run(model: Model, sentences: list[list[str]]) -> Tensor:
    twin = Twin.of(model)
    batch = twin.batch(sentences)
    return twin.bilm.forward(batch.ids, batch.rows, twin.zeros(len(sentences)))[0]


@patiently
@given(models, batches)
def test_layers_are_zero_beyond_the_end_of_a_sentence(model: Model, sentences: list[list[str]]) -> None:
    layers = run(model, sentences)
    mask = padding_mask(np.array([len(tokens) for tokens in sentences]), boundaries=True)
    assert layers.shape[1:3] == mask.shape
    assert not layers[:, ~mask].any()


@patiently
@given(models, batches)
def test_layer_zero_is_the_word_vector_once_for_each_direction(model: Model, sentences: list[list[str]]) -> None:
    layer = run(model, sentences)[0]
    for row, tokens in enumerate(sentences):
        for position, token in enumerate(tokens):
            vector = torch.from_numpy(model.token_vector(token))
            expected = vector.repeat(layer.shape[-1] // len(vector))
            torch.testing.assert_close(layer[row, 1 + position], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("directions", ["both", "forward", "backward"])
def test_layers_of_no_sentences_are_empty(directions) -> None:
    config = replace(CONFIG, directions=directions)
    batch = WordBatch.of([], WordIndexer(config))
    layers, after = fresh_network(config)(batch.ids, batch.rows, StateTensors.zeros(config, 0))
    assert layers.shape == (3, 0, 2, config.dim)
    assert after.rows == 0


def test_layers_of_empty_sentences_are_boundaries() -> None:
    batch = WordBatch.of([[], []], WordIndexer(CONFIG))
    layers, _ = fresh_network(CONFIG)(batch.ids, batch.rows, StateTensors.zeros(CONFIG, 2))
    assert layers.shape == (3, 2, 2, 6)
    assert layers.abs().amin(dim=(2, 3)).all()


def test_padding_mask_has_two_more_positions_with_boundaries() -> None:
    lengths = np.array([2, 0])
    assert padding_mask(lengths).tolist() == [[True, True], [False, False]]
    assert padding_mask(lengths, boundaries=True).tolist() == [[True] * 4, [True, True, False, False]]
    assert padding_mask(lengths[:0], boundaries=True).shape == (0, 2)
