"""Everything that can go wrong for a user, as one family.

    ElmoreError
    ├── FormatError       a model file is wrong, cut short, or does not fit its partner  (a ValueError)
    │   └── CannotExpress the target format has no words for this model
    ├── InputError        the text, or an argument, is not what it should be             (a ValueError)
    ├── NotFound          no such model, file or download                                (a FileNotFoundError)
    ├── OutOfMemory       not even one sentence fits                                     (a MemoryError)
    └── MissingExtra      an optional library is not installed                           (an ImportError)

InputWarning is no error: the input is read, but looks like a mistake.

Each message says what is wrong, where, and what to do. Inner functions raise the short reason; `error_context`
adds the file or the place once, at the boundary the user called.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class ElmoreError(Exception):
    """Something a user can mend; its message says how."""

    # ImportError prints the message it was made with, without the place that `error_context` puts in front.
    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class FormatError(ElmoreError, ValueError):
    """A model file is wrong, cut short, or does not fit its partner."""


class CannotExpress(FormatError):
    """The target format has no words for this model."""


class InputError(ElmoreError, ValueError):
    """The text, or an argument, is not what it should be."""


class NotFound(ElmoreError, FileNotFoundError):
    """No such model, file or download."""


class OutOfMemory(ElmoreError, MemoryError):
    """Not even one sentence fits into memory."""


class MissingExtra(ElmoreError, ImportError):
    """An optional library is not installed."""

    def __init__(self, what: str, *, library: str = "", extra: str = "") -> None:
        # Made anew from its one argument, the message, when it crosses from one process to another.
        super().__init__(
            f"{what} requires {library}. Install it with: pip install 'elmore[{extra}]'" if library else what
        )


class InputWarning(UserWarning):
    """The input can be read, but looks like a mistake."""


@contextmanager
def error_context(where: object) -> Iterator[None]:
    """Put the place in front of any ElmoreError raised inside.

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
