"""Read vectors back from a file, or from the parts of a job that was cut into shards."""

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    """Open what `elmore embed` wrote, whichever of its formats it is in, or an HDF5 file of `allennlp elmo`.

    Several paths, or a pattern such as `"part*.parquet"`, are read as the parts of one job: one sequence, in the order
    of the input. Files of different jobs are refused, and so is a job of which a part is missing.

    >>> import tempfile
    >>> from elmore import embed_file
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("Cats purr")
    >>> _ = embed_file(folder / "a.txt", folder / "vectors.h5", model="tiny-random")
    >>> vectors = open_vectors(folder / "vectors.h5")
    >>> vectors[0].shape, vectors.words(0)
    ((2, 32), ['Cats', 'purr'])
    """
    paths, whole = _paths(path)
    files: list[VectorReader] = []
    try:
        for each in paths:
            files.append(_open_file(each))
        stored = StoredVectors(paths, files)
        if whole:
            stored.check_complete()
        return stored
    except BaseException:
        for file in files:
            file.close()
        raise


def is_vector_file(path: Path) -> bool:
    """Whether this is a file of vectors that Elmore wrote; of one in AllenNLP's layout nobody can tell."""
    try:
        with open_vectors(path) as vectors:
            return bool(vectors.meta)
    except ElmoreError:
        return False


class StoredVectors:
    """The sentences of a file, or of several, by their place: `vectors[i]` is read from disk when it is asked for.

    Each array is the caller's own: (words, dim) or (layers, words, dim). Sentence i of the file may have another number
    in the input (`numbers`), if the file is one shard of it. Threads may share one of these; processes get one of their
    own by pickling it, which sends the paths and opens them again.
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
        self._place_in_file = np.concatenate([np.arange(len(file.numbers)) for file in files])[order]
        self._refuse_what_does_not_belong_together()

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the file, or the first of several, says about itself: `dim`, `layers`, `dtype`, the `job` that made it.

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
        with self._sentence(index) as (file, place):
            return file.vectors(place)

    def __iter__(self) -> Iterator[NDArray[np.floating]]:
        return (self[i] for i in range(len(self)))

    def words(self, index: int) -> list[str]:
        """The words of a sentence."""
        with self._sentence(index) as (file, place):
            return file.words(place)

    @cached_property
    def labels(self) -> list[str | None]:
        """The names that the input gave its sentences, if it did: in FASTA the identifiers, in CoNLL-U `sent_id`."""
        labels = []
        for path, file in zip(self.paths, self._files, strict=True):
            with self._reading(path):
                labels.append(file.labels())
        return [labels[which][place] for which, place in zip(self._file_of, self._place_in_file, strict=True)]

    def find(self, number: int) -> int:
        """The place of the sentence that has this number in the input."""
        place = int(np.searchsorted(self.numbers, number))
        if place == len(self) or self.numbers[place] != number:
            raise InputError(f"{self._shown}: sentence {number} of the input is not in here")
        return place

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
        return f"StoredVectors({self._shown}: {len(self):,} sentences{shape and f', {shape}'})"

    def _repr_html_(self) -> str:
        job = self.meta.get("job", {})
        about = {"model": job.get("model"), "input": job.get("input"), "layers": job.get("layers")}
        return html_table(repr(self), {field: value for field, value in about.items() if value is not None})

    def check_complete(self) -> None:
        """Make sure that all parts are here of a job that was cut into shards."""
        shards = [shard for file in self._files if (shard := file.meta.get("job", {}).get("shard")) is not None]
        if not shards:
            return
        count = shards[0][1]
        if missing := [f"{part}/{count}" for part in range(1, count + 1) if [part, count] not in shards]:
            raise InputError(
                f"{self._shown}: the job has {count} parts, and without {join_names(missing)} they are not the whole; "
                "open all of them together, or each by itself"
            )

    @property
    def _shown(self) -> str:
        return str(self.paths[0]) if len(self.paths) == 1 else f"{self.paths[0]} and {len(self.paths) - 1} more"

    @contextmanager
    def _sentence(self, index: int) -> Iterator[tuple[VectorReader, int]]:
        """The file that a sentence is in, and its place there; what goes wrong inside is said with the file's name."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self._shown} has {len(self)} sentences; there is no sentence {index}")
        which = self._file_of[index]
        with self._reading(self.paths[which]):
            yield self._files[which], int(self._place_in_file[index])

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        if not self._is_open:
            raise InputError(f"{path}: was closed; open it again to read from it")
        with _damage_explained(path):
            yield

    def _refuse_what_does_not_belong_together(self) -> None:
        for path, file in zip(self.paths, self._files, strict=True):
            if difference := _difference(self.meta, file.meta):
                field, one, other = difference
                raise InputError(
                    f"{self.paths[0]} and {path} are of different jobs ({field} {one} and {other}); only the parts of "
                    "one job can be joined"
                )
        twice = np.flatnonzero(np.diff(self.numbers) == 0)
        if len(twice):
            one, other = (self.paths[self._file_of[i]] for i in (twice[0], twice[0] + 1))
            raise InputError(
                f"sentence {self.numbers[twice[0]]} is in {one} and in {other}; only the parts of one job can be joined"
            )


def _difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """In what the jobs of two files differ, if in anything but which part of the input they did."""
    first, second = ({**meta, **meta.get("job", {})} for meta in (one, other))
    jobs = [meta.get("job", {}).keys() for meta in (one, other)]
    # The most telling first: of another model, nearly everything is different. The text itself last, which other
    # options may have cut into other sentences.
    telling = ("model", "model_sha256", "input", "layers", "dtype", "dim")
    for field in dict.fromkeys((*telling, *jobs[0], *jobs[1], "input_digest")):
        if field not in _OF_A_FILE and first.get(field) != second.get(field):
            return field, str(first.get(field))[:60], str(second.get(field))[:60]
    # Of a whole input there is one part only, and of parts all are of as many.
    here, there = ((meta.get("shard") or (1, 1))[1] for meta in (first, second))
    return ("parts:", str(here), str(there)) if here != there else None


_OF_A_FILE = ("shard", "layout")  # in which the files of one job may differ


def _paths(path: AnyPath | Sequence[AnyPath]) -> tuple[list[Path], bool]:
    """The files, and whether they are to be the whole of a job."""
    if not isinstance(path, str | PathLike):
        if not path:
            raise InputError("open_vectors was given an empty list of paths")
        return [Path(each) for each in path], len(path) > 1
    if isinstance(path, str) and is_glob(path):
        return [Path(each) for each in expand_glob(path)], True
    return [Path(path)], False


def _open_file(path: Path) -> VectorReader:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file of vectors")
    with _damage_explained(path):
        with path.open("rb") as file:
            start = file.read(8)
        opened = reader_for(start)(path)
        if (np.diff(opened.numbers, prepend=-1) <= 0).any():
            opened.close()
            raise FormatError("damaged: the numbers of its sentences do not rise")
        return opened


@contextmanager
def _damage_explained(path: Path) -> Iterator[None]:
    """Say by the file's name whatever its library finds wrong with it."""
    with error_context(path):
        try:
            yield
        except ElmoreError:
            raise
        except FileNotFoundError:
            raise NotFound("no such file") from None
        except (OSError, ValueError, KeyError, TypeError, RuntimeError, MemoryError, zipfile.BadZipFile) as error:
            raise FormatError(f"cannot be read, it may be cut short or damaged: {error}") from error
