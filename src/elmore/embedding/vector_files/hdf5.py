"""HDF5: the arrays of `flat`, a dataset for each.

Files of earlier versions have a dataset for each sentence instead, named by its number in the input, and the other
arrays in a group `sentences`. They are read, and so are the files of `allennlp elmo`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.vector_files import VectorReader, VectorType, meta_json, parse_meta
from elmore.embedding.vector_files.allennlp import AllenNlpReader, read_vectors
from elmore.embedding.vector_files.flat import (
    Column,
    FlatReader,
    FlatWriter,
    columns_to_store,
    map_array,
    slice_strings,
)
from elmore.errors import FormatError
from elmore.files.hdf5_output import DATA_OFFSET, append_hdf5

if TYPE_CHECKING:
    import h5py

_OLD_GROUP = "sentences"


class Writer(FlatWriter):
    """Writes a file of this layout."""

    def __init__(self, path: Path, kind: VectorType, committed: Mapping[str, int]) -> None:
        super().__init__(path, kind, committed, offset=DATA_OFFSET)

    def finish(self, columns: Mapping[str, Column], about: Mapping[str, Any], /) -> None:
        self.vectors.close()
        with append_hdf5(self.path) as output:
            for name, column in columns_to_store(columns):
                output.add_blocks(name, column.dtype, (column.rows,), column.blocks())
            output.describe("vectors", self.vectors.dtype, self.shape, DATA_OFFSET)
            output.add("meta", np.array(meta_json(about)))


def read(path: Path) -> VectorReader:
    """Open a file of this layout, of the earlier one, or of `allennlp elmo`."""
    import h5py  # takes a while

    file = h5py.File(path, "r")
    try:
        if isinstance(file.get(_OLD_GROUP), h5py.Group) and "meta" in file.attrs:
            return SentenceDatasets(file)
        if isinstance(meta := file.get("meta"), h5py.Dataset) and meta.dtype.kind == "S":
            datasets = {name: item for name in file if isinstance(item := file[name], h5py.Dataset)}
            return FlatReader({name: _array(path, item) for name, item in datasets.items()}, close=file.close)
        return AllenNlpReader(file)
    except BaseException:
        file.close()
        raise


class SentenceDatasets:
    """An open file of the earlier layout, with a dataset for each sentence."""

    def __init__(self, file: "h5py.File") -> None:
        self._file = file
        self._columns = file[_OLD_GROUP]
        self.meta = parse_meta(file.attrs["meta"])
        self.numbers: NDArray[np.int64] = self._columns["numbers"][...]
        self._offsets = self._columns["offsets"]
        if self._offsets.shape != (len(self.numbers) + 1,):
            raise FormatError(f"sentences/offsets does not fit the {len(self.numbers)} sentences")

    def vectors(self, i: int) -> NDArray[np.floating]:
        return read_vectors(self._file, str(self.numbers[i]))

    def tokens(self, i: int) -> list[str]:
        start, stop = map(int, self._offsets[i : i + 2])
        return slice_strings(self._columns["tokens"], self._columns["token_offsets"], start, stop)

    def labels(self) -> list[str | None]:
        if "labels" not in self._columns:
            return [None] * len(self.numbers)
        labels = slice_strings(self._columns["labels"], self._columns["label_offsets"], 0, len(self.numbers))
        return [label or None for label in labels]

    def close(self) -> None:
        self._file.close()


def _array(path: Path, dataset: Any) -> Any:
    """The values of a dataset, mapped if they are in one piece; a program that repacks files may compress them."""
    offset = dataset.id.get_offset()
    return dataset if offset is None and dataset.size else map_array(path, dataset.dtype, dataset.shape, offset or 0)
