"""The files that vectors are kept in, one module for each kind: `write` makes a file of a spool, `read` opens it again.

A further kind is one more module and one more line in `VECTOR_FORMATS`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.spool import Spool
from elmore.errors import FormatError, InputError


class VectorFile(Protocol):
    """An open file of vectors. Sentences are counted from 0 as they stand in the file."""

    numbers: NDArray[np.int64]  # of the sentences in the input, rising

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the file says about itself."""
        ...

    def vectors(self, i: int, /) -> NDArray[np.floating]:
        """(words, dim) or (layers, words, dim), an array of the caller's own."""
        ...

    def words(self, i: int, /) -> list[str]: ...

    def labels(self) -> list[str | None]:
        """Of all sentences at once: they are few and short beside the vectors."""
        ...

    def close(self) -> None: ...


class Sink(Protocol):
    """What the modules in this folder offer."""

    def write(self, spool: Spool, path: Path) -> None:
        """Write all sentences of a spool to a file, whole or not at all."""
        ...

    def read(self, path: Path) -> VectorFile:
        """Open a file for reading; nothing but its frame is loaded."""
        ...


class VectorFormat(NamedTuple):
    """A kind of file, known by the end of its name when it is written and by its first bytes when it is read."""

    name: str
    suffixes: tuple[str, ...]
    magic: bytes
    load: Callable[[], Sink]  # late, because one needs a library that may be missing


def _hdf5() -> Sink:
    from elmore.embedding.sinks import hdf5

    return hdf5


def _parquet() -> Sink:
    from elmore.embedding.sinks import parquet

    return parquet


def _numpy() -> Sink:
    from elmore.embedding.sinks import numpy

    return numpy


VECTOR_FORMATS = (
    VectorFormat("HDF5", (".h5", ".hdf5"), b"\x89HDF\r\n\x1a\n", _hdf5),
    VectorFormat("Parquet", (".parquet",), b"PAR1", _parquet),
    VectorFormat("NumPy", (".npz",), b"PK", _numpy),
)


def sink_for(path: str | Path) -> Sink:
    """The sink that writes a file of this name; what it needs is there, or this says what is missing.

    >>> sink_for("vectors.txt")
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: vectors.txt: vectors are written to .h5, .hdf5 (HDF5), .parquet (Parquet), .npz (NumPy)
    """
    for form in VECTOR_FORMATS:
        if Path(path).suffix.lower() in form.suffixes:
            return form.load()
    known = ", ".join(f"{', '.join(form.suffixes)} ({form.name})" for form in VECTOR_FORMATS)
    raise InputError(f"{path}: vectors are written to {known}")


def sink_of(first_bytes: bytes) -> Sink:
    """The sink that reads a file which begins like this."""
    for form in VECTOR_FORMATS:
        if first_bytes.startswith(form.magic):
            return form.load()
    raise FormatError(f"not a file of vectors: it is neither {' nor '.join(form.name for form in VECTOR_FORMATS)}")
