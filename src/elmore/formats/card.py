"""The card of a model: the facts about it that are not in its arrays.

A model's maker states some of them in a TOML file, for `--card`:

name = "mine"
description = "Trained on the letters of one family."
licence = "CC BY 4.0"

[letters]                  # any other facts, in tables
years = [1790, 1840]
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from elmore.config import Normalization
from elmore.display import join_names
from elmore.errors import FormatError, InputError, NotFound, error_context
from elmore.fields import check_fields, checked_field, read_fields
from elmore.formats.storage.container import Container
from elmore.formats.storage.json_files import read_json
from elmore.text.style import TokenizerConfig


@dataclass(frozen=True, kw_only=True)
class MixSettings:
    """The options of one layer mix of an `Elmo`, without its learned weights."""

    normalize: Normalization | None = None
    train_weights: bool = True
    train_gamma: bool = True

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class ElmoSettings:
    """The options of a saved `Elmo`, without its biLM and its learned weights."""

    dropout: float = checked_field(0.5, at_least=0, at_most=1)
    boundaries: bool = False
    projection: int | None = checked_field(None, at_least=1)
    mixes: tuple[MixSettings, ...] = (MixSettings(),)

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Card:
    """The facts about a model that are not in its arrays."""

    name: str = ""
    description: str = ""
    licence: str = ""
    source: str = ""  # the path or address from which it was first read
    format: str = ""  # the format it had there
    text: TokenizerConfig = TokenizerConfig()
    start_state: Literal["zeros", "warm"] = "zeros"  # warm: the stored state; start_state_from says how it was made
    start_state_from: str = ""
    elmo: ElmoSettings | None = None  # of a saved `Elmo`
    extra: Mapping[str, Any] = field(default_factory=dict)  # facts from the source, unchanged

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values for JSON, without fields that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def read_card(container: Container, name: str) -> Card:
    """Read a card from its JSON file; FormatError if it has unknown fields or wrong values."""
    values = read_json(container, name)
    with error_context(name):
        return read_fields(Card, values, error=FormatError)


_MAKER_FIELDS = ("name", "description", "licence")
_ELSEWHERE = {
    "license": "the field is spelt licence",
    "training": "that is what the training itself wrote into the card",
    "text": "--tokenizer, --language, --lowercase and --escape say how the model wants its text",
    "language": "give it as --language",
    "tokenizer": "give it as --tokenizer",
}


def read_card_file(path: str | Path) -> dict[str, Any]:
    """Read a maker's TOML file; InputError if a card cannot hold its content."""
    try:
        stored = Path(path).read_bytes()
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}") from None
    with error_context(path):
        try:
            content = tomllib.loads(stored.decode())
            json.dumps(content, allow_nan=False)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"not TOML: {error}") from None
        except (TypeError, ValueError):
            raise InputError("dates, times, inf and nan must stand in quotes, for a card is JSON") from None
        if misplaced := sorted(content.keys() & _ELSEWHERE.keys()):
            raise InputError(f"{misplaced[0]} cannot be said here; {_ELSEWHERE[misplaced[0]]}")
        loose = [name for name, value in content.items() if name not in _MAKER_FIELDS and not _is_table(value)]
        if loose:
            raise InputError(
                f"unknown field {join_names(loose)}; known are {', '.join(_MAKER_FIELDS)}. What else there is to tell "
                "goes into tables: [mine]"
            )
        read_fields(Card, {name: content[name] for name in _MAKER_FIELDS if name in content})
    return content


def apply_card_file(card: Card, content: Mapping[str, Any]) -> Card:
    """The card with the content of a maker's file; tables become extra facts.

    >>> apply_card_file(Card(name="mine"), {"licence": "CC0", "letters": {"years": [1790, 1840]}}).extra
    {'letters': {'years': [1790, 1840]}}
    """
    fields = {name: content[name] for name in _MAKER_FIELDS if name in content}
    tables = {name: value for name, value in content.items() if name not in _MAKER_FIELDS}
    return replace(card, **fields, extra={**card.extra, **tables})


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and all(isinstance(item, dict) for item in value))
