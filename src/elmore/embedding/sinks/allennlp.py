"""The HDF5 files of `allennlp elmo`, for programs that read them: a dataset for each line, and the lines as one JSON.

    0, 1, 2, ...         vectors, (words, dim) or (layers, words, dim)
    sentence_to_index    (1,) a JSON object from each sentence, its words joined by blanks, to its number as a string

Of equal sentences the JSON knows only the last, and it is made in memory as a whole. Two variants: without the JSON
(`--forget-sentences`), and with the sentence itself as the dataset's name (`--use-sentence-keys`), where each `/` makes
a group. Where nothing asks for this layout, that of `hdf5.py` keeps more.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from elmore.embedding.spool import Spool
from elmore.errors import FormatError, InputError

SENTENCE_TO_INDEX = "sentence_to_index"

Sentences = Literal["index", "forget", "keys"]


def write(spool: Spool, path: Path, *, sentences: Sentences = "index") -> None:
    """Write all sentences of a spool to a file, whole or not at all.

    `sentences` says what becomes of them: kept in `sentence_to_index`, forgotten, or made the names of the datasets.
    """
    indices: dict[str, str] = {}
    with spool.finishing(path) as unfinished, h5py.File(unfinished, "w") as file:
        for number, words, _, vectors in spool:
            line = " ".join(words)
            if sentences == "keys":
                _create_named(file, line, vectors, number=number)
                continue
            file.create_dataset(str(number), data=vectors)
            if sentences == "index":
                indices[line] = str(number)
        if sentences == "index":
            file.create_dataset(SENTENCE_TO_INDEX, (1,), dtype=h5py.string_dtype())[0] = json.dumps(indices)


class AllenNlpFile:
    """A file of `allennlp elmo`, or of anything that writes like it, open for reading.

    Where datasets have sentences for names, they come in the order of their names, and are numbered so.
    """

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self.meta: dict[str, Any] = {}
        names = [name for name in file if name != SENTENCE_TO_INDEX]
        self._named_by_number = all(name.isascii() and name.isdecimal() for name in names)
        if self._named_by_number:
            self.numbers = np.array(sorted(map(int, names)), dtype=np.int64)
            self._names: list[str] | None = None
        else:
            self._names = _dataset_names(file)
            self.numbers = np.arange(len(self._names), dtype=np.int64)
        if len(self.numbers):
            self.vectors(0)

    def vectors(self, i: int) -> NDArray[np.floating]:
        return read_vectors(self._file, self._name(i))

    def words(self, i: int) -> list[str]:
        if self._names is not None:
            return self._names[i].split(" ") if self._names[i] else []
        line = self._lines.get(self._name(i))
        if line is None:
            raise InputError(
                f"the words of sentence {self.numbers[i]} are not in the file"
                + (": of equal sentences this layout keeps only the last" if self._lines else "")
            )
        return line.split(" ") if line else []

    def labels(self) -> list[str | None]:
        return [None] * len(self.numbers)

    def close(self) -> None:
        self._file.close()

    def _name(self, i: int) -> str:
        return str(self.numbers[i]) if self._names is None else self._names[i]

    @cached_property
    def _lines(self) -> dict[str, str]:
        """The sentence of each number, as far as the file knows it."""
        if SENTENCE_TO_INDEX not in self._file:
            return {}
        try:
            sentence_to_index = json.loads(self._file[SENTENCE_TO_INDEX][0])
            return {str(number): line for line, number in sentence_to_index.items()}
        except (ValueError, TypeError, AttributeError):
            raise FormatError(f"{SENTENCE_TO_INDEX} is damaged") from None


def read_vectors(file: h5py.File, name: str) -> NDArray[np.floating]:
    """One dataset of vectors, checked to be one."""
    if not isinstance(dataset := file.get(name), h5py.Dataset):
        raise FormatError(f"there is no dataset {name!r}")
    if dataset.dtype.kind != "f" or dataset.ndim not in (2, 3):
        raise FormatError(f"{name!r} holds no vectors: it has the shape {dataset.shape} and the type {dataset.dtype}")
    vectors: NDArray[np.floating] = dataset[...]
    return vectors


def _create_named(file: h5py.File, line: str, vectors: NDArray[np.floating], *, number: int) -> None:
    try:
        file.create_dataset(line, data=vectors)
    except (ValueError, OSError, RuntimeError, TypeError) as error:
        why = "it stands there twice" if line in file else "HDF5 cannot have a dataset of that name"
        raise InputError(
            f"sentence {number}, {line[:80]!r}, cannot be a key: {why}; write without sentence keys"
        ) from error


def _dataset_names(file: h5py.File) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return names
