"""How much the program says: errors only, what matters, or everything. Results go to stdout, all else to stderr."""

import logging
import sys
import warnings
from dataclasses import dataclass
from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", metavar="")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more, and show tracebacks.", metavar="")]


@dataclass(frozen=True)
class Speech:
    """The wish of the user, from the flags before or after the verb."""

    quiet: bool
    verbose: bool

    @classmethod
    def of(cls, context: typer.Context, *, quiet: bool, verbose: bool) -> "Speech":
        """Join a verb's flags with those given before the verb, and set warnings and logging by them."""
        before: Speech = context.obj or cls(quiet=False, verbose=False)
        speech = cls(quiet=quiet or before.quiet, verbose=verbose or before.verbose)
        if speech.quiet:
            warnings.simplefilter("ignore")
        if speech.verbose:
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        return speech

    @property
    def progress(self) -> bool | None:
        """Whether to show a progress bar; None leaves it to the terminal."""
        return False if self.quiet else None

    def say(self, text: str) -> None:
        """A line for the user, unless quiet."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def add(self, text: str) -> None:
        """A line for the user who asked for more."""
        if self.verbose and not self.quiet:
            print(text, file=sys.stderr)


def count(number: int, what: str) -> str:
    """A number with its noun.

    >>> count(1, "sentence"), count(1200, "word")
    ('1 sentence', '1,200 words')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
