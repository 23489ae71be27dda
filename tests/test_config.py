"""The shape of a model: its counts, its limits, its way to JSON and back, and its agreement with the network."""

import json
from dataclasses import FrozenInstanceError, replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.config import (
    MEDIUM,
    ORIGINAL,
    SMALL,
    Activation,
    AlphabetName,
    CharacterConfig,
    Direction,
    Directions,
    ModelConfig,
    tensor_shapes,
)
from elmore.errors import InputError
from elmore.fields import read_fields
from elmore.nn.bilm import BiLM
from reference.strategies import patiently


@st.composite
def character_configs(draw: st.DrawFn) -> CharacterConfig:
    alphabet = draw(st.sampled_from(get_args(AlphabetName)))
    longest = draw(st.integers(3, 60))
    filters = st.tuples(st.integers(1, longest), st.integers(1, 4))
    return CharacterConfig(
        alphabet=alphabet,
        n_characters=261 if alphabet == "bytes" else draw(st.integers(6, 40)),
        max_characters=longest,
        embedding_dim=draw(st.integers(1, 5)),
        filters=tuple(draw(st.lists(filters, min_size=1, max_size=3))),
        activation=draw(st.sampled_from(get_args(Activation))),
        num_highways=draw(st.integers(0, 2)),
    )


@st.composite
def configs(draw: st.DrawFn) -> ModelConfig:
    """Any member of the family, those of ELMoForManyLangs with words and characters included."""
    characters = draw(st.none() | character_configs())
    word_embedding_dim = draw(st.integers(1 if characters is None else 0, 4))
    features = word_embedding_dim + (characters.num_filters if characters else 0)
    token_projection, lstm_projection = draw(st.booleans()), draw(st.booleans())
    vector_dim = draw(st.integers(1, 5)) if token_projection else features
    return ModelConfig(
        characters=characters,
        vocab_size=draw(st.integers(3, 9)) if word_embedding_dim else 0,
        word_embedding_dim=word_embedding_dim,
        token_projection=token_projection,
        vector_dim=vector_dim,
        cell_dim=draw(st.integers(1, 5)) if lstm_projection else vector_dim,
        lstm_layers=draw(st.integers(1, 3)),
        lstm_projection=lstm_projection,
        skip_connections=draw(st.booleans()),
        directions=draw(st.sampled_from(get_args(Directions))),
        cell_clip=draw(st.none() | st.floats(0.1, 9)),
        projection_clip=draw(st.none() | st.floats(0.1, 9)),
        forget_bias=draw(st.floats(-2, 2)),
        bos_token=draw(st.sampled_from(["<S>", "<bos>"])),
    )


MANY_LANGUAGES = replace(
    ORIGINAL, characters=replace(CharacterConfig(), alphabet="codepoints", n_characters=6000, embedding_dim=50)
)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        pytest.param(SMALL, 13_593_296, id="small"),
        pytest.param(MEDIUM, 28_027_728, id="medium"),
        pytest.param(ORIGINAL, 93_600_848, id="original"),
        pytest.param(replace(ORIGINAL, cell_dim=2048), 55_819_344, id="what simple_elmo trains by default"),
        pytest.param(
            replace(MANY_LANGUAGES, vocab_size=140_000, word_embedding_dim=100),
            94_066_752 + 100 * 140_000 + 50 * 6000,
            id="ELMoForManyLangs",
        ),
    ],
)
def test_the_published_models_have_the_published_number_of_parameters(config: ModelConfig, parameters: int) -> None:
    assert config.num_parameters == parameters


@pytest.mark.parametrize(("config", "dim"), [(SMALL, 256), (MEDIUM, 512), (ORIGINAL, 1024)])
def test_the_published_models_have_three_layers_of_the_published_size(config: ModelConfig, dim: int) -> None:
    assert (config.num_layers, config.dim) == (3, dim)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_one_direction_halves_the_layers(direction: Direction) -> None:
    one_way = replace(SMALL, directions=direction)
    assert one_way.direction_names == (direction,)
    assert (one_way.num_directions, one_way.dim, one_way.num_layers) == (1, 128, 3)


@patiently
@given(configs())
def test_a_config_survives_json(config: ModelConfig) -> None:
    assert ModelConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@patiently
@given(configs())
def test_tensor_shapes_are_those_of_the_network(config: ModelConfig) -> None:
    network = {name: tuple(tensor.shape) for name, tensor in BiLM(config).state_dict().items()}
    assert tensor_shapes(config) == network


