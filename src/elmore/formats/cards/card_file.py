"""What its maker says of a model: a TOML file whose fields go into the model's card.

name = "mine"
description = "Trained on the letters of one family."
licence = "CC BY 4.0"

[letters]                  # whatever else there is to tell
years = [1790, 1840]
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmore.errors import InputError, NotFound, error_context, shortened
from elmore.fields import read_fields
from elmore.formats.cards.card import Card

_FIELDS = ("name", "description", "licence")
_ELSEWHERE = {
    "license": "the field is spelt licence",
    "training": "that is what the training itself wrote into the card",
    "text": "--tokenizer, --language, --lowercase and --escape say how the model wants its text",
    "language": "give it as --language",
    "tokenizer": "give it as --tokenizer",
}


def read_card_file(path: str | Path) -> dict[str, Any]:
    """Read the file, and check that a card can hold it."""
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
        loose = [name for name, value in content.items() if name not in _FIELDS and not _is_table(value)]
        if loose:
            raise InputError(
                f"unknown field {shortened(loose)}; known are {', '.join(_FIELDS)}. What else there is to tell "
                "goes into tables: [mine]"
            )
        read_fields(Card, {name: content[name] for name in _FIELDS if name in content})
    return content


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and all(isinstance(one, dict) for one in value))


def apply_card_file(card: Card, content: Mapping[str, Any]) -> Card:
    """The card with what the file says; what it has no field for stands among its extra facts.

    >>> apply_card_file(Card(name="mine"), {"licence": "CC0", "letters": {"years": [1790, 1840]}}).extra
    {'letters': {'years': [1790, 1840]}}
    """
    given = {name: content[name] for name in _FIELDS if name in content}
    further = {name: value for name, value in content.items() if name not in _FIELDS}
    return replace(card, **given, extra={**card.extra, **further})
