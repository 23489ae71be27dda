"""HDF5: a dataset for each sentence, named by its number in the input.

    0, 1, 2, ...              vectors, (words, dim) or (layers, words, dim)
    sentences/numbers         (n,) the numbers, in order
    sentences/offsets         (n + 1,) sentence i has the words offsets[i] to offsets[i + 1]
    sentences/tokens          all words end to end, as UTF-8
    sentences/token_offsets   (words + 1,) word i has the bytes token_offsets[i] to token_offsets[i + 1]
    sentences/labels          all labels end to end, and their label_offsets (n + 1,), where there are labels
    attribute meta            a JSON object: dim, layers, dtype, and the job that made the file

Named by number, because sentences are not good names: equal ones would be one, and a `/` would make a group. Words are
bytes with offsets, because strings in HDF5 end at a NUL. A file without `sentences` is read as one of `allennlp elmo`.
"""

from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from elmore.embedding.packed_strings import slice_strings
from elmore.embedding.sinks import allennlp
from elmore.embedding.sinks.meta import meta_of, parse_meta
from elmore.embedding.spool import Spool
from elmore.errors import FormatError
from elmore.hdf5_output import Hdf5Output, new_hdf5

GROUP = "sentences"


def write(spool: Spool, path: Path) -> None:
    """Write all sentences of a spool to a file, whole or not at all."""
    # The oldest layout, which is h5py's default, keeps the names of a group in memory and has no checksums.
    with spool.finishing(path) as unfinished, new_hdf5(unfinished, libver=("v108", "v108")) as output:
        output.file.attrs["meta"] = np.bytes_(meta_of(spool))
        for sentence in spool:
            output.add_numbered(sentence.number, sentence.vectors)
        columns = ["numbers", "offsets", "tokens", "token_offsets"]
        if spool.totals.label_bytes:
            columns += ["labels", "label_offsets"]
        for name in columns:
            _copy(spool, name, output)


def read(path: Path) -> "Hdf5File | allennlp.AllenNlpFile":
    """Open a file of this layout, or one of `allennlp elmo`."""
    file = h5py.File(path, "r")
    try:
        return Hdf5File(file) if GROUP in file and "meta" in file.attrs else allennlp.AllenNlpFile(file)
    except BaseException:
        file.close()
        raise


class Hdf5File:
    """A file of this layout, open for reading."""

    def __init__(self, file: h5py.File) -> None:
        self._file = file
        self._columns = file[GROUP]
        self.meta = parse_meta(file.attrs["meta"])
        self.numbers: NDArray[np.int64] = self._columns["numbers"][...]
        self._offsets = self._columns["offsets"]
        if self._offsets.shape != (len(self.numbers) + 1,):
            raise FormatError(f"sentences/offsets does not fit the {len(self.numbers)} sentences")

    def vectors(self, i: int) -> NDArray[np.floating]:
        return allennlp.read_vectors(self._file, str(self.numbers[i]))

    def words(self, i: int) -> list[str]:
        start, stop = map(int, self._offsets[i : i + 2])
        return slice_strings(self._columns["tokens"], self._columns["token_offsets"], start, stop)

    def labels(self) -> list[str | None]:
        if "labels" not in self._columns:
            return [None] * len(self.numbers)
        labels = slice_strings(self._columns["labels"], self._columns["label_offsets"], 0, len(self.numbers))
        return [label or None for label in labels]

    def close(self) -> None:
        self._file.close()


def _copy(spool: Spool, name: str, output: Hdf5Output) -> None:
    dataset = output.file.create_dataset(
        f"{GROUP}/{name}", shape=(spool.totals.rows[name],), dtype=spool.columns[name].dtype
    )
    start = 0
    for block in spool.blocks(name):
        dataset[start : start + len(block)] = block
        start += len(block)
        output.check()
