"""The HDF5 files of `allennlp elmo`, for programs that read them: a dataset for each line, and the lines as one JSON.

    0, 1, 2, ...         vectors, (words, dim) or (layers, words, dim)
    sentence_to_index    (1,) a JSON object from each sentence, its words joined by blanks, to its number as a string

Of equal sentences the JSON knows only the last, and it is made in memory as a whole. Two variants: without the JSON
(`--forget-sentences`), and with the sentence itself as the dataset's name (`--use-sentence-keys`), where each `/` makes
a group. Where nothing asks for this layout, that of `hdf5.py` keeps more.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from elmore.embedding.spool import Spool
from elmore.errors import FormatError, InputError
from elmore.hdf5_output import Hdf5Output, new_hdf5

SENTENCE_TO_INDEX = "sentence_to_index"

SentenceStorage = Literal["index", "forget", "keys"]


def write(spool: Spool, path: Path, *, sentences: SentenceStorage = "index") -> None:
    """Write all sentences of a spool to a file, whole or not at all.

    `sentences` says what becomes of them: kept in `sentence_to_index`, forgotten, or made the names of the datasets.
    """
    with spool.finishing(path) as unfinished:
        lines = ((number, " ".join(words), vectors) for number, words, _, vectors, _ in spool)
        write_lines(lines, unfinished, sentences=sentences)


def write_lines(
    lines: Iterable[tuple[int, str, NDArray[np.floating]]], path: Path, *, sentences: SentenceStorage = "index"
) -> None:
    """Write numbered lines with their vectors to a new file."""
    indices: dict[str, str] = {}
    with new_hdf5(path) as output:
        for number, line, vectors in lines:
            if sentences == "keys":
                _add_named(output, line, vectors, number=number)
                continue
            output.add_numbered(number, vectors)
            if sentences == "index":
                indices[line] = str(number)
        if sentences == "index":
            output.file.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=h5py.string_dtype())[0] = json.dumps(indices)


class AllenNlpFile:
    """A file of `allennlp elmo`, or of anything that writes like it, open for reading.

    Where datasets have sentences for names, they come in the order of their names, and are numbered so.
    """

    def __init__(self, file: h5py.File) -> None:
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

    def words(self, i: int) -> list[str]:
        if self._lines is None:
            self._lines = _read_lines(self._file)
        line = self._lines.get(self._names[i])
        if line is None:
            why = ": of equal sentences this layout keeps only the last" if self._lines else ""
            raise InputError(f"the words of sentence {self.numbers[i]} are not in the file{why}")
        count = self._file[self._names[i]].shape[-2]
        # Elmore puts one blank between words, which may have other blanks inside; the original cuts at any of them.
        for words in (line.split(" "), line.split()):
            if len(words) == count:
                return words
        raise FormatError(f"sentence {self.numbers[i]} has {count} vectors, and its line not as many words")

    def labels(self) -> list[str | None]:
        return [None] * len(self.numbers)

    def close(self) -> None:
        self._file.close()


def read_vectors(file: h5py.File, name: str) -> NDArray[np.floating]:
    """One dataset of vectors, checked to be one."""
    if not isinstance(dataset := file.get(name), h5py.Dataset):
        raise FormatError(f"there is no dataset {name!r}")
    if dataset.dtype.kind != "f" or dataset.ndim not in (2, 3):
        raise FormatError(f"{name!r} holds no vectors: it has the shape {dataset.shape} and the type {dataset.dtype}")
    vectors: NDArray[np.floating] = dataset[...]
    return vectors


def _add_named(output: Hdf5Output, line: str, vectors: NDArray[np.floating], *, number: int) -> None:
    try:
        if "\0" in line:  # where HDF5 would cut the name off
            raise ValueError("the name holds a NUL")
        output.add(line, vectors)
    except (ValueError, TypeError) as error:
        raise InputError(
            f"sentence {number}, {line[:80]!r}, cannot be the name of a dataset ({error}); "
            "write the vectors without the sentences as keys"
        ) from None


_NUMBER = re.compile("0|[1-9][0-9]{0,17}")  # as far as 64 bits go


def _read_lines(file: h5py.File) -> dict[str, str]:
    """The sentence of each number, as far as the file knows it."""
    if SENTENCE_TO_INDEX not in file:
        return {}
    try:
        return {str(number): line for line, number in json.loads(file[SENTENCE_TO_INDEX][0]).items()}
    except (ValueError, TypeError, AttributeError):
        raise FormatError(f"{SENTENCE_TO_INDEX} is damaged") from None


def _dataset_names(file: h5py.File) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return names
