"""Read vectors from a file, or from the parts of a job in several shards."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from elmore.display import html_table, join_names
from elmore.embedding.vector_files import VectorReader, reader_for
from elmore.errors import ElmoreError, FormatError, InputError, NotFound, error_context
from elmore.files.input_files import expand_glob, is_glob

AnyPath = str | PathLike[str]


def open_vectors(path: AnyPath | Sequence[AnyPath]) -> "StoredVectors":
    """Open a file of `elmore embed` in any of its formats, or an HDF5 file of `allennlp elmo`.

    Several paths, or a pattern such as `"part*.parquet"`, are the parts of one job and become one sequence, in the
    order of the input. Raises InputError for files of different jobs, and if a part is missing.

    >>> import tempfile
    >>> from elmore import embed_file
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("Cats purr")
    >>> _ = embed_file(folder / "a.txt", folder / "vectors.h5", model="tiny-random")
    >>> vectors = open_vectors(folder / "vectors.h5")
    >>> vectors[0].shape, vectors.tokens(0)
    ((2, 32), ['Cats', 'purr'])
    """
    paths, is_whole = _paths(path)
    with ExitStack() as opened:
        files = []
        for each in paths:
            files.append(_open_file(each))
            opened.callback(files[-1].close)
        stored = StoredVectors(paths, files)
        if is_whole:
            stored.check_complete()
        opened.pop_all()
        return stored


def is_vector_file(path: Path) -> bool:
    """Whether Elmore wrote this file of vectors. False for AllenNLP's layout, which does not name its program."""
    try:
        with open_vectors(path) as vectors:
            return bool(vectors.meta)
    except ElmoreError:
        return False


