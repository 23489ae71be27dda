"""Standard output whose errors are named, and replacements for streams that the caller has closed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO, cast

from elmore.errors import ElmoreError


class OutputError(ElmoreError):
    """Standard output cannot be written."""


@contextmanager
def standard_streams() -> Iterator[None]:
    """Within the block, `sys.stdout` raises OutputError; a closed stream is replaced by the null device."""
    for name in ("stdout", "stderr"):
        # Closed by the caller, as by `>&-`. Python would print the messages of one stream to the other.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # open to the end
    with redirect_stdout(cast(TextIO, _StandardOutput(sys.stdout))):
        yield


class _StandardOutput:
    """A text stream with one change: the errors of `write` and `flush` name it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _errors_named():
            return self._stream.write(text)

    def flush(self) -> None:
        with _errors_named():
            self._stream.flush()


@contextmanager
def _errors_named() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        # Imported here, so that the program starts without it.
        from elmore.files.os_errors import cannot_be_written

        raise OutputError(str(cannot_be_written("standard output", error))) from error


def say(text: str) -> None:
    """Print a line to standard error. A closed or full standard error does not end the work."""
    try:
        print(text, file=sys.stderr)
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Send the unwritten rest of a stream nowhere, or Python would report an error when it ends."""
    with suppress(OSError):  # of a stream without a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
