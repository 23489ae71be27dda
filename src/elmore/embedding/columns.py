"""Flat files that grow at their end: numbers, and texts as one run of bytes with offsets.

A row is a number, a byte, or an array of numbers of one shape; row i begins i times its size after the column's start.
Text i is `data[offsets[i]:offsets[i + 1]]`. The bytes are UTF-8 that accepts lone surrogates, so that any string is
stored unchanged: with `/`, with NUL, empty, or not a character at all.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.errors import FormatError

BLOCK_BYTES = 2**22


class Column:
    """A file of rows after a head of `offset` bytes; `open` cuts it to the valid rows.

    >>> import tempfile
    >>> column = Column(Path(tempfile.mkdtemp()) / "numbers", "<i8")
    >>> column.open(rows=0)
    >>> column.write(np.arange(5))
    >>> column.read(1, 3).tolist(), column.rows
    ([1, 2], 5)
    >>> column.close()
    """

    def __init__(self, path: Path, dtype: str | np.dtype[Any], *, row: tuple[int, ...] = (), offset: int = 0) -> None:
        self.path = path
        self.dtype = np.dtype(dtype)
        self.row = row
        self.row_bytes = self.dtype.itemsize * prod(row)
        self.offset = offset
        self.rows = 0
        self._resources = ExitStack()

    def has_rows(self, rows: int) -> bool:
        """Whether the file exists and has at least this number of rows."""
        return self.path.is_file() and self.path.stat().st_size >= self._position(rows)

    def open(self, rows: int) -> None:
        """Delete all but the first rows, and append after them; missing rows become zeros."""
        self.path.touch()
        self._file = self._resources.enter_context(self.path.open("r+b"))
        self._file.truncate(self._position(rows))
        self._file.seek(0, os.SEEK_END)
        self._back = self._resources.enter_context(self.path.open("rb"))
        self.rows = rows

    def write(self, rows: NDArray[Any]) -> None:
        """Append rows, given as an array of any shape."""
        values = np.ascontiguousarray(rows, self.dtype).reshape(-1)
        self._file.write(values.view(np.uint8).data)
        self.rows += values.nbytes // self.row_bytes

    def sync(self) -> None:
        """Put all rows on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`, read-only."""
        self._file.flush()
        self._back.seek(self._position(start))
        data = self._back.read((stop - start) * self.row_bytes)
        return np.frombuffer(data, self.dtype).reshape(stop - start, *self.row)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return self.read(*rows.indices(self.rows)[:2])

    def blocks(self) -> Iterator[NDArray[Any]]:
        """All rows, in arrays of a few megabytes."""
        step = max(BLOCK_BYTES // self.row_bytes, 1)
        for start in range(0, self.rows, step):
            yield self.read(start, min(start + step, self.rows))

    def close(self) -> None:
        """Also a column that is not open."""
        self._resources.close()

    def _position(self, row: int) -> int:
        return self.offset + row * self.row_bytes


class Sliceable(Protocol):
    """An array, or an object that returns one when sliced: a memory map, a dataset in a file, a column."""

    def __getitem__(self, bounds: slice, /) -> NDArray[Any]: ...


def pack_strings(texts: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    r"""All texts as one run of bytes, and the size of each in bytes.

    >>> data, sizes = pack_strings(["né", "\udc80"])
    >>> data.tobytes(), sizes.tolist()
    (b'n\xc3\xa9\xed\xb2\x80', [3, 3])
    """
    joined = "".join(texts)
    data = joined.encode("utf-8", "surrogatepass")
    # A call for each text is needed only if some text is not ASCII.
    encoded = texts if len(data) == len(joined) else [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(data, np.uint8), np.fromiter(map(len, encoded), np.int64, len(texts))


def slice_strings(data: Sliceable, offsets: Sliceable, start: int, stop: int) -> list[str]:
    """Texts `start` to `stop`.

    >>> slice_strings(np.frombuffer(b"onetwothree", np.uint8), np.array([0, 3, 6, 11]), 1, 3)
    ['two', 'three']
    """
    if not 0 <= start <= stop:
        raise FormatError(f"there are no texts from {start} to {stop}")
    edges: list[int] = offsets[slice(start, stop + 1)].tolist()
    if len(edges) != stop - start + 1 or edges[0] < 0 or edges != sorted(edges):
        raise FormatError(f"the offsets of texts {start} to {stop} are damaged")
    first = edges[0]
    raw = data[slice(first, edges[-1])].tobytes()
    if len(raw) != edges[-1] - first:
        raise FormatError(f"texts {start} to {stop} are beyond the end")
    try:
        return [raw[a - first : b - first].decode("utf-8", "surrogatepass") for a, b in pairwise(edges)]
    except UnicodeDecodeError:
        raise FormatError(f"texts {start} to {stop} are damaged: not UTF-8") from None
