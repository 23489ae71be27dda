"""How a model is trained: plain values, from a TOML file and the command line, resolved once and saved with the run.

A recipe has two parts that stay apart: `[model]`, the shape, and `[training]`, all the rest. A recipe file names only
what differs from the defaults; `--training.learning_rate 0.001` on the command line overrides both. TOML has no word
for nothing, so a model without clips or characters says so with `false`: `cell_clip = false`.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self

from elmore.config import MEDIUM, ORIGINAL, SMALL, CharacterConfig, ModelConfig
from elmore.errors import InputError, NotFound, error_context, shortened

TINY = replace(
    SMALL,
    vector_dim=32,
    cell_dim=128,
    characters=CharacterConfig(embedding_dim=16, filters=((1, 16), (2, 32), (3, 64), (4, 64)), n_highways=1),
)
SIZES: Mapping[str, ModelConfig] = {"tiny": TINY, "small": SMALL, "medium": MEDIUM, "original": ORIGINAL}

LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True, kw_only=True)
class Training:
    """Everything about a training but the model's shape and its text."""

    epochs: float = 10.0
    updates: int = 0  # if given, instead of epochs
    frozen_updates: int = 0  # before these: updates of the softmax alone, for fine-tuning
    rows: int = 128  # read side by side, by all processes together
    window: int = 20  # words that a row reads in one update
    negatives: int = 8192  # classes drawn for the sampled softmax; 0 means the full one
    dropout: float = 0.1

    optimizer: Literal["adamw", "adagrad"] = "adamw"
    learning_rate: float = 2e-3
    warmup: int = 500  # updates over which the rate rises
    final_rate: float = 0.02  # the share of the rate that is left at the end of the cosine; 1 keeps it constant
    weight_decay: float = 0.0  # of AdamW; softmax and word table have none
    clip: float = 10.0  # the largest norm of all gradients together, of the loss of a row's whole window
    accumulate: int = 1  # windows whose gradients make one update

    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = 1

    def __post_init__(self) -> None:
        for name, least in (
            ("rows", 1),
            ("window", 1),
            ("accumulate", 1),
            ("updates", 0),
            ("frozen_updates", 0),
            ("negatives", 0),
            ("warmup", 0),
        ):
            if getattr(self, name) < least:
                raise InputError(f"training.{name} is {getattr(self, name)}; it must be at least {least}")
        for name in ("learning_rate", "clip", "epochs"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InputError(f"training.{name} is {getattr(self, name)}; it must be above 0, and finite")
        for name, most in (("dropout", 0.95), ("final_rate", 1.0), ("weight_decay", 1.0), ("seed", LARGEST_SEED)):
            if not 0 <= getattr(self, name) <= most:
                raise InputError(f"training.{name} is {getattr(self, name)}; it must be from 0 to {most}")
        for name, choices in (("optimizer", ("adamw", "adagrad")), ("precision", ("float32", "bfloat16"))):
            if getattr(self, name) not in choices:
                raise InputError(f"training.{name} is {getattr(self, name)!r}; it must be {' or '.join(choices)}")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A model's shape and how to train it."""

    model: ModelConfig = SMALL
    training: Training = Training()

    def to_dict(self) -> dict[str, Any]:
        return {"model": self.model.to_dict(), "training": asdict(self.training)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], *, base: Self | None = None) -> Self:
        """Read plain values, filling up what is left out from `base`; unknown fields are errors that name them."""
        _check_table("a recipe", values)
        base = base or cls()
        if unknown := sorted(values.keys() - {"size", "model", "training"}):
            raise InputError(f"unknown part {shortened(unknown)}; a recipe has size, [model] and [training]")
        model = base.model
        if "size" in values:
            if not isinstance(values["size"], str) or values["size"] not in SIZES:
                raise InputError(f"size is {values['size']!r}; it must be one of {', '.join(SIZES)}")
            model = SIZES[values["size"]]
        return cls(
            model=_merged_model(model, values.get("model", {})),
            training=_merged_training(base.training, values.get("training", {})),
        )


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe: a TOML file, or the name of one that comes with Elmore."""
    shipped = resources.files("elmore") / "recipes" / f"{path}.toml"
    try:
        content = shipped.read_bytes() if "/" not in str(path) and shipped.is_file() else Path(path).read_bytes()
    except OSError as error:
        raise NotFound(
            f"{path}: {error.strerror}; recipes that come with Elmore: {', '.join(recipe_names())}"
        ) from None
    with error_context(path):
        try:
            return Recipe.from_dict(tomllib.loads(content.decode()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"not TOML: {error}") from None


def recipe_names() -> list[str]:
    """The recipes that come with Elmore.

    >>> recipe_names()
    ['elmore-en', 'fine-tuning', 'medium', 'original', 'small', 'tiny']
    """
    folder = resources.files("elmore") / "recipes"
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


def overridden(recipe: Recipe, overrides: Mapping[str, str]) -> Recipe:
    """A recipe with single fields changed, as the command line names them.

    >>> overridden(Recipe(), {"training.rows": "64", "model.cell_dim": "512"}).training.rows
    64
    """
    values: dict[str, Any] = {}
    for name, text in overrides.items():
        place = values
        *parts, field = name.split(".")
        for part in parts:
            place = place.setdefault(part, {})
            _check_table(part, place)
        place[field] = _value(text)
    return Recipe.from_dict(values, base=recipe)


def _value(text: str) -> Any:
    """A word of the command line as TOML has it; what is not TOML is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


MAY_BE_ABSENT = ("characters", "cell_clip", "projection_clip")


def _merged_model(model: ModelConfig, changes: Any) -> ModelConfig:
    _check_table("model", changes)
    values = model.to_dict()
    for name, change in changes.items():
        if name == "characters" and isinstance(change, dict) and values["characters"]:
            values["characters"] |= change
        else:
            values[name] = None if change is False and name in MAY_BE_ABSENT else change
    with error_context("model"):
        return ModelConfig.from_dict(values)


KIND_NAMES: Mapping[type, str] = {int: "a whole number", float: "a number", str: "a string"}


def _merged_training(training: Training, changes: Any) -> Training:
    _check_table("training", changes)
    kinds = {field.name: type(getattr(training, field.name)) for field in fields(Training)}
    if unknown := sorted(changes.keys() - kinds.keys()):
        raise InputError(f"unknown field training.{shortened(unknown)}; known are {', '.join(kinds)}")
    for name, change in changes.items():
        fits = isinstance(change, int | float) if kinds[name] is float else isinstance(change, kinds[name])
        if isinstance(change, bool) or not fits:
            raise InputError(f"training.{name} is {change!r}; it must be {KIND_NAMES[kinds[name]]}")
        if isinstance(change, int) and abs(change) >= 2**63:
            raise InputError(f"training.{name} is too large a number")
    # Who asks for epochs means them, even where the recipe before counted updates.
    counted = {"updates": 0} if "epochs" in changes else {}
    return replace(training, **counted | {name: kinds[name](change) for name, change in changes.items()})


def _check_table(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise InputError(f"{name} is {value!r}; it must be a table of fields")
