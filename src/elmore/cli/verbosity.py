"""How much the program says: errors only, what matters, or everything. Results go to stdout, all else to stderr."""

import logging
import sys
import warnings
from dataclasses import dataclass

from elmore.cli.standard_streams import say


@dataclass(frozen=True)
class Verbosity:
    """What -q and -v ask for, given before the verb or after it."""

    quiet: bool = False
    verbose: bool = False

    def joined(self, *, quiet: bool, verbose: bool) -> "Verbosity":
        """With the flags of another place added."""
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
        """Whether to show a progress bar; None leaves it to the terminal."""
        return False if self.quiet else None

    def info(self, text: str) -> None:
        """A line for the user, unless quiet."""
        if not self.quiet:
            say(text)

    def debug(self, text: str) -> None:
        """A line for the user who asked for more."""
        if self.verbose and not self.quiet:
            say(text)
