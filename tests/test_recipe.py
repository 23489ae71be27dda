"""A recipe is read whole, or refused by the name of the field that is wrong."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Literal

import pytest

from elmore.cli.command import split_recipe_fields
from elmore.config import MEDIUM, ORIGINAL, SMALL
from elmore.errors import ElmoreError, InputError, InputWarning, NotFound
from elmore.fields import checked_field, read_fields
from elmore.pretraining.recipe import Recipe, Training
from elmore.recipe import apply_overrides, read_recipe, recipe_names


def from_json(recipe: Recipe) -> Recipe:
    return read_fields(Recipe, json.loads(json.dumps(asdict(recipe))))


@pytest.mark.parametrize("name", recipe_names(Recipe))
def test_every_recipe_that_comes_with_elmore_is_read_and_survives_json(name):
    recipe = read_recipe(name, Recipe)
    assert from_json(recipe) == recipe


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    # What their authors call 13.6, 28.0 and 93.6 million.
    [("small", SMALL, 13_593_296), ("medium", MEDIUM, 28_027_728), ("original", ORIGINAL, 93_600_848)],
)
def test_sizes_have_exactly_the_published_numbers_of_parameters(name, shape, parameters):
    assert read_recipe(name, Recipe).model == shape
    assert shape.num_parameters == parameters


def test_the_original_recipe_is_the_papers():
    training = read_recipe("original", Recipe).training
    assert (training.optimizer, training.learning_rate, training.max_grad_norm) == ("adagrad", 0.2, 10.0)
    assert (training.epochs, training.batch_size, training.window) == (10.0, 384, 20)
    assert (training.negatives, training.dropout) == (8192, 0.1)
    # A constant rate.
    assert (training.warmup_steps, training.final_rate) == (0, 1.0)


def test_the_recipe_of_the_model_inside_is_the_one_it_was_trained_by():
    card = resources.files("elmore") / "models" / "elmore-en" / "card.json"
    training = json.loads(card.read_text())["extra"]["training"]
    recipe = read_fields(Recipe, training["recipe"])
    assert recipe == read_recipe("elmore-en", Recipe)
    assert training["steps"] * recipe.training.batch_size * recipe.training.window == training["words_read"]


def test_a_file_names_only_what_differs(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('[model]\ncell_dim = 64\n[training]\nepochs = 3\noptimizer = "adagrad"\n')
    recipe = read_recipe(file, Recipe)
    assert recipe.model == replace(SMALL, cell_dim=64)
    assert recipe.training == Training(epochs=3.0, optimizer="adagrad")
    assert isinstance(recipe.training.epochs, float)


def test_recipe_with_former_name_is_read_with_one_message(tmp_path):
    file = tmp_path / "old.toml"
    file.write_text("[training]\ngradient_clip = 2.5\n")
    with pytest.warns(InputWarning, match=r"old.toml: .*training.gradient_clip is now training.max_grad_norm") as found:
        assert read_recipe(file, Recipe).training.max_grad_norm == 2.5
    assert len(found) == 1


class TestTheCommandLine:
    def test_single_fields_are_override(self):
        recipe = apply_overrides(
            Recipe(),
            {
                "training.learning_rate": "1e-3",
                "training.optimizer": "adagrad",
                "training.dropout": "0",
                "model.characters.num_highways": "3",
                "model.skip_connections": "false",
                "model.characters.filters": "[[1, 8], [2, 16]]",
            },
        )
        assert recipe.training == Training(learning_rate=0.001, optimizer="adagrad", dropout=0.0)
        assert recipe.model.characters.num_highways == 3
        assert recipe.model.characters.filters == ((1, 8), (2, 16))
        assert recipe.model.characters.embedding_dim == SMALL.characters.embedding_dim
        assert not recipe.model.skip_connections

    def test_who_asks_for_epochs_gets_them_from_a_recipe_that_counts_steps(self):
        assert read_recipe("tiny", Recipe).training.steps == 600
        assert apply_overrides(read_recipe("tiny", Recipe), {"training.epochs": "2"}).training.steps == 0
        both = apply_overrides(read_recipe("tiny", Recipe), {"training.epochs": "2", "training.steps": "7"})
        assert both.training.steps == 7

    def test_false_takes_away_what_a_model_may_lack(self):
        words = {"model.characters": "false", "model.word_embedding_dim": "128", "model.vocab_size": "900"}
        recipe = apply_overrides(Recipe(), words | {"model.cell_clip": "false", "model.projection_clip": "false"})
        assert recipe.model.characters is None
        assert recipe.model.cell_clip is None
        assert recipe.model.projection_clip is None
        assert from_json(recipe) == recipe
        # And back again.
        assert apply_overrides(recipe, {"model.characters.num_highways": "1"}).model.characters.num_highways == 1

    @pytest.mark.parametrize(
        "text", ["2024-01-01", "2024", "true", "false", "07:32:00", "inf", "1e3", "[1]", "{}", "nan", "9" * 5000]
    )
    def test_override_takes_any_text_for_a_text_field(self, text):
        assert apply_overrides(TextRecipe(), {"elmo.model": text}).elmo.model == text

    @pytest.mark.parametrize(("text", "value"), [('"a b"', "a b"), ("'false'", "false"), ("a b", "a b"), ('"a', '"a')])
    def test_override_reads_quoted_text_as_toml(self, text, value):
        assert apply_overrides(TextRecipe(), {"elmo.model": text}).elmo.model == value

    @pytest.mark.parametrize(
        ("text", "value"), [("2", 2), ("all", "all"), ("2024-01-01", "2024-01-01"), ("1.5", "1.5")]
    )
    def test_override_reads_number_or_text_as_either(self, text, value):
        assert apply_overrides(TextRecipe(), {"elmo.layers": text}).elmo.layers == value

    @pytest.mark.parametrize(("text", "value"), [("false", None), ("true", "true"), ('"false"', "false")])
    def test_override_reads_false_as_none_for_optional_text(self, text, value):
        assert apply_overrides(TextRecipe(), {"elmo.language": text}).elmo.language == value

    @pytest.mark.parametrize("text", ["[" * 5000, "9" * 5000])
    def test_override_rejects_toml_that_cannot_be_parsed(self, text):
        with pytest.raises(InputError, match=r"^training\.batch_size is .*must be a whole number"):
            apply_overrides(Recipe(), {"training.batch_size": text})


@dataclass(frozen=True)
class TextSection:
    model: str = ""
    layers: int | str = 0
    language: str | None = ""


@dataclass(frozen=True)
class TextRecipe:
    elmo: TextSection = TextSection()


WRONG = [
    ({"training.learning_rates": "1"}, "unknown field training.learning_rates; known are epochs, steps"),
    ({"trainings.batch_size": "1"}, "unknown section trainings; this recipe has [model], [training]"),
    ({"model.cells": "1"}, "unknown field model.cells; known are characters, vocab_size"),
    ({"model.characters.highways": "1"}, "unknown field model.characters.highways; known are alphabet"),
    ({"base": "small"}, "unknown section base"),
    ({"model": "3"}, "model is 3; it must be a table"),
    ({"training": "3"}, "training is 3; it must be a table"),
    ({"training.batch_size": "1", "training.batch_size.x": "1"}, "batch_size is 1; it must be a table"),
    ({"training.batch_size": "many"}, "training.batch_size is 'many'; it must be a whole number"),
    ({"training.batch_size": "1.5"}, "training.batch_size is 1.5"),
    ({"training.batch_size": "true"}, "training.batch_size is True"),
    ({"training.batch_size": "0"}, "training.batch_size is 0; it must be a whole number, at least 1"),
    ({"training.window": "0"}, "training.window is 0"),
    ({"training.gradient_accumulation": "0"}, "training.gradient_accumulation is 0"),
    ({"training.steps": "-1"}, "training.steps is -1"),
    ({"training.negatives": "-1"}, "training.negatives is -1"),
    ({"training.warmup_steps": "-1"}, "training.warmup_steps is -1"),
    ({"training.seed": "-1"}, "training.seed is -1"),
    ({"training.seed": "4294967296"}, "training.seed is 4294967296"),
    ({"training.epochs": "0"}, "training.epochs is 0; it must be a number above 0"),
    ({"training.epochs": "inf"}, "training.epochs is inf"),
    ({"training.epochs": "1" + 400 * "0"}, "training.epochs is too large"),
    ({"training.learning_rate": "nan"}, "training.learning_rate is nan"),
    ({"training.learning_rate": "'0.1'"}, "training.learning_rate is '0.1'; it must be a number"),
    ({"training.max_grad_norm": "-2"}, "training.max_grad_norm is -2"),
    ({"training.dropout": "1"}, "training.dropout is 1; it must be a number from 0 to 0.95"),
    ({"training.final_rate": "1.1"}, "training.final_rate is 1.1"),
    ({"training.weight_decay": "-0.1"}, "training.weight_decay is -0.1"),
    ({"training.optimizer": "sgd"}, "training.optimizer is 'sgd'; it must be adamw or adagrad"),
    ({"training.optimizer": "3"}, "training.optimizer is '3'; it must be adamw or adagrad"),
    ({"training.precision": "float16"}, "training.precision is 'float16'"),
    ({"model.cell_dim": "0"}, "model.cell_dim is 0; it must be a whole number, at least 1"),
    ({"model.cell_dim": "many"}, "model.cell_dim is 'many'"),
    ({"model.characters": "true"}, "model.characters is True; it must be a table of fields"),
    ({"model.characters.activation": "gelu"}, "model.characters.activation is 'gelu'; it must be relu or tanh"),
    ({"model.lstm_projection": "false"}, "model: without lstm_projection"),
]


@pytest.mark.parametrize(("fields", "complaint"), WRONG, ids=[complaint for _, complaint in WRONG])
def test_a_wrong_field_is_refused_by_its_name(fields, complaint):
    with pytest.raises(InputError) as caught:
        apply_overrides(Recipe(), fields)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"batch_size 64", "mine.toml: not TOML: Expected '='"),
        (b"[training]\nbatch_size = 1\nbatch_size = 2\n", "mine.toml: not TOML"),
        (b"\xff\xfe", "mine.toml: not TOML"),
        (b"[training]\nrow = 1\n", "mine.toml: unknown field training.row"),
        (b"[model]\ncell_dim = -1\n", "mine.toml: model.cell_dim is -1"),
        (b"training = 3\n", "mine.toml: training is 3"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused_by_its_name(tmp_path: Path, content, complaint):
    (tmp_path / "mine.toml").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_recipe(tmp_path / "mine.toml", Recipe)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("content", ["x = " + "[" * 5000, "x = " + "9" * 5000])
def test_read_recipe_rejects_toml_that_cannot_be_parsed(tmp_path: Path, content):
    (tmp_path / "mine.toml").write_text(content)
    with pytest.raises(InputError, match=r"mine\.toml: not TOML"):
        read_recipe(tmp_path / "mine.toml", Recipe)


def test_read_recipe_prefers_file_to_name(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()  # a folder, as a run's output may be called, does not hide the recipe
    assert read_recipe("small", Recipe).model == SMALL
    (tmp_path / "small").rmdir()
    (tmp_path / "small").write_text("[model]\ncell_dim = 64\n")
    for name in ("small", "./small", tmp_path / "small"):
        assert read_recipe(name, Recipe).model.cell_dim == 64


def test_read_recipe_resolves_base_of_shipped_recipe_to_shipped_one(tmp_path: Path, monkeypatch):
    expected = read_recipe("elmore-en", Recipe)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "medium").write_text("[model]\ncell_dim = 64\n")  # elmore-en starts from medium
    assert read_recipe("elmore-en", Recipe) == expected


@pytest.mark.parametrize("name", ["gigantic", "/nowhere/mine.toml", "/", "x" * 300])
def test_a_name_that_leads_nowhere_is_answered_with_those_that_do(name):
    with pytest.raises(NotFound) as caught:
        read_recipe(name, Recipe)
    assert str(caught.value).startswith(name)
    assert ", ".join(recipe_names(Recipe)) in str(caught.value)


class TestABase:
    def test_a_file_starts_from_the_recipe_it_names(self, tmp_path):
        (tmp_path / "mine.toml").write_text('base = "medium"\n[training]\nbatch_size = 7\n')
        medium = read_recipe("medium", Recipe)
        mine = read_recipe(tmp_path / "mine.toml", Recipe)
        assert mine == replace(medium, training=replace(medium.training, batch_size=7))

    def test_epochs_count_over_the_steps_of_the_recipe_before(self, tmp_path):
        (tmp_path / "mine.toml").write_text('base = "tiny"\ntraining.epochs = 2\n')
        assert read_recipe(tmp_path / "mine.toml", Recipe).training.steps == 0

    def test_a_file_is_found_beside_the_one_that_names_it(self, tmp_path):
        (tmp_path / "first.toml").write_text("training.batch_size = 7\ntraining.window = 3\n")
        (tmp_path / "second.toml").write_text('base = "first.toml"\ntraining.batch_size = 8\n')
        training = read_recipe(tmp_path / "second.toml", Recipe).training
        assert (training.batch_size, training.window) == (8, 3)

    @pytest.mark.parametrize(
        ("base", "complaint"),
        [
            ('"gigantic"', "mine.toml: gigantic: no such file; recipes that come with Elmore"),
            ("3", "mine.toml: base is 3; it must be a recipe's name, or a file"),
            ('"mine.toml"', "mine.toml, whose base is this recipe"),
        ],
    )
    def test_a_wrong_one_is_refused(self, tmp_path, base, complaint):
        (tmp_path / "mine.toml").write_text(f"base = {base}\n")
        with pytest.raises(ElmoreError) as caught:
            read_recipe(tmp_path / "mine.toml", Recipe)
        assert complaint in str(caught.value)


@dataclass(frozen=True)
class Task:
    name: Literal["ner", "srl"] = "ner"
    columns: Mapping[str, int] = field(default_factory=lambda: {"word": 0, "tag": 3})


@dataclass(frozen=True)
class Elmo:
    where: Literal["none", "input", "output", "both"] = "input"
    layers: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Fit:
    patience: int = checked_field(5, at_least=1)
    learning_rate: float = checked_field(1e-3, above=0)


@dataclass(frozen=True)
class TaskRecipe:
    task: Task = Task()
    elmo: Elmo = Elmo()
    training: Fit = Fit()


class TestARecipeOfAnotherTraining:
    """Its sections are its own dataclasses; reader, overrides and errors are those of every recipe."""

    @pytest.fixture
    def ner(self, tmp_path) -> Path:
        (tmp_path / "base.toml").write_text("[task]\ncolumns = {word = 1, tag = 2}\n[training]\npatience = 9\n")
        (tmp_path / "ner.toml").write_text('base = "base.toml"\n[elmo]\nwhere = "both"\nlayers = [0, 2]\n')
        return tmp_path / "ner.toml"

    def test_it_is_read_and_starts_from_another(self, ner):
        assert read_recipe(ner, TaskRecipe) == TaskRecipe(
            task=Task(columns={"word": 1, "tag": 2}), elmo=Elmo(where="both", layers=(0, 2)), training=Fit(patience=9)
        )

    def test_single_fields_are_changed_as_the_command_line_names_them(self, ner):
        words = ["--elmo.layers", "false", "--training.patience=2", "--task.name", "srl"]
        others, changes = split_recipe_fields(words)
        assert others == []
        changed = apply_overrides(read_recipe(ner, TaskRecipe), changes)
        assert (changed.task.name, changed.elmo, changed.training) == ("srl", Elmo(where="both"), Fit(patience=2))
        assert changed.task.columns == {"word": 1, "tag": 2}

    def test_it_survives_json(self, ner):
        recipe = read_recipe(ner, TaskRecipe)
        assert read_fields(TaskRecipe, json.loads(json.dumps(asdict(recipe)))) == recipe

    @pytest.mark.parametrize(
        ("changes", "complaint"),
        [
            ({"elmo.where": "inside"}, "elmo.where is 'inside'; it must be one of none, input, output, both"),
            ({"training.patience": "0"}, "training.patience is 0; it must be a whole number, at least 1"),
            ({"training.rows": "8"}, "unknown field training.rows; known are patience, learning_rate"),
            ({"model.cell_dim": "8"}, "unknown section model; this recipe has [task], [elmo], [training]"),
        ],
    )
    def test_what_is_wrong_is_named(self, ner, changes, complaint):
        with pytest.raises(InputError) as caught:
            apply_overrides(read_recipe(ner, TaskRecipe), changes)
        assert complaint in str(caught.value)

    def test_a_file_is_named_with_what_is_wrong_in_it(self, tmp_path):
        (tmp_path / "ner.toml").write_text('[task]\nname = "parsing"\n')
        with pytest.raises(InputError, match=r"ner\.toml: task\.name is 'parsing'; it must be ner or srl"):
            read_recipe(tmp_path / "ner.toml", TaskRecipe)
        (tmp_path / "mine.toml").write_text("[model]\ncell_dim = 64\n")
        with pytest.raises(InputError, match=r"mine.toml: unknown section model; this recipe has \[task\], \[elmo\]"):
            read_recipe(tmp_path / "mine.toml", TaskRecipe)
