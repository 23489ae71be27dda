"""What the program prints: results to standard output, messages and errors to standard error, as -q and -v request."""

import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Any, TextIO, cast

from elmore.errors import ElmoreError


@dataclass(frozen=True)
class Verbosity:
    """How much the program prints: -q and -v, given before the command or after it."""

    quiet: bool = False
    verbose: bool = False

    def joined(self, *, quiet: bool, verbose: bool) -> "Verbosity":
        """With the flags from another position added."""
        return Verbosity(quiet=quiet or self.quiet, verbose=verbose or self.verbose)

    def configure(self) -> None:
        """Set Python's warnings and logging accordingly."""
        if self.quiet:
            warnings.simplefilter("ignore")
            logging.getLogger("elmore").setLevel(logging.ERROR)
        if self.verbose:
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    @property
    def show_progress(self) -> bool | None:
        """Whether to show a progress bar; None: if standard error is a terminal."""
        return False if self.quiet else None

    def info(self, text: str) -> None:
        """Print a line, unless quiet."""
        if not self.quiet:
            say(text)

    def debug(self, text: str) -> None:
        """Print a line if verbose."""
        if self.verbose and not self.quiet:
            say(text)


class OutputError(ElmoreError):
    """Standard output cannot be written."""


@contextmanager
def standard_streams() -> Iterator[None]:
    """Within the block, both streams encode any character, and `sys.stdout` raises OutputError if a write fails.

    A closed stream is replaced by the null device.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Closed by the caller, as by `>&-`. Python would print the messages of one stream to the other.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # open to the end
        elif isinstance(stream, io.TextIOWrapper):
            # UTF-8 in files and pipes. A terminal has its own encoding, and shows other characters as escapes.
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")
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
    """Send the unwritten rest of a stream to the null device. Otherwise Python reports an error at its end."""
    with suppress(OSError):  # of a stream without a file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
