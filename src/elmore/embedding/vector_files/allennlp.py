"""The HDF5 files of `allennlp elmo`, for programs that read them: a dataset for each line, and the lines as one JSON.

    0, 1, 2, ...         vectors, (words, dim) or (layers, words, dim)
    sentence_to_index    (1,) a JSON object from each sentence, its words joined by spaces, to its number as a string

The JSON contains only the last of equal sentences, and it is built in memory. Two variants: without the JSON
(`--forget-sentences`), and with the sentence itself as the dataset's name (`--use-sentence-keys`), where each `/` makes
a group. The layout in `hdf5.py` stores more and is faster.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.vector_files import EmbeddedSentences, VectorType
from elmore.embedding.vector_files.flat import BLOCK_BYTES, Column, FlatWriter, slice_strings
from elmore.errors import FormatError, InputError
from elmore.files.hdf5_output import DATA_OFFSET, Hdf5Output, append_hdf5, new_hdf5

if TYPE_CHECKING:
    import h5py

SENTENCE_TO_INDEX = "sentence_to_index"
SENTENCES_AT_ONCE = 1024

SentenceStorage = Literal["index", "forget", "keys"]


class Writer(FlatWriter):
    """Writes a file of this layout.

    `storage` is "index" for sentences in `sentence_to_index`, "keys" for sentences as the names of the datasets,
    "forget" for neither.
    """

    def __init__(self, path: Path, kind: VectorType, committed: Mapping[str, int], *, storage: SentenceStorage) -> None:
        super().__init__(path, kind, committed, offset=DATA_OFFSET)
        self._storage = storage

    def rows(self, batch: EmbeddedSentences) -> Iterator[NDArray[Any]]:
        """The vectors sentence by sentence, each as (layers, words, dim)."""
        if batch.vectors.ndim == 2:
            yield from super().rows(batch)
            return
        ends = np.cumsum([len(words) for words in batch.words])
        waiting: list[NDArray[Any]] = []
        size = 0
        for sentence in np.split(batch.vectors, ends[:-1], axis=1):
            waiting.append(sentence.reshape(-1))
            size += sentence.nbytes
            if size >= BLOCK_BYTES:
                yield np.concatenate(waiting)
                waiting, size = [], 0
        if waiting:
            yield np.concatenate(waiting)

    def finish(self, columns: Mapping[str, Column], _about: Mapping[str, Any], /) -> None:
        self.vectors.close()
        with append_hdf5(self.path) as output:
            lines = _Lines(output, self._storage)
            start = 0
            for number, words in _sentences(columns):
                shape = (*self.vectors.row[:-1], len(words), self.vectors.row[-1])
                with lines.dataset_name(number, " ".join(words)) as name:
                    output.describe(name, self.vectors.dtype, shape, DATA_OFFSET + start * self.vectors.row_bytes)
                start += len(words)
            lines.write_index()


def write_lines(
    lines: Iterable[tuple[int, str, NDArray[np.floating]]], path: Path, *, storage: SentenceStorage = "index"
) -> None:
    """Write numbered lines with their vectors to a new file."""
    with new_hdf5(path) as output:
        written = _Lines(output, storage)
        for number, line, vectors in lines:
            with written.dataset_name(number, line) as name:
                output.add(name, vectors)
        written.write_index()


class _Lines:
    """The lines of a file that is being written."""

    def __init__(self, output: Hdf5Output, storage: SentenceStorage) -> None:
        self._output, self._storage = output, storage
        self._indices: dict[str, str] = {}

    @contextmanager
    def dataset_name(self, number: int, line: str) -> Iterator[str]:
        """The name of a line's dataset, which the block adds."""
        try:
            yield line if self._storage == "keys" else str(number)
        except ValueError as error:
            raise InputError(
                f"sentence {number}, {line[:80]!r}, cannot be the name of a dataset ({error}); "
                "write the vectors without the sentences as keys"
            ) from None
        if self._storage == "index":
            self._indices[line] = str(number)

    def write_index(self) -> None:
        if self._storage == "index":
            self._output.add_text(SENTENCE_TO_INDEX, json.dumps(self._indices))


class AllenNlpReader:
    """An open file of `allennlp elmo`, or of a program that writes the same layout.

    Datasets with sentences as names are sorted by these names and numbered in this order.
    """

    def __init__(self, file: "h5py.File") -> None:
        self._file = file
        self.meta: dict[str, Any] = {}
        names = [name for name in file if name != SENTENCE_TO_INDEX]
        if all(map(_NUMBER.fullmatch, names)):
            self._lines: dict[str, str] | None = None
            self._names = sorted(names, key=int)
            self.numbers = np.array([int(name) for name in self._names], dtype=np.int64)
        else:
            self._names = _dataset_names(file)
            self._lines = {name: name for name in self._names}
            self.numbers = np.arange(len(self._names), dtype=np.int64)
        if self._names:
            self.vectors(0)

    def vectors(self, i: int) -> NDArray[np.floating]:
        return read_vectors(self._file, self._names[i])

    def tokens(self, i: int) -> list[str]:
        if self._lines is None:
            self._lines = _read_lines(self._file)
        line = self._lines.get(self._names[i])
        if line is None:
            why = ": of equal sentences this layout contains only the last" if self._lines else ""
            raise InputError(f"the words of sentence {self.numbers[i]} are not in the file{why}")
        count = self._file[self._names[i]].shape[-2]
        # Elmore joins words by one space, and a word may contain another kind; the original splits at any of them.
        for words in (line.split(" "), line.split()):
            if len(words) == count:
                return words
        raise FormatError(f"sentence {self.numbers[i]} has {count} vectors, and its line has another number of words")

    def labels(self) -> list[str | None]:
        return [None] * len(self.numbers)

    def close(self) -> None:
        self._file.close()


def read_vectors(file: "h5py.File", name: str) -> NDArray[np.floating]:
    """The vectors of one sentence, from the dataset of this name."""
    dataset = file.get(name)
    if getattr(dataset, "shape", None) is None:  # a group has none
        raise FormatError(f"there is no dataset {name!r}")
    if dataset.dtype.kind != "f" or dataset.ndim not in (2, 3):
        raise FormatError(
            f"{name!r} contains no vectors: it has the shape {dataset.shape} and the type {dataset.dtype}"
        )
    vectors: NDArray[np.floating] = dataset[...]
    return vectors


_NUMBER = re.compile("0|[1-9][0-9]{0,17}")  # as far as 64 bits go


def _sentences(columns: Mapping[str, Column]) -> Iterator[tuple[int, list[str]]]:
    """The number and the words of each sentence."""
    numbers, offsets = columns["numbers"], columns["offsets"]
    for first in range(0, numbers.rows, SENTENCES_AT_ONCE):
        some = numbers[first : first + SENTENCES_AT_ONCE]
        ends = offsets[first : first + len(some) + 1].tolist()
        words = slice_strings(columns["tokens"], columns["token_offsets"], ends[0], ends[-1])
        for number, (start, end) in zip(some.tolist(), pairwise(ends), strict=True):
            yield number, words[start - ends[0] : end - ends[0]]


def _read_lines(file: "h5py.File") -> dict[str, str]:
    """The line of each number, if the file contains it."""
    if SENTENCE_TO_INDEX not in file:
        return {}
    try:
        return {str(number): line for line, number in json.loads(file[SENTENCE_TO_INDEX][0]).items()}
    except (ValueError, TypeError, AttributeError):
        raise FormatError(f"{SENTENCE_TO_INDEX} is damaged") from None


def _dataset_names(file: "h5py.File") -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
    return names
