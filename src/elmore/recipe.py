"""Recipes: what a training does, as plain values from TOML and the command line, resolved once and saved with the run.

A kind of recipe is a frozen dataclass whose fields are its sections, which are frozen dataclasses too (`fields` says
what they may hold): pre-training has `[model]` and `[training]` (`pretraining/recipe.py`). A file names only what
differs from the defaults, or from another recipe that it starts from; `--training.batch_size 64` overrides both. TOML
has no word for nothing, so a model without clips says so with `false`: `cell_clip = false`.

    base = "medium"          # a recipe that comes with Elmore, or another file
    [training]
    batch_size = 256
"""

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from elmore.errors import InputError, NotFound, error_context, shortened
from elmore.fields import read_fields

R = TypeVar("R")

LARGEST_SEED = 2**32 - 1  # that NumPy takes too


def read_recipe(name: str | Path, kind: type[R]) -> R:
    """Read a recipe of this kind: a TOML file, or the name of one that comes with Elmore.

    >>> from elmore.pretraining.recipe import Recipe
    >>> read_recipe("medium", Recipe).training.batch_size
    512
    """
    return _read_recipe(name, kind, seen=())


def override(recipe: R, changes: Mapping[str, Any]) -> R:
    """A recipe with single fields changed, by names and values as the command line has them, or by plain values.

    >>> from elmore.pretraining.recipe import Recipe
    >>> override(Recipe(), {"training.batch_size": "64", "model.cell_dim": 512}).training.batch_size
    64
    """
    values: dict[str, Any] = {}
    for name, value in changes.items():
        table = values
        *sections, field = name.split(".")
        for section in sections:
            table = table.setdefault(section, {})
            if not isinstance(table, dict):
                raise InputError(f"{section} is {table!r}; it must be a table of fields")
        table[field] = _toml_value(value) if isinstance(value, str) else value
    return _merged(type(recipe), values, base=recipe)


def recipe_names(kind: type) -> list[str]:
    """The recipes of this kind that come with Elmore.

    >>> from elmore.pretraining.recipe import Recipe
    >>> recipe_names(Recipe)
    ['elmore-en', 'fine-tuning', 'medium', 'original', 'small', 'tiny']
    """
    folder = _shipped(kind)
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def _read_recipe(name: str | Path, kind: type[R], *, seen: tuple[str, ...]) -> R:
    values = _read_toml(name, kind)
    with error_context(name):
        base = values.pop("base", None)
        if base is None:
            return _merged(kind, values)
        if not isinstance(base, str):
            raise InputError(f"base is {base!r}; it must be a recipe's name, or a file")
        # Beside the file that names it, as anybody would look for it.
        nearby = Path(name).parent / base
        start = str(nearby) if nearby.is_file() else base
        if start in (*seen, str(name)):
            raise InputError(f"it starts from {base}, which starts from it")
        return _merged(kind, values, base=_read_recipe(start, kind, seen=(*seen, str(name))))


def _merged(kind: type[R], values: Mapping[str, Any], *, base: R | None = None) -> R:
    sections = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if unknown := sorted(values.keys() - set(sections)):
        raise InputError(f"unknown section {shortened(unknown)}; this recipe has [{'], ['.join(sections)}]")
    return read_fields(kind, values, base=base)


def _shipped(kind: type) -> Traversable:
    """The folder with the recipes of a kind that come with Elmore; a kind names it as `shipped_in`."""
    return resources.files("elmore") / "recipes" / str(getattr(kind, "shipped_in", ""))


def _read_toml(name: str | Path, kind: type) -> dict[str, Any]:
    shipped = _shipped(kind) / f"{name}.toml"
    try:
        content = shipped.read_bytes() if "/" not in str(name) and shipped.is_file() else Path(name).read_bytes()
    except OSError as error:
        raise NotFound(
            f"{name}: {error.strerror}; recipes that come with Elmore: {', '.join(recipe_names(kind))}"
        ) from None
    with error_context(name):
        try:
            return tomllib.loads(content.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"not TOML: {error}") from None


def _toml_value(text: str) -> Any:
    """A word of the command line as TOML has it; what is not TOML is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
