"""Flat files of rows, and the arrays of HDF5 and NumPy files that are made of them.

    vectors         (words, dim) or (words, layers, dim)
    offsets         (n + 1,) sentence i has the rows offsets[i] to offsets[i + 1]
    numbers         (n,) the number of each sentence in the input
    tokens          all words as one run of UTF-8 bytes
    token_offsets   (words + 1,) word i has the bytes token_offsets[i] to token_offsets[i + 1]
    labels          all labels as one run, and their label_offsets (n + 1,), if there are labels
    meta            a JSON object: dim, layers, dtype, and the job that made the file

Strings are bytes with offsets, because a string in HDF5 ends at a NUL. The encoding is UTF-8 that accepts lone
surrogates, so any string is stored unchanged.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.vector_files import EmbeddedSentences, VectorType, parse_meta
from elmore.errors import FormatError

BLOCK_BYTES = 2**22
REQUIRED = {"vectors", "offsets", "numbers", "tokens", "token_offsets", "meta"}


class Column:
    """A file that grows by rows, after a head of `offset` bytes; `open` cuts it to the valid rows.

    A row is a number, a byte, or an array of numbers of one shape.

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
        self._reader = self._resources.enter_context(self.path.open("rb"))
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
        self._reader.seek(self._position(start))
        data = self._reader.read((stop - start) * self.row_bytes)
        return np.frombuffer(data, self.dtype).reshape(stop - start, *self.row)

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        return self.read(*rows.indices(self.rows)[:2])

    def blocks(self) -> Iterator[NDArray[Any]]:
        """All rows, in arrays of a few megabytes."""
        step = max(BLOCK_BYTES // self.row_bytes, 1)
        for start in range(0, self.rows, step):
            yield self.read(start, min(start + step, self.rows))

    def close(self) -> None:
        """Close the file, if it is open."""
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
    """Texts `start` to `stop`: text i is `data[offsets[i]:offsets[i + 1]]`.

    >>> slice_strings(np.frombuffer(b"onetwothree", np.uint8), np.array([0, 3, 6, 11]), 1, 3)
    ['two', 'three']
    """
    if not 0 <= start <= stop:
        raise FormatError(f"texts {start} to {stop} are not in the file")
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


class FlatWriter:
    """Appends the vectors of all words to a file, after a head of `offset` bytes. A subclass writes everything else."""

    def __init__(self, path: Path, kind: VectorType, committed: Mapping[str, int], *, offset: int) -> None:
        self.path = path
        self.sentences = committed.get("sentences", 0)
        self.vectors = Column(path, kind.stored_dtype, row=kind.row, offset=offset)
        words = committed.get("words", 0)
        if words and not self.vectors.has_rows(words):
            raise FormatError("the file of vectors is incomplete")
        self.vectors.open(words)

    def append(self, batch: EmbeddedSentences) -> None:
        for rows in self.rows(batch):
            self.write(rows)
        self.sentences += len(batch.numbers)

    def rows(self, batch: EmbeddedSentences) -> Iterator[NDArray[Any]]:
        """The vectors word by word, all layers of a word together, in arrays that fit into the processor's cache."""
        rows = np.moveaxis(batch.vectors, -2, 0)
        step = max(BLOCK_BYTES * len(rows) // max(rows.nbytes, 1), 1)
        for start in range(0, len(rows), step):
            yield np.ascontiguousarray(rows[start : start + step], self.vectors.dtype)

    def write(self, rows: NDArray[Any]) -> None:
        """Append rows of the stored dtype."""
        self.vectors.write(rows)

    def sync(self) -> dict[str, int]:
        self.vectors.sync()
        return {"sentences": self.sentences, "words": self.vectors.rows}

    def close(self) -> None:
        self.vectors.close()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of all vectors."""
        return (self.vectors.rows, *self.vectors.row)


def columns_to_store(columns: Mapping[str, Column]) -> Iterator[tuple[str, Column]]:
    """The columns that a file contains: labels only if there are any."""
    for name, column in columns.items():
        if columns["labels"].rows or not name.startswith("label"):
            yield name, column


class FlatReader:
    """An open file with these arrays, which are memory maps or datasets."""

    def __init__(self, arrays: Mapping[str, Any], *, close: Callable[[], None]) -> None:
        if missing := REQUIRED - arrays.keys():
            raise FormatError(f"not written by elmore: it lacks {', '.join(sorted(missing))}")
        self.meta = parse_meta(arrays["meta"][()].tobytes())
        dim, layers = self.meta["dim"], self.meta["layers"]
        row = (dim,) if layers is None else (layers, dim)
        vectors = arrays["vectors"]
        if vectors.shape[1:] != row or vectors.dtype != self.meta["dtype"]:
            raise FormatError(
                f"its vectors are {vectors.dtype} of shape {vectors.shape}, which differs from its description"
            )
        self.numbers: NDArray[np.int64] = np.array(arrays["numbers"])
        self._offsets = np.array(arrays["offsets"])
        self._arrays = arrays
        self._close = close
        fits = len(self._offsets) == len(self.numbers) + 1 and self._offsets[-1] == len(vectors)
        if not fits or self._offsets[0] != 0 or (np.diff(self._offsets) < 0).any():
            raise FormatError("its offsets are damaged")

    def vectors(self, i: int) -> NDArray[np.floating]:
        rows = self._arrays["vectors"][self._offsets[i] : self._offsets[i + 1]]
        return np.array(np.moveaxis(rows, 0, -2), order="C")

    def tokens(self, i: int) -> list[str]:
        start, stop = int(self._offsets[i]), int(self._offsets[i + 1])
        return slice_strings(self._arrays["tokens"], self._arrays["token_offsets"], start, stop)

    def labels(self) -> list[str | None]:
        if "labels" not in self._arrays:
            return [None] * len(self.numbers)
        labels = slice_strings(self._arrays["labels"], self._arrays["label_offsets"], 0, len(self.numbers))
        return [label or None for label in labels]

    def close(self) -> None:
        self._arrays = {}
        self._close()


def map_array(path: str | os.PathLike[str], dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> NDArray[Any]:
    """An array in a file, read when it is used."""
    if 0 in shape:  # an empty array cannot be mapped
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, mode="r", offset=offset, shape=shape)
