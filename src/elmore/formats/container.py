"""Where a model's files lie: a folder, a zip or tar archive, or a few files named one by one.

Formats ask a container for names and bytes, so that any packaging of any format is read in place. Nothing is ever
unpacked to disk, so no name inside an archive can lead anywhere.
"""

import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

from elmore.errors import FormatError, NotFound


class Container(Protocol):
    """A set of named files."""

    where: str  # for messages

    def names(self) -> list[str]:
        """All files, by their name relative to the container, with forward slashes."""
        ...

    def read(self, name: str) -> bytes:
        """One file whole; an error that names it where it is missing or damaged."""
        ...

    def open(self, name: str) -> BinaryIO:
        """One file for reading and seeking."""
        ...

    def path(self, name: str) -> Path | None:
        """Where the file lies on disk, if it lies there as it is."""
        ...