class StoredVectors:
    """The sentences of a file, or of several, as a sequence: `vectors[i]` reads one sentence from disk.

    Each array, (tokens, dim) or (layers, tokens, dim), is a copy. In one shard of an input, sentence i of the file has
    the number `numbers[i]` in the input. Threads may share an object. A pickle contains the absolute paths, and the
    files are opened again.
    """

    def __init__(self, paths: Sequence[Path], files: Sequence[VectorReader]) -> None:
        self.paths = tuple(paths)
        self._absolute_paths = [str(path.absolute()) for path in paths]  # for a process in another folder
        self._files = tuple(files)
        self._is_open = True
        numbers = np.concatenate([file.numbers for file in files])
        order = np.argsort(numbers, kind="stable")
        self.numbers: NDArray[np.int64] = numbers[order]
        self._file_of = np.repeat(np.arange(len(files)), [len(file.numbers) for file in files])[order]
        self._index_in_file = np.concatenate([np.arange(len(file.numbers)) for file in files])[order]
        self._check_one_job()

    @property
    def meta(self) -> Mapping[str, Any]:
        """The description in the first file: `dim`, `layers`, `dtype`, and the `job` that made the file.

        Empty for a file of `allennlp elmo`.
        """
        return self._files[0].meta

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> NDArray[np.floating]: ...
    @overload
    def __getitem__(self, index: slice) -> list[NDArray[np.floating]]: ...
    def __getitem__(self, index: int | slice) -> NDArray[np.floating] | list[NDArray[np.floating]]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        with self._sentence(index) as (file, position):
            return file.vectors(position)

    def __iter__(self) -> Iterator[NDArray[np.floating]]:
        return (self[i] for i in range(len(self)))

    def tokens(self, index: int) -> list[str]:
        """The tokens of a sentence, one for each vector."""
        with self._sentence(index) as (file, position):
            return file.tokens(position)

    words = tokens  # the earlier name

    @cached_property
    def labels(self) -> list[str | None]:
        """The names of the sentences in the input: identifiers in FASTA, `sent_id` in CoNLL-U, else None."""
        labels = []
        for path, file in zip(self.paths, self._files, strict=True):
            with self._reading(path):
                labels.append(file.labels())
        return [labels[file][position] for file, position in zip(self._file_of, self._index_in_file, strict=True)]

    def index_of(self, number: int) -> int:
        """The index of the sentence that has this number in the input."""
        index = int(np.searchsorted(self.numbers, number))
        if index == len(self) or self.numbers[index] != number:
            raise InputError(f"{self._name}: sentence {number} of the input is not in this file")
        return index

    find = index_of  # the earlier name

    def close(self) -> None:
        self._is_open = False
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return open_vectors, (self._absolute_paths,)

    def __repr__(self) -> str:
        shape = " x ".join(str(self.meta[field]) for field in ("layers", "dim") if self.meta.get(field))
        return f"StoredVectors({self._name}: {len(self):,} sentences{shape and f', {shape}'})"

    def _repr_html_(self) -> str:
        job = self.meta.get("job", {})
        about = {"model": job.get("model"), "input": job.get("input"), "layers": job.get("layers")}
        return html_table(repr(self), {field: value for field, value in about.items() if value is not None})

    def check_complete(self) -> None:
        """Raise InputError if a part of the job is missing."""
        shards = [shard for file in self._files if (shard := file.meta.get("job", {}).get("shard")) is not None]
        if not shards:
            return
        count = shards[0][1]
        if missing := [f"{part}/{count}" for part in range(1, count + 1) if [part, count] not in shards]:
            raise InputError(
                f"{self._name}: the job has {count} parts, and {join_names(missing)} is missing; open all parts "
                "together, or one part alone"
            )

    @property
    def _name(self) -> str:
        return str(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} more"

    @contextmanager
    def _sentence(self, index: int) -> Iterator[tuple[VectorReader, int]]:
        """The file of a sentence, and its position in the file; errors inside the block name the file."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self._name} has {len(self)} sentences; there is no sentence {index}")
        which = self._file_of[index]
        with self._reading(self.paths[which]):
            yield self._files[which], int(self._index_in_file[index])

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        if not self._is_open:
            raise InputError(f"{path}: is closed; open it again to read from it")
        with _damage_as_error(path):
            yield

    def _check_one_job(self) -> None:
        for path, file in zip(self.paths, self._files, strict=True):
            if difference := _difference(self.meta, file.meta):
                field, one, other = difference
                raise InputError(
                    f"{self.paths[0]} and {path} are of different jobs ({field} {one} and {other}); open only parts of "
                    "one job together"
                )
        twice = np.flatnonzero(np.diff(self.numbers) == 0)
        if len(twice):
            one, other = (self.paths[self._file_of[i]] for i in (twice[0], twice[0] + 1))
            raise InputError(
                f"sentence {self.numbers[twice[0]]} is in {one} and in {other}; open only parts of one job together"
            )


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first field in which the jobs of two files differ, and its two values; None if they are parts of one job."""
    first, second = ({**meta, **meta.get("job", {})} for meta in (one, other))
    jobs = [meta.get("job", {}).keys() for meta in (one, other)]
    # The most informative fields first: another model changes nearly all fields. The digest of the sentences is last,
    # because it depends on other options.
    first_fields = ("model", "model_sha256", "input", "layers", "dtype", "dim")
    for field in dict.fromkeys((*first_fields, *jobs[0], *jobs[1], "input_digest")):
        if field not in _OF_A_FILE and first.get(field) != second.get(field):
            return field, str(first.get(field))[:60], str(second.get(field))[:60]
    # A whole input is one part, and all parts have the same count.
    here, there = ((meta.get("shard") or (1, 1))[1] for meta in (first, second))
    return ("parts:", str(here), str(there)) if here != there else None


_OF_A_FILE = ("shard", "layout")  # fields that may differ in one job


def _paths(path: AnyPath | Sequence[AnyPath]) -> tuple[list[Path], bool]:
    """The files, and whether they must be all parts of a job."""
    if not isinstance(path, str | PathLike):
        if not path:
            raise InputError("the list of paths is empty; name at least one file of vectors")
        return [Path(each) for each in path], len(path) > 1
    if isinstance(path, str) and is_glob(path):
        return [Path(each) for each in expand_glob(path)], True
    return [Path(path)], False


def _open_file(path: Path) -> VectorReader:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file of vectors")
    with _damage_as_error(path):
        with path.open("rb") as file:
            start = file.read(8)
        opened = reader_for(start)(path)
        if (np.diff(opened.numbers, prepend=-1) <= 0).any():
            opened.close()
            raise FormatError("damaged: the numbers of its sentences are not in order")
        return opened


@contextmanager
def _damage_as_error(path: Path) -> Iterator[None]:
    """Raise an ElmoreError that names the file for any error of its library."""
    with error_context(path):
        try:
            yield
        except ElmoreError:
            raise
        except FileNotFoundError:
            raise NotFound("no such file") from None
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, MemoryError, zipfile.BadZipFile) as error:
            raise FormatError(f"cannot be read; the file may be incomplete or damaged: {error}") from error
