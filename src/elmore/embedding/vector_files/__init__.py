"""Files of vectors, a module for each format. `writer_for` and `reader_for` choose the module.

To add a format, add a module with a `Writer` and a function `read`, and a line in `VECTOR_FORMATS`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from elmore.defaults import DEFAULT_DTYPE, DtypeName
from elmore.errors import FormatError, InputError
from elmore.version import __version__

if TYPE_CHECKING:
    from elmore.embedding.vector_files.flat import Column

Layout = Literal["default", "allennlp", "allennlp-without-sentences", "allennlp-sentence-keys"]

_FORMAT, VERSION = "elmore vectors", 1


class VectorType(NamedTuple):
    """The vectors of a word: one of size `dim`, or one for each layer."""

    dim: int
    layers: int | None = None  # None: one vector
    dtype: DtypeName = DEFAULT_DTYPE

    @property
    def row(self) -> tuple[int, ...]:
        """(dim,) or (layers, dim)."""
        return (self.dim,) if self.layers is None else (self.layers, self.dim)

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """Little-endian on every machine."""
        return np.dtype(self.dtype).newbyteorder("<")


class EmbeddedSentences(NamedTuple):
    """A batch of sentences, with the vectors of all words in one array."""

    numbers: Sequence[int]  # in the whole input, from 0; the sentences of a shard keep theirs
    words: Sequence[Sequence[str]]
    labels: Sequence[str | None]  # names from the input; an empty one counts as None
    vectors: NDArray[np.floating]  # (words, dim) or (layers, words, dim)
    digests: Sequence[str]  # 32 hexadecimal digits for each sentence, of the input up to its end


class VectorWriter(Protocol):
    """Appends vectors to an unfinished file, in the order of the file."""

    def append(self, batch: EmbeddedSentences) -> None: ...

    def sync(self) -> dict[str, int]:
        """Put the appended vectors on disk; returns the state that another process needs to continue.

        `sentences` of the state is their number on disk. A format that stores groups of sentences may have fewer there
        than were appended.
        """
        ...

    def finish(self, columns: "Mapping[str, Column]", about: Mapping[str, Any], /) -> None:
        """Complete and close the file. `columns` has the other data of the sentences, `about` describes the job."""
        ...

    def close(self) -> None: ...


# With the state from `sync` a writer cuts the file back to that state. A damaged file is a FormatError.
OpenWriter = Callable[[Path, VectorType, Mapping[str, int]], VectorWriter]


class VectorReader(Protocol):
    """An open file of vectors. Sentences are counted from 0, in the order of the file."""

    numbers: NDArray[np.int64]  # of the sentences in the input, rising

    @property
    def meta(self) -> Mapping[str, Any]:
        """The description in the file."""
        ...

    def vectors(self, i: int, /) -> NDArray[np.floating]:
        """(words, dim) or (layers, words, dim), a copy."""
        ...

    def tokens(self, i: int, /) -> list[str]: ...

    def labels(self) -> list[str | None]:
        """The labels of all sentences."""
        ...

    def close(self) -> None: ...


class _Format(NamedTuple):
    """A format, chosen by the suffix of a file to write, and by the first bytes of a file to read."""

    name: str
    suffixes: tuple[str, ...]
    magic: bytes
    load: Callable[
        [], tuple[OpenWriter, Callable[[Path], VectorReader]]
    ]  # imported late: a library may be slow or missing


def _hdf5() -> tuple[OpenWriter, Callable[[Path], VectorReader]]:
    from elmore.embedding.vector_files import hdf5

    return hdf5.Writer, hdf5.read


def _parquet() -> tuple[OpenWriter, Callable[[Path], VectorReader]]:
    from elmore.embedding.vector_files import parquet

    return parquet.Writer, parquet.read


def _numpy() -> tuple[OpenWriter, Callable[[Path], VectorReader]]:
    from elmore.embedding.vector_files import numpy

    return numpy.Writer, numpy.read


VECTOR_FORMATS = (
    _Format("HDF5", (".h5", ".hdf5"), b"\x89HDF\r\n\x1a\n", _hdf5),
    _Format("Parquet", (".parquet",), b"PAR1", _parquet),
    _Format("NumPy", (".npz",), b"PK", _numpy),
)


def writer_for(path: str | Path, layout: Layout = "default") -> OpenWriter:
    """The writer for a file of this name; an error if the suffix is unknown or a library is missing.

    >>> writer_for("vectors.txt")
    Traceback (most recent call last):
    ...
    elmore.errors.InputError: vectors.txt: vectors are written to .h5, .hdf5 (HDF5), .parquet (Parquet), .npz (NumPy)
    """
    suffix = Path(path).suffix.lower()
    for form in VECTOR_FORMATS:
        if suffix not in form.suffixes:
            continue
        if layout == "default":
            return form.load()[0]
        if form.name == "HDF5":
            return _allennlp(layout)
        raise InputError(f"{path}: the layout of AllenNLP is one of HDF5 files; end the name in .hdf5")
    known = ", ".join(f"{', '.join(form.suffixes)} ({form.name})" for form in VECTOR_FORMATS)
    raise InputError(f"{path}: vectors are written to {known}")


def reader_for(first_bytes: bytes) -> Callable[[Path], VectorReader]:
    """The reader for a file with these first bytes."""
    for form in VECTOR_FORMATS:
        if first_bytes.startswith(form.magic):
            return form.load()[1]
    raise FormatError(f"not a file of vectors: it is neither {' nor '.join(form.name for form in VECTOR_FORMATS)}")


def _allennlp(layout: Layout) -> OpenWriter:
    from elmore.embedding.vector_files import allennlp

    storage: dict[Layout, allennlp.SentenceStorage] = {
        "allennlp": "index",
        "allennlp-without-sentences": "forget",
        "allennlp-sentence-keys": "keys",
    }
    return partial(allennlp.Writer, storage=storage[layout])


def meta_json(about: Mapping[str, Any], **more: Any) -> bytes:
    """The description of a file as JSON in ASCII, equal for equal jobs."""
    head = {"format": _FORMAT, "version": VERSION, "creator": f"elmore {__version__}"}
    return json.dumps({**head, **about, **more}).encode("ascii")


def parse_meta(text: bytes) -> dict[str, Any]:
    """The description, if this version of Elmore can read the rest of the file.

    >>> parse_meta(b'{"format": "elmore vectors", "version": 99}')
    Traceback (most recent call last):
    ...
    elmore.errors.FormatError: written by a newer elmore (layout 99; this one reads 1); update elmore to read it
    """
    try:
        meta = json.loads(text)
    except ValueError as error:
        raise FormatError(f"its description is damaged: {error}") from None
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT:
        raise FormatError("not written by elmore: its description is another program's")
    if meta.get("version") != VERSION:
        raise FormatError(
            f"written by a newer elmore (layout {meta.get('version')}; this one reads {VERSION}); "
            "update elmore to read it"
        )
    return meta
