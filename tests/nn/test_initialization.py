"""Every parameter of every kind of model gets its first value, and the same one from the same seed."""

from dataclasses import replace

import pytest
import torch

from elmore.config import CharacterConfig, ModelConfig
from elmore.nn.language_model import LanguageModel, initialize
from small_training import ABLATIONS, MODEL


def initialized(config: ModelConfig, *, seed: int = 1, classes: int = 400) -> dict[str, torch.Tensor]:
    model = LanguageModel(config, classes=classes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    initialize(model, torch.Generator().manual_seed(seed))
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("name", ["the whole", *ABLATIONS])
def test_no_parameter_is_forgotten(name):
    for parameter in initialized(ABLATIONS.get(name, MODEL)).values():
        assert torch.isfinite(parameter).all()


def test_the_seed_decides():
    first, again, other = (initialized(MODEL, seed=seed) for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["softmax_weight"], other["softmax_weight"])
    assert not torch.equal(first["network.lstm.0.input"], other["network.lstm.0.input"])


def test_biases_are_zero_but_for_the_highway_gates_which_carry():
    for name, parameter in initialized(MODEL).items():
        if name.endswith("gate.bias"):
            assert (parameter == -2).all()
        elif name.endswith("bias"):
            assert (parameter == 0).all()


def test_character_filters_are_uniform_for_relu_and_normal_for_tanh():
    characters = CharacterConfig(embedding_dim=16, filters=((4, 300),), num_highways=0)
    name = "network.words.convolutions.0.weight"
    relu = initialized(replace(MODEL, characters=characters))[name]
    assert 0.0499 < relu.abs().max() <= 0.05
    tanh = initialized(replace(MODEL, characters=replace(characters, activation="tanh")))[name]
    # The square root of one over sixteen numbers of four letters.
    assert tanh.std().item() == pytest.approx(1 / 8, rel=0.03)
    assert tanh.abs().max() > 3 / 8


def test_tables_and_matrices_have_the_bounds_of_the_original():
    characters = CharacterConfig(embedding_dim=16, filters=((1, 80),), num_highways=1)
    config = replace(MODEL, characters=characters, vector_dim=32, cell_dim=64, vocab_size=500, word_embedding_dim=20)
    values = initialized(config)
    bounds = {
        "network.words.characters": 1.0,
        "network.words.table": (6 / 520) ** 0.5,
        "network.lstm.0.input": (6 / (64 + 256)) ** 0.5,
        "network.lstm.1.recurrent": (6 / (64 + 256)) ** 0.5,
        "network.lstm.1.projection": (6 / (64 + 32)) ** 0.5,
    }
    for name, bound in bounds.items():
        assert 0.98 * bound < values[name].abs().max().item() <= bound, name
    spreads = {
        "network.words.highways.0.transform.weight": 80**-0.5,
        "network.words.projection.weight": 100**-0.5,
        "softmax_weight": 32**-0.5,
    }
    for name, spread in spreads.items():
        assert values[name].std().item() == pytest.approx(spread, rel=0.05), name
