"""JSON and TOML files: parsed into dictionaries, with the name and version of their format checked."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from elmore.errors import FormatError, InputError


def parse_json(content: bytes, *, remedy: str = "") -> dict[str, Any]:
    """Parse a JSON object in UTF-8, with or without a byte order mark; FormatError if the content is anything else.

    `remedy` ends the message.

    >>> parse_json(b'{"layers": 2}')
    {'layers': 2}
    """
    advice = f"; {remedy}" if remedy else ""
    try:
        values = json.loads(content.decode("utf-8-sig"))
    # UnicodeDecodeError and JSONDecodeError are both ValueErrors.
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {str(error)[:100]}{advice}") from None
    if not isinstance(values, dict):
        raise FormatError(f"found {str(values)[:40]!r} where an object was expected{advice}")
    return values


def check_format(values: Mapping[str, Any], name: str, *, versions: Collection[int], remedy: str) -> None:
    """Raise FormatError unless the fields `format` and `version` are this name and one of these versions.

    >>> check_format({"format": "corpus", "version": 2}, "corpus", versions=[1], remedy="prepare it again")
    Traceback (most recent call last):
    ...
    elmore.errors.FormatError: its version is 2, and this Elmore reads 1; prepare it again
    """
    if values.get("format") != name:
        raise FormatError(f"its format is {str(values.get('format'))[:40]!r}, not {name!r}")
    version = values.get("version")
    if type(version) is not int or version not in versions:
        raise FormatError(
            f"its version is {str(version)[:40]}, and this Elmore reads {' and '.join(map(str, versions))}; {remedy}"
        )


def write_json(values: Mapping[str, Any], path: Path) -> None:
    """Write an object as ASCII, because JSON may contain characters that UTF-8 lacks."""
    path.write_bytes(json.dumps(values, indent=2).encode("ascii") + b"\n")


def parse_toml(content: bytes) -> dict[str, Any]:
    """Parse TOML in UTF-8, with or without a byte order mark; InputError if the content is anything else."""
    # Imported here: most commands read no TOML.
    import tomllib

    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # also for numbers and nestings that Python does not read
        raise InputError(f"not TOML: {error}") from None
