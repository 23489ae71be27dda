"""The card of a model: the facts about it that are not in its arrays.

The publisher of a model states some of them in a TOML file, for `--card`:

    name = "mine"
    description = "Trained on the letters of one family."
    license = "CC BY 4.0"

    [letters]                  # any other facts, in tables
    years = [1790, 1840]
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from elmore.config import Normalization
from elmore.display import join_names
from elmore.errors import FormatError, InputError, NotFound, error_context
from elmore.fields import check_fields, checked_field, read_fields
from elmore.files.json_files import parse_toml
from elmore.files.os_errors import reading
from elmore.formats.storage.container import Container, read_json
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
class ModelCard:
    """The facts about a model that are not in its arrays."""

    name: str = ""
    description: str = ""
    license: str = checked_field("", former_name="licence")
    source: str = ""  # the path or address from which it was first read
    format: str = ""  # its format at the source
    text: TokenizerConfig = TokenizerConfig()
    start_state: Literal["zeros", "warm"] = "zeros"  # warm: the stored state
    start_state_source: str = checked_field("", former_name="start_state_from")  # the text of a warm state
    elmo: ElmoSettings | None = None  # of a saved `Elmo`
    extra: Mapping[str, Any] = field(default_factory=dict)  # facts from the source, unchanged

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values for JSON, without fields that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def read_card(container: Container, name: str) -> ModelCard:
    """Read a card from its JSON file; FormatError if it has unknown fields or wrong values."""
    values = read_json(container, name)
    with error_context(name):
        return read_fields(ModelCard, values, error=FormatError)


_PUBLISHER_FIELDS = ("name", "description", "license")
_FIELDS_ELSEWHERE = {
    "training": "elmore pretrain writes it into the card",
    "text": "use --tokenizer, --language, --lowercase and --escape",
    "language": "use --language",
    "tokenizer": "use --tokenizer",
}


def read_card_file(path: str | Path) -> dict[str, Any]:
    """Read a publisher's TOML file; InputError if a card cannot contain it."""
    with reading(path, error=NotFound):
        stored = Path(path).read_bytes()
    with error_context(path):
        content = parse_toml(stored)
        try:
            json.dumps(content, allow_nan=False)
        except (TypeError, ValueError):
            raise InputError("put dates, times, inf and nan in quotes: a card is JSON") from None
        if misplaced := sorted(content.keys() & _FIELDS_ELSEWHERE.keys()):
            raise InputError(f"{misplaced[0]} is not a field of a card file; {_FIELDS_ELSEWHERE[misplaced[0]]}")
        if "licence" in content and "license" not in content:
            content["license"] = content.pop("licence")  # the former name
        facts = {name: content[name] for name in _PUBLISHER_FIELDS if name in content}
        if unknown := [name for name in content.keys() - facts.keys() if not _is_table(content[name])]:
            raise InputError(
                f"unknown field {join_names(sorted(unknown))}; the fields are {', '.join(_PUBLISHER_FIELDS)}. "
                "Put other facts into tables: [mine]"
            )
        read_fields(ModelCard, facts)
    return content


def apply_card_file(card: ModelCard, content: Mapping[str, Any]) -> ModelCard:
    """The card with the content of a publisher's file; tables become extra facts.

    >>> apply_card_file(ModelCard(name="mine"), {"license": "CC0", "letters": {"years": [1790, 1840]}}).extra
    {'letters': {'years': [1790, 1840]}}
    """
    fields = {name: content[name] for name in _PUBLISHER_FIELDS if name in content}
    tables = {name: value for name, value in content.items() if name not in _PUBLISHER_FIELDS}
    return replace(card, **fields, extra={**card.extra, **tables})


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and all(isinstance(item, dict) for item in value))
