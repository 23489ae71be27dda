"""Layers are given out in the caller's order, zero beyond the end of a sentence, one at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

from elmore.config import CharacterConfig, ModelConfig
from elmore.errors import InputError
from elmore.nn.bilm import LayerTensors, StateTensors, padding_mask
from elmore.nn.pretrained import WordBatch
from elmore.text.word_ids import WordIndexer
from fresh_network import fresh_network
from reference.strategies import batches, models, patiently
from reference.twin import Model, Twin

CONFIG = ModelConfig(
    characters=CharacterConfig(embedding_dim=3, filters=((1, 4), (2, 5)), num_highways=1), vector_dim=3, cell_dim=5
)
SENTENCES = [["Cats", "purr"], [], ["Dogs", "do", "not", "purr", "."]]


@pytest.fixture(scope="module")
def layers() -> LayerTensors:
    torch.manual_seed(1)
    batch = WordBatch.of(SENTENCES, WordIndexer(CONFIG))
    with torch.no_grad():
        return fresh_network(CONFIG).forward(batch.ids, batch.rows, StateTensors.zeros(CONFIG, len(SENTENCES)))[0]


def test_lengths_are_the_callers(layers: LayerTensors) -> None:
    assert (len(layers), layers.lengths) == (3, [2, 0, 5])


def test_the_mask_is_true_where_there_is_a_word(layers: LayerTensors) -> None:
    assert layers.mask().sum(dim=1).tolist() == [2, 0, 5]
    assert layers.mask().tolist()[0] == [True, True, False, False, False]
    assert layers.mask().dtype == torch.bool


def test_the_mask_counts_boundaries_where_they_are_kept(layers: LayerTensors) -> None:
    assert layers.mask(boundaries=True).sum(dim=1).tolist() == [4, 2, 7]
    assert layers.mask(boundaries=True).shape == (3, 7)


@patiently
@given(models, batches)
def test_everything_beyond_the_end_of_a_sentence_is_exactly_zero(model: Model, sentences: list[list[str]]) -> None:
    layers = read(model, sentences)
    for boundaries in (True, False):
        stack, mask = layers.stack(boundaries=boundaries), layers.mask(boundaries=boundaries)
        assert stack.shape[1:3] == mask.shape
        assert not stack[:, ~mask].any()
        assert mask.sum(dim=1).tolist() == [len(tokens) + 2 * boundaries for tokens in sentences]


@patiently
@given(models, batches)
def test_dropping_boundaries_keeps_the_words_between_them(model: Model, sentences: list[list[str]]) -> None:
    layers = read(model, sentences)
    kept, dropped = layers.stack(boundaries=True), layers.stack()
    for row, tokens in enumerate(sentences):
        assert torch.equal(dropped[:, row, : len(tokens)], kept[:, row, 1 : 1 + len(tokens)])


@patiently
@given(models, batches)
def test_layer_zero_is_the_word_vector_once_for_each_direction(model: Model, sentences: list[list[str]]) -> None:
    layers = read(model, sentences)
    own = layers.layer(0)
    for row, tokens in enumerate(sentences):
        for position, token in enumerate(tokens):
            vector = torch.from_numpy(model.token_vector(token))
            expected = vector.repeat(own.shape[-1] // len(vector))
            torch.testing.assert_close(own[row, position], expected, rtol=0, atol=1e-12)


def test_a_stack_holds_the_layers_that_were_asked_for_in_that_order(layers: LayerTensors) -> None:
    assert torch.equal(layers.stack([2, 0]), torch.stack([layers.layer(2), layers.layer(0)]))
    assert torch.equal(layers.stack(), layers.stack([0, 1, 2]))


@pytest.mark.parametrize("number", [-1, 3])
def test_a_layer_that_is_not_there_is_refused_with_those_that_are(layers: LayerTensors, number: int) -> None:
    with pytest.raises(InputError, match=f"no layer {number}; there are layers 0 to 2"):
        layers.layer(number)


def test_layer_zero_is_there_without_any_lstm() -> None:
    rows = WordBatch.of([["a", "b"]], WordIndexer(CONFIG)).rows
    vectors = torch.randn(4, 3)
    layers = LayerTensors(rows, vectors, [], directions=("forward", "backward"))
    assert len(layers) == 1
    assert torch.equal(layers.layer(0)[0], vectors[2:].repeat(1, 2))


def test_no_sentences_have_no_vectors() -> None:
    for config in (CONFIG, replace(CONFIG, directions="forward"), replace(CONFIG, directions="backward")):
        batch = WordBatch.of([], WordIndexer(config))
        layers, after = fresh_network(config)(batch.ids, batch.rows, StateTensors.zeros(config, 0))
        assert layers.stack().shape == (3, 0, 0, config.dim)
        assert layers.stack(boundaries=True).shape == (3, 0, 2, config.dim)
        assert (layers.lengths, layers.mask().shape, after.rows) == ([], (0, 0), 0)


def test_only_empty_sentences_have_no_words_but_boundaries() -> None:
    batch = WordBatch.of([[], []], WordIndexer(CONFIG))
    layers, _ = fresh_network(CONFIG)(batch.ids, batch.rows, StateTensors.zeros(CONFIG, 2))
    assert layers.stack().shape == (3, 2, 0, 6)
    assert layers.stack(boundaries=True).abs().amin(dim=(2, 3)).all()


def test_padding_mask_has_two_more_positions_with_boundaries() -> None:
    lengths = np.array([2, 0])
    assert padding_mask(lengths).tolist() == [[True, True], [False, False]]
    assert padding_mask(lengths, boundaries=True).tolist() == [[True] * 4, [True, True, False, False]]
    assert padding_mask(lengths[:0], boundaries=True).shape == (0, 2)


def read(model: Model, sentences: list[list[str]]) -> LayerTensors:
    twin = Twin.of(model)
    batch = twin.batch(sentences)
    return twin.bilm.forward(batch.ids, batch.rows, twin.zeros(len(sentences)))[0]


def test_layers_show_themselves_on_a_line(layers: LayerTensors) -> None:
    assert repr(layers) == "LayerTensors(3 layers of 3 sentences, 7 words, dim=6)"
    assert "<tr><th>words</th><td>7</td></tr><tr><th>dim</th><td>6</td></tr>" in layers._repr_html_()
