"""All exceptions of the package.

    ElmoreError
    ├── FormatError       a model file is damaged, or two files do not match              (a ValueError)
    │   └── CannotExpress the target format cannot store this model
    ├── InputError        a text, a file or an argument is invalid                        (a ValueError)
    ├── NotFound          a model, a file or a download does not exist                    (a FileNotFoundError)
    ├── OutOfMemory       a single sentence exceeds the memory                            (a MemoryError)
    └── MissingExtra      an optional library is not installed                            (an ImportError)

InputWarning is a warning: the input is used, but looks like a mistake.

Each message states what is wrong, where, and what to do. Inner functions raise the short reason. The public function
adds the file or the position, by `error_context`.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class ElmoreError(Exception):
    """An error that the user can fix. The message states how."""

    # ImportError prints its original message, without the context that `error_context` adds.
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FormatError(ElmoreError, ValueError):
    """A model file is damaged, or two files do not match."""


class CannotExpress(FormatError):
    """The target format has no words for this model."""


class InputError(ElmoreError, ValueError):
    """A text, a file or an argument is invalid."""


class NotFound(ElmoreError, FileNotFoundError):
    """A model, a file or a download does not exist."""


class OutOfMemory(ElmoreError, MemoryError):
    """A single sentence exceeds the memory."""


class MissingExtra(ElmoreError, ImportError):
    """An optional library is not installed."""

    def __init__(self, what: str, *, library: str = "", extra: str = "") -> None:
        # pickle passes only the complete message to another process, as `what`.
        super().__init__(
            f"{what} requires {library}. Install it with: pip install 'elmore[{extra}]'" if library else what
        )


class InputWarning(UserWarning):
    """The input is used, but looks like a mistake."""


@contextmanager
def error_context(where: object) -> Iterator[None]:
    """Put a file or a position in front of the message of each ElmoreError raised inside.

    >>> with error_context("weights.hdf5"):
    ...     raise FormatError("char_embed is missing")
    Traceback (most recent call last):
    ...
    elmore.errors.FormatError: weights.hdf5: char_embed is missing
    """
    try:
        yield
    except ElmoreError as error:
        error.args = (f"{where}: {error}", *error.args[1:])
        raise


@contextmanager
def requires_torch(what: str) -> Iterator[None]:
    """Raise MissingExtra, with the install command, if an import inside fails because torch is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingExtra(what, library="torch", extra="torch") from None
