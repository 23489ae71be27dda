"""Flat files that only grow at their end: the columns of a spool.

A row is a number, a byte, or an array of numbers of one shape; row i lies i times its size into the file.
"""

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 2**22


class Column:
    """One file of rows; nothing is touched before `open`, which cuts it to the rows that count.

    >>> import tempfile
    >>> column = Column(Path(tempfile.mkdtemp()) / "numbers", "<i8")
    >>> column.open(rows=0)
    >>> column.write(np.arange(5, dtype="<i8").tobytes())
    >>> column.flush()
    >>> column.span(1, 3).tolist()
    [1, 2]
    >>> column.close()
    """

    def __init__(self, path: Path, dtype: str | np.dtype[Any], *, row: tuple[int, ...] = ()) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self.row = row
        self.row_bytes = self.dtype.itemsize * prod(row)

    def holds(self, rows: int) -> bool:
        """Whether the file is there and has at least so many rows."""
        return self.path.is_file() and self.path.stat().st_size >= rows * self.row_bytes

    def open(self, rows: int) -> None:
        """Keep the first so many rows, to write after them; rows that the file does not have become zeros."""
        self._end = self.path.open("ab")
        self._end.truncate(rows * self.row_bytes)
        self._back = self.path.open("rb")

    def write(self, rows: bytes) -> None:
        """Put rows at the end."""
        self._end.write(rows)

    def flush(self) -> None:
        """Hand over to the system what was written, so that it can be read."""
        self._end.flush()

    def sync(self) -> None:
        """Have the system put on disk what was written."""
        self._end.flush()
        os.fsync(self._end.fileno())

    def span(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`, read-only."""
        self._back.seek(start * self.row_bytes)
        data = self._back.read((stop - start) * self.row_bytes)
        return np.frombuffer(data, self.dtype).reshape(stop - start, *self.row)

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        """The first so many rows, in pieces small enough to hold."""
        step = max(BLOCK_BYTES // self.row_bytes, 1)
        for start in range(0, rows, step):
            yield self.span(start, min(start + step, rows))

    def close(self) -> None:
        self._back.close()
        self._end.close()
