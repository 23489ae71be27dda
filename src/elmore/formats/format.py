"""What a format is: a name, how its files are known, and the way to and from a checkpoint."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from elmore.formats.checkpoint import Checkpoint
from elmore.formats.storage.container import Container


class Format(NamedTuple):
    """One way to keep a model in files; the table of all stands in `elmore.formats.FORMATS`."""

    name: str
    detect: Callable[[Container], bool]  # by the names of the files, or a glance into a small one; never an error
    read: Callable[[Container], Checkpoint]
    write: Callable[[Checkpoint, Path], None] | None = None  # into a folder; None: this format is only read
    files: str = ""  # the files it is known by, for messages, as "options.json and weights.hdf5"