@patiently
@given(configs())
def test_parameters_count_what_the_network_holds(config: ModelConfig) -> None:
    assert config.num_parameters == sum(parameter.numel() for parameter in BiLM(config).parameters())


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        SMALL.cell_dim = 7  # type: ignore[misc]


def test_a_config_can_be_a_key() -> None:
    assert {SMALL: "small", MEDIUM: "medium"}[replace(MEDIUM, cell_dim=1024, vector_dim=128)] == "small"


def test_fields_left_out_take_their_defaults() -> None:
    assert ModelConfig.from_dict({}) == ORIGINAL
    assert ModelConfig.from_dict({"characters": {}}) == ORIGINAL


def test_whole_numbers_are_good_enough_for_clips() -> None:
    config = ModelConfig.from_dict({"cell_clip": 3, "projection_clip": None})
    assert (config.cell_clip, config.projection_clip) == (3.0, None)
    assert type(config.cell_clip) is float


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cell_dims", 3),
        ("vector_dim", 0),
        ("vector_dim", "512"),
        ("vector_dim", 512.0),
        ("vector_dim", None),
        ("vector_dim", True),
        ("lstm_layers", 0),
        ("vocab_size", -1),
        ("directions", True),
        ("directions", None),
        ("directions", "forwards"),
        ("directions", ["forward", "backward"]),
        ("skip_connections", "true"),
        ("cell_clip", 0),
        ("cell_clip", -3),
        ("cell_clip", "3"),
        ("cell_clip", True),
        ("cell_clip", float("nan")),
        ("projection_clip", float("inf")),
        ("projection_clip", 10**400),
        ("forget_bias", None),
        ("forget_bias", float("nan")),
        ("bos_token", 3),
        ("eos_token", None),
        ("unk_token", ["<UNK>"]),
        ("characters", "bytes"),
        ("characters", [1, 2]),
        ("characters", 0),
    ],
)
def test_a_wrong_field_is_named(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"\b{field}\b"):
        ModelConfig.from_dict({field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("alphabet", "utf-8"),
        ("alphabet", None),
        ("activation", "gelu"),
        ("activation", ["relu"]),
        ("embedding_dim", 0),
        ("max_characters", 2),
        ("max_characters", "50"),
        ("num_highways", -1),
        ("n_characters", 262),
        ("filters", None),
        ("filters", 3),
        ("filters", []),
        ("filters", [[1]]),
        ("filters", [[1, 2, 3]]),
        ("filters", [[1, "32"]]),
        ("filters", [[0, 32]]),
        ("filters", [[1, 0]]),
        ("filters", [[51, 32]]),
        ("width", 3),
    ],
)
def test_a_wrong_field_of_the_characters_is_named(field: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"\b{field}\b"):
        ModelConfig.from_dict({"characters": {field: value}})


@pytest.mark.parametrize("values", [None, [1], "{}", 3])
def test_what_is_no_table_is_refused(values: Any) -> None:
    with pytest.raises(InputError, match="table of fields"):
        ModelConfig.from_dict(values)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"characters": None}, "no input"),
        ({"vocab_size": 7}, "vocab_size"),
        ({"word_embedding_dim": 7}, "word_embedding_dim"),
        ({"token_projection": False}, "token_projection"),
        ({"lstm_projection": False}, "lstm_projection"),
        ({"eos_token": "<S>"}, "bos_token and eos_token"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        replace(SMALL, **changes)


def test_an_unknown_field_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown field cell_dims; known are .*cell_dim"):
        ModelConfig.from_dict({"cell_dims": 4096})


def test_config_reads_former_field_names() -> None:
    former = {"n_words": 5, "word_dim": 3, "reads": "forward", "begin": "<bos>", "end": "<eos>", "unknown": "<oov>"}
    config = ModelConfig.from_dict(former | {"characters": {"n_highways": 1}})
    assert (config.vocab_size, config.word_embedding_dim, config.directions) == (5, 3, "forward")
    assert (config.bos_token, config.eos_token, config.unk_token) == ("<bos>", "<eos>", "<oov>")
    assert config.characters is not None
    assert config.characters.num_highways == 1


def test_config_rejects_former_and_present_name_together() -> None:
    with pytest.raises(InputError, match=r"^model\.begin is the former name of bos_token; give bos_token alone"):
        read_fields(ModelConfig, {"begin": "<S>", "bos_token": "<S>"}, where="model")
