"""A line that is JSON."""

import json
from typing import Any

from elmore.errors import InputError


def parse_json_line(line: str) -> Any:
    """What a line of JSON says; where it is from, whoever read it adds to a complaint.

    >>> parse_json_line('{"label": yes}')
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: no JSON: Expecting value at column 11
    """
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        # Not as Python has it, whose own "line 1" would stand beside the number of the line in its file. A text that a
        # program gives may have several.
        place = f"column {error.colno}" if error.lineno == 1 else f"line {error.lineno}, column {error.colno}"
        raise InputError(f"no JSON: {error.msg} at {place}") from None
    except (ValueError, RecursionError):
        raise InputError("no JSON that can be read: it is nested too deeply, or a number is too long") from None
