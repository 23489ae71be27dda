"""Recipes: the settings of a training run, from TOML and the command line, saved with the run.

A kind of recipe is a frozen dataclass. Its fields are the sections of the file, which are frozen dataclasses, too (see
`fields`): pre-training has `[model]` and `[training]` (`pretraining/recipe.py`). A file contains only the fields that
differ from the defaults, or from another recipe, its base. `--training.batch_size 64` overrides both. TOML has no null:
`cell_clip = false` is a model without clips.

    base = "medium"          # a recipe that comes with Elmore, or another file
    [training]
    batch_size = 256
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from elmore.display import join_names
from elmore.errors import ElmoreError, FormatError, InputError, InputWarning, NotFound, error_context
from elmore.fields import TomlText, former_names, read_fields
from elmore.files.json_files import parse_toml
from elmore.files.os_errors import reading

R = TypeVar("R")

LARGEST_SEED = 2**32 - 1  # of NumPy


def read_recipe(name: str | Path, kind: type[R]) -> R:
    """Read a recipe of this kind: a TOML file, or the name of one that comes with Elmore; a file wins over a name.

    >>> from elmore.pretraining.recipe import Recipe
    >>> read_recipe("medium", Recipe).training.batch_size
    512
    """
    return _read_recipe(_find(str(name), kind), str(name), kind, seen=())


def apply_overrides(recipe: R, changes: Mapping[str, Any]) -> R:
    """A recipe with single fields changed, by dotted names. A string is TOML, or the text itself for a text field.

    >>> from elmore.pretraining.recipe import Recipe
    >>> apply_overrides(Recipe(), {"training.batch_size": "64", "model.cell_dim": 512}).training.batch_size
    64
    """
    return _merged(type(recipe), _nested(changes), source="recipe", base=recipe)


def read_stored_recipe(values: Mapping[str, Any], kind: type[R], *, source: Path) -> R:
    """The recipe in a run folder, from the values of its file `source`."""
    with error_context(source):
        _warn_former_names(kind, values, str(source))
        return read_fields(kind, values, error=FormatError)


def current_names(kind: type, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes by dotted names, with the current names of fields in place of former ones."""
    renamed = former_names(kind, _nested(changes))
    return {renamed.get(name, name): value for name, value in changes.items()}


def _nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Changes by dotted names as tables."""
    values: dict[str, Any] = {}
    for name, value in changes.items():
        table = values
        *sections, field = name.split(".")
        for section in sections:
            table = table.setdefault(section, {})
            if not isinstance(table, dict):
                raise InputError(f"{section} is {table}; it must be a table of fields")
        table[field] = TomlText(value) if isinstance(value, str) else value
    return values


def _warn_former_names(kind: type, values: Mapping[str, Any], source: str) -> None:
    if renamed := former_names(kind, values):
        names = ", ".join(f"{former} is now {name}" for former, name in renamed.items())
        warnings.warn(f"{source}: contains former names of fields: {names}", InputWarning, stacklevel=2)


def recipe_names(kind: type) -> list[str]:
    """The recipes of this kind that come with Elmore.

    >>> from elmore.pretraining.recipe import Recipe
    >>> recipe_names(Recipe)
    ['elmore-en', 'fine-tuning', 'medium', 'original', 'small', 'tiny']
    """
    folder = _shipped(kind)
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def _read_recipe(file: Path | Traversable, name: str, kind: type[R], *, seen: tuple[str, ...]) -> R:
    values = _read_toml(file, name, kind)
    with error_context(name):
        base = values.pop("base", None)
        if base is None:
            return _merged(kind, values, source=name)
        if not isinstance(base, str):
            raise InputError(f"base is {base!r}; it must be a recipe's name, or a file")
        start = _find_base(base, kind, file)
        if str(start) in (*seen, str(file)):
            raise InputError(f"its base is {base}, whose base is this recipe; remove one of them")
        return _merged(kind, values, source=name, base=_read_recipe(start, base, kind, seen=(*seen, str(file))))


def _find(name: str, kind: type) -> Path | Traversable:
    """The file of a recipe. A file wins over the name of a recipe that comes with Elmore, as with models."""
    with _named(name, kind):
        if Path(name).is_file():
            return Path(name)
        shipped = _shipped(kind) / f"{name}.toml"
        return shipped if name == Path(name).name and shipped.is_file() else Path(name)


def _find_base(base: str, kind: type, file: Path | Traversable) -> Path | Traversable:
    """The file of a base: in the folder of the recipe that names it, or as `_find` finds it."""
    if not isinstance(file, Path) or file.is_relative_to(str(_shipped(kind))):
        return _shipped(kind) / f"{base}.toml"
    with _named(base, kind):
        nearby = file.parent / base
        return nearby if nearby.is_file() else _find(base, kind)


@contextmanager
def _named(name: str, kind: type) -> Iterator[None]:
    """Raise NotFound with the names of recipes if a file cannot be read."""
    try:
        with reading(name):
            yield
    except ElmoreError as error:
        raise NotFound(f"{error}; recipes that come with Elmore: {', '.join(recipe_names(kind))}") from None


def _merged(kind: type[R], values: Mapping[str, Any], *, source: str, base: R | None = None) -> R:
    sections = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    if unknown := sorted(values.keys() - set(sections)):
        raise InputError(f"unknown section {join_names(unknown)}; this recipe has [{'], ['.join(sections)}]")
    _warn_former_names(kind, values, source)
    return read_fields(kind, values, base=base)


def _shipped(kind: type) -> Traversable:
    """The folder with the recipes of a kind that come with Elmore; a kind names it as `shipped_in`."""
    return resources.files("elmore") / "recipes" / str(getattr(kind, "shipped_in", ""))


def _read_toml(file: Path | Traversable, name: str, kind: type) -> dict[str, Any]:
    with _named(name, kind):
        content = file.read_bytes()
    with error_context(name):
        return parse_toml(content)
