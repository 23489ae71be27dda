"""A recipe is read whole, or refused by the name of the field that is wrong."""

import json
from pathlib import Path

import pytest

from elmore.config import SMALL
from elmore.errors import InputError, NotFound
from elmore.recipe import SIZES, Recipe, Training, overridden, read_recipe, recipe_names


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_that_comes_with_elmore_is_read_and_survives_json(name):
    recipe = read_recipe(name)
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize(
    ("size", "parameters"),
    # What their authors call 13.6, 28.0 and 93.6 million.
    [("small", 13_593_296), ("medium", 28_027_728), ("original", 93_600_848)],
)
def test_sizes_have_exactly_the_published_numbers_of_parameters(size, parameters):
    assert SIZES[size].parameters == parameters
    assert read_recipe(size).model == SIZES[size]


def test_the_original_recipe_is_the_papers():
    training = read_recipe("original").training
    assert (training.optimizer, training.learning_rate, training.clip) == ("adagrad", 0.2, 10.0)
    assert (training.epochs, training.rows, training.window) == (10.0, 384, 20)
    assert (training.negatives, training.dropout) == (8192, 0.1)
    # A constant rate.
    assert (training.warmup, training.final_rate) == (0, 1.0)


def test_a_file_names_only_what_differs(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('size = "medium"\n[model]\ncell_dim = 64\n[training]\nepochs = 3\noptimizer = "adagrad"\n')
    recipe = read_recipe(file)
    assert recipe.model.cell_dim == 64
    assert recipe.model.vector_dim == SIZES["medium"].vector_dim
    assert recipe.training == Training(epochs=3.0, optimizer="adagrad")
    assert isinstance(recipe.training.epochs, float)


class TestTheCommandLine:
    def test_single_fields_are_overridden(self):
        recipe = overridden(
            Recipe(),
            {
                "training.learning_rate": "1e-3",
                "training.optimizer": "adagrad",
                "training.dropout": "0",
                "model.characters.n_highways": "3",
                "model.skip_connections": "false",
                "model.characters.filters": "[[1, 8], [2, 16]]",
            },
        )
        assert recipe.training == Training(learning_rate=0.001, optimizer="adagrad", dropout=0.0)
        assert recipe.model.characters.n_highways == 3
        assert recipe.model.characters.filters == ((1, 8), (2, 16))
        assert recipe.model.characters.embedding_dim == SMALL.characters.embedding_dim
        assert not recipe.model.skip_connections

    def test_a_size_replaces_the_shape_and_leaves_the_training(self):
        recipe = overridden(read_recipe("original"), {"size": "tiny"})
        assert recipe.model == SIZES["tiny"]
        assert recipe.training == read_recipe("original").training

    def test_who_asks_for_epochs_gets_them_from_a_recipe_that_counts_updates(self):
        assert read_recipe("tiny").training.updates == 600
        assert overridden(read_recipe("tiny"), {"training.epochs": "2"}).training.updates == 0
        both = overridden(read_recipe("tiny"), {"training.epochs": "2", "training.updates": "7"})
        assert both.training.updates == 7

    def test_false_takes_away_what_a_model_may_lack(self):
        words = {"model.characters": "false", "model.word_dim": "128", "model.n_words": "900"}
        recipe = overridden(Recipe(), words | {"model.cell_clip": "false", "model.projection_clip": "false"})
        assert recipe.model.characters is None
        assert recipe.model.cell_clip is None
        assert recipe.model.projection_clip is None
        assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
        # And back again.
        assert overridden(recipe, {"model.characters.n_highways": "1"}).model.characters.n_highways == 1


WRONG = [
    ({"training.learning_rates": "1"}, "unknown field training.learning_rates"),
    ({"trainings.rows": "1"}, "unknown part trainings"),
    ({"model.cells": "1"}, "model: unknown field cells"),
    ({"model.characters.highways": "1"}, "model: unknown field highways"),
    ({"size": "huge"}, "size is 'huge'; it must be one of tiny, small, medium, original"),
    ({"size": "[1]"}, "size is [1]"),
    ({"model": "3"}, "model is 3; it must be a table"),
    ({"training": "3"}, "training is 3; it must be a table"),
    ({"training.rows": "1", "training.rows.x": "1"}, "rows is 1; it must be a table"),
    ({"training.rows": "many"}, "training.rows is 'many'; it must be a whole number"),
    ({"training.rows": "1.5"}, "training.rows is 1.5"),
    ({"training.rows": "true"}, "training.rows is True"),
    ({"training.rows": "0"}, "training.rows is 0; it must be at least 1"),
    ({"training.window": "0"}, "training.window is 0"),
    ({"training.accumulate": "0"}, "training.accumulate is 0"),
    ({"training.updates": "-1"}, "training.updates is -1"),
    ({"training.negatives": "-1"}, "training.negatives is -1"),
    ({"training.warmup": "-1"}, "training.warmup is -1"),
    ({"training.seed": "-1"}, "training.seed is -1"),
    ({"training.seed": "4294967296"}, "training.seed is 4294967296"),
    ({"training.epochs": "0"}, "training.epochs is 0.0; it must be above 0"),
    ({"training.epochs": "inf"}, "training.epochs is inf"),
    ({"training.epochs": "1" + 400 * "0"}, "training.epochs is too large"),
    ({"training.learning_rate": "nan"}, "training.learning_rate is nan"),
    ({"training.learning_rate": "'0.1'"}, "training.learning_rate is '0.1'; it must be a number"),
    ({"training.clip": "-2"}, "training.clip is -2.0"),
    ({"training.dropout": "1"}, "training.dropout is 1.0; it must be from 0 to 0.95"),
    ({"training.final_rate": "1.1"}, "training.final_rate is 1.1"),
    ({"training.weight_decay": "-0.1"}, "training.weight_decay is -0.1"),
    ({"training.optimizer": "sgd"}, "training.optimizer is 'sgd'; it must be adamw or adagrad"),
    ({"training.optimizer": "3"}, "training.optimizer is 3; it must be a string"),
    ({"training.precision": "float16"}, "training.precision is 'float16'"),
    ({"model.cell_dim": "0"}, "model: cell_dim is 0"),
    ({"model.cell_dim": "many"}, "model: cell_dim is 'many'"),
    ({"model.characters": "true"}, "model: characters is True"),
    ({"model.characters.activation": "gelu"}, "model: activation is 'gelu'"),
    ({"model.lstm_projection": "false"}, "without lstm_projection"),
]


@pytest.mark.parametrize(("fields", "complaint"), WRONG, ids=[complaint for _, complaint in WRONG])
def test_a_wrong_field_is_refused_by_its_name(fields, complaint):
    with pytest.raises(InputError) as caught:
        overridden(Recipe(), fields)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"rows 64", "mine.toml: not TOML: Expected '='"),
        (b"[training]\nrows = 1\nrows = 2\n", "mine.toml: not TOML"),
        (b"\xff\xfe", "mine.toml: not TOML"),
        (b"[training]\nrow = 1\n", "mine.toml: unknown field training.row"),
        (b"[model]\ncell_dim = -1\n", "mine.toml: model: cell_dim is -1"),
        (b"training = 3\n", "mine.toml: training is 3"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused_by_its_name(tmp_path: Path, content, complaint):
    (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_recipe(tmp_path / "mine.toml")
    assert complaint in str(caught.value)


@pytest.mark.parametrize("name", ["gigantic", "/nowhere/mine.toml", "/"])
def test_a_name_that_leads_nowhere_is_answered_with_those_that_do(name):
    with pytest.raises(NotFound) as caught:
        read_recipe(name)
    assert str(caught.value).startswith(name)
    assert ", ".join(recipe_names()) in str(caught.value)


def test_plain_values_that_are_no_table_are_refused():
    with pytest.raises(InputError, match="a recipe is"):
        Recipe.from_dict([])
