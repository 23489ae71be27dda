"""JSON objects in a model's files."""

import json
from pathlib import Path
from typing import Any

from elmore.errors import FormatError, error_context
from elmore.formats.storage.container import Container


def read_json(container: Container, name: str) -> dict[str, Any]:
    """The object that a JSON file holds; an error that names the file where it holds none."""
    with error_context(name):
        try:
            values = json.loads(container.read(name).decode("utf-8-sig"))
        # UnicodeDecodeError and JSONDecodeError are both ValueErrors.
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not JSON: {str(error)[:100]}") from None
        if not isinstance(values, dict):
            raise FormatError(f"found {str(values)[:40]!r} where an object was expected")
        return values


def write_json(values: dict[str, Any], path: Path) -> None:
    """Write an object so that it reads back; as ASCII, because JSON may hold what UTF-8 cannot."""
    path.write_bytes(json.dumps(values, indent=2).encode("ascii") + b"\n")
