import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from elmore.config import MEDIUM, ORIGINAL, SMALL, CharacterConfig, ModelConfig
from elmore.errors import CannotExpress, FormatError
from elmore.formats.options_json import config_from_options, options_from_config

# Those of the "original" English model, as published.
PUBLISHED: dict[str, Any] = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "embedding": {"dim": 16},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}


def edited(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The published options with some set to other values, by dotted names; with `...` they are taken out."""
    options: dict[str, Any] = json.loads(json.dumps(PUBLISHED))
    for name, value in changes.items():
        *sections, last = name.split(".")
        section = options
        for part in sections:
            section = section[part]
        section[last] = value
        if value is ...:
            del section[last]
    return options


def test_the_published_options_describe_the_published_model() -> None:
    assert config_from_options(PUBLISHED) == ORIGINAL


@pytest.mark.parametrize("config", [ORIGINAL, MEDIUM, SMALL])
def test_options_that_we_write_say_the_same(config: ModelConfig) -> None:
    assert config_from_options(options_from_config(config)) == config


def test_we_write_the_published_options_to_the_letter() -> None:
    written = options_from_config(ORIGINAL)
    assert written == PUBLISHED
    assert json.dumps(written["lstm"]["cell_clip"]) == "3"


@pytest.mark.parametrize("clip", [0, None, ..., 0.0])
def test_no_clip_is_said_in_four_ways(clip: Any) -> None:
    config = config_from_options(edited({"lstm.cell_clip": clip, "lstm.proj_clip": clip}))
    assert (config.cell_clip, config.projection_clip) == (None, None)


def test_no_clip_is_written_as_null_which_both_readers_take_for_none() -> None:
    written = options_from_config(replace(ORIGINAL, cell_clip=None, projection_clip=0.5))
    assert (written["lstm"]["cell_clip"], written["lstm"]["proj_clip"]) == (None, 0.5)


@pytest.mark.parametrize("number", [261, 262, ...])
def test_the_number_of_characters_may_be_that_of_training_or_of_inference(number: Any) -> None:
    assert config_from_options(edited({"char_cnn.n_characters": number})) == ORIGINAL


def test_what_is_absent_has_the_defaults_of_bilm_tf() -> None:
    absent = dict.fromkeys(["lstm.n_layers", "lstm.use_skip_connections", "char_cnn.n_highway"], ...)
    config = config_from_options(edited(absent))
    assert config.characters is not None
    assert (config.lstm_layers, config.skip_connections, config.characters.num_highways) == (1, False, 0)


def test_options_about_training_and_unknown_ones_are_passed_over() -> None:
    more = {"bidirectional": False, "dropout": 0.1, "n_tokens_vocab": 7, "favourite_colour": "red"}
    assert config_from_options(PUBLISHED | more) == ORIGINAL


def test_projections_are_there_where_sizes_differ() -> None:
    same = config_from_options(edited({"lstm.dim": 2048, "lstm.projection_dim": 2048}))
    assert (same.token_projection, same.lstm_projection) == (False, False)
    other = config_from_options(edited({"lstm.dim": 512, "lstm.projection_dim": 512}))
    assert (other.token_projection, other.lstm_projection) == (True, False)


def test_without_char_cnn_the_model_reads_as_many_words_as_its_table_has() -> None:
    config = config_from_options(edited({"char_cnn": ...}), vocab_size=7)
    assert config.characters is None
    assert (config.vocab_size, config.word_embedding_dim, config.token_projection) == (7, 512, False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lstm": ...}, "^lstm is missing"),
        ({"lstm": 3}, "^lstm is 3; it must be a table of fields"),
        ({"lstm.dim": ...}, r"^lstm\.dim is missing"),
        ({"lstm.dim": None}, r"^lstm\.dim is None; it must be a whole number"),
        ({"lstm.dim": "many"}, r"lstm\.dim is 'many'; it must be a whole number, at least 1"),
        ({"lstm.dim": 1.5}, r"lstm\.dim is 1\.5; it must be a whole number"),
        ({"lstm.dim": True}, r"lstm\.dim is True; it must be a whole number"),
        ({"lstm.projection_dim": 0}, r"lstm\.projection_dim is 0; it must be a whole number, at least 1"),
        ({"lstm.cell_clip": -1}, r"lstm\.cell_clip is -1; it must be a positive number, or 0 or null for no clipping"),
        ({"lstm.cell_clip": "3"}, r"lstm\.cell_clip is '3'; it must be a positive number"),
        ({"lstm.proj_clip": float("nan")}, r"lstm\.proj_clip is nan; it must be a positive number"),
        ({"lstm.proj_clip": 10**400}, r"lstm\.proj_clip is too large a number"),
        ({"lstm.use_skip_connections": "no"}, r"lstm\.use_skip_connections is 'no'; it must be true or false"),
        ({"char_cnn": ...}, "char_cnn is missing, so the model reads words, and the weights contain no table of words"),
        ({"char_cnn": []}, r"char_cnn is \[\]; it must be a table of fields"),
        ({"char_cnn.activation": "gelu"}, r"char_cnn\.activation is 'gelu'; it must be relu or tanh"),
        ({"char_cnn.n_characters": 300}, r"char_cnn\.n_characters is 300; models of bytes have 261 or 262"),
        ({"char_cnn.max_characters_per_token": ...}, r"char_cnn\.max_characters_per_token is missing"),
        (
            {"char_cnn.max_characters_per_token": 2},
            "char_cnn: max_characters is 2; it must be a whole number, at least 3",
        ),
        ({"char_cnn.embedding": ...}, r"char_cnn\.embedding is missing"),
        ({"char_cnn.embedding": {}}, r"char_cnn\.embedding\.dim is missing"),
        ({"char_cnn.filters": ...}, r"char_cnn\.filters is missing"),
        ({"char_cnn.filters": [[1, 2, 3]]}, r"char_cnn\.filters is \[\[1, 2, 3\]\]; it must be a list"),
        ({"char_cnn.filters": []}, "char_cnn: filters is empty"),
        ({"char_cnn.filters": [[99, 3]]}, r"char_cnn: filters holds \[99, 3\]"),
        ({"char_cnn.n_highway": -1}, r"char_cnn\.n_highway is -1; it must be a whole number, at least 0"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        config_from_options(edited(changes))


CHARACTERS = CharacterConfig(filters=((1, 4), (2, 4)), embedding_dim=2)
BASE = ModelConfig(characters=CHARACTERS, vector_dim=4, cell_dim=6)


@pytest.mark.parametrize(
    ("config", "what"),
    [
        (replace(BASE, characters=replace(CHARACTERS, alphabet="codepoints", n_characters=9)), "an alphabet of code"),
        (replace(BASE, vocab_size=5, word_embedding_dim=3), "both words and characters as input"),
        (replace(BASE, vector_dim=8), "a projection of token vectors of the same size"),
        (replace(BASE, cell_dim=4), "a projection of cells of the same size"),
        (replace(BASE, directions="forward"), "a single direction"),
        (replace(BASE, directions="backward"), "a single direction"),
        (
            replace(BASE, characters=None, vocab_size=5, word_embedding_dim=3),
            "word vectors of another size than token vectors",
        ),
        (replace(BASE, bos_token="<bos>", eos_token="<eos>"), "the boundary words <bos> and <eos>"),
        (
            replace(
                BASE, characters=None, vocab_size=5, word_embedding_dim=4, token_projection=False, unk_token="<oov>"
            ),
            "the unknown word <oov>",
        ),
    ],
)
def test_what_options_have_no_words_for_is_named(config: ModelConfig, what: str) -> None:
    with pytest.raises(
        CannotExpress, match=f"^options.json and weights.hdf5 cannot describe {what}.*write the format folder"
    ):
        options_from_config(config)
