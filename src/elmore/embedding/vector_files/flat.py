"""The arrays of HDF5 and NumPy files: one with the vectors of all words, and others that divide it into sentences.

    vectors         (words, dim) or (words, layers, dim)
    offsets         (n + 1,) sentence i has the rows offsets[i] to offsets[i + 1]
    numbers         (n,) the number of each sentence in the input
    tokens          all words as one run of UTF-8 bytes
    token_offsets   (words + 1,) word i has the bytes token_offsets[i] to token_offsets[i + 1]
    labels          all labels as one run, and their label_offsets (n + 1,), if there are labels
    meta            a JSON object: dim, layers, dtype, and the job that made the file

Words are bytes with offsets, because a string in HDF5 ends at a NUL.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.columns import BLOCK_BYTES, Column, slice_strings
from elmore.embedding.vector_files import EmbeddedSentences, VectorType, parse_meta
from elmore.errors import FormatError

REQUIRED = {"vectors", "offsets", "numbers", "tokens", "token_offsets", "meta"}


class FlatWriter:
    """Appends the vectors of all words to a file, from an offset on. A subclass writes the rest of the file."""

    def __init__(self, path: Path, kind: VectorType, committed: Mapping[str, int], *, offset: int) -> None:
        self.path = path
        self.sentences = committed.get("sentences", 0)
        self.vectors = Column(path, kind.stored_dtype, row=kind.row, offset=offset)
        words = committed.get("words", 0)
        if words and not self.vectors.has_rows(words):
            raise FormatError("the file of vectors is cut short")
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
            raise FormatError(f"its vectors are {vectors.dtype} of {vectors.shape}, and not as it describes them")
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

    def words(self, i: int) -> list[str]:
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
