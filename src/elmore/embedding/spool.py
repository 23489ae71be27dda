"""A work folder that makes embedding a file resumable, whatever stops it.

Sentences are appended to a few flat files, one for each column: vectors and offsets as little-endian numbers, words and
labels as UTF-8. Now and then a commit puts all of them on disk and then notes in `spool.json` how much of each counts.
A job that was stopped, be it by `kill -9` or a power cut, opens the folder again, cuts every file back to the last
commit and goes on. When all is appended, a sink reads the spool from front to back and writes the final file.
"""

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from filelock import BaseFileLock, FileLock, Timeout
from numpy.typing import NDArray

from elmore.atomic_files import atomic_write, cannot_be_written, make_folder
from elmore.defaults import DEFAULT_DTYPE, DtypeName
from elmore.embedding.columns import Column
from elmore.embedding.packed_strings import encode_string, slice_strings
from elmore.errors import ElmoreError, InputError, InputWarning
from elmore.output_paths import check_folder_of

SENTENCES_AT_ONCE = 1024


class EmbeddedSentence(NamedTuple):
    """A sentence with its vectors."""

    number: int  # in the whole input, from 0; the sentences of a shard keep theirs
    words: Sequence[str]
    label: str | None  # a name that the input gave it; an empty one is none
    vectors: NDArray[np.floating]  # (words, dim) or (layers, words, dim)
    digest: str = ""  # of the input up to its end; only the last one's is kept


class Totals(NamedTuple):
    """How much a spool holds."""

    sentences: int = 0
    words: int = 0
    word_bytes: int = 0
    label_bytes: int = 0
    last_number: int = -1
    digest: str = ""  # of the input up to the end of the last sentence

    @property
    def rows(self) -> dict[str, int]:
        """How many rows each column has."""
        return {
            "vectors": self.words,
            "offsets": self.sentences + 1,  # sentence i has the words offsets[i] to offsets[i + 1]
            "numbers": self.sentences,
            "tokens": self.word_bytes,
            "token_offsets": self.words + 1,  # word i has the bytes token_offsets[i] to token_offsets[i + 1]
            "labels": self.label_bytes,
            "label_offsets": self.sentences + 1,
        }


class Spool:
    """Sentences on their way to a file, in the order of their numbers.

    `job` describes what is done, in plain JSON values: model, input, options. A folder that was left half full is
    continued if its job is the same, and refused if it is not, unless `fresh` asks to start over.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "vectors.npz.partial"
    >>> with Spool(folder, {"model": "tiny"}, dim=2) as spool:
    ...     spool.append(EmbeddedSentence(0, ["a", "b"], None, np.ones((2, 2))))
    >>> with Spool(folder, {"model": "tiny"}, dim=2) as spool:
    ...     print(spool.done, [sentence.words for sentence in spool])
    ...     spool.remove()
    1 [['a', 'b']]
    """

    def __init__(
        self,
        folder: Path,
        job: Mapping[str, Any],
        *,
        dim: int,
        layers: int | None = None,
        dtype: DtypeName = DEFAULT_DTYPE,
        fresh: bool = False,
    ) -> None:
        self.folder = folder
        # Through JSON and back, so that it compares equal to what a file says.
        self.job: dict[str, Any] = json.loads(json.dumps(dict(job)))
        self.row = (dim,) if layers is None else (layers, dim)  # the shape of what one word has
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.columns = {
            "vectors": Column(folder / "vectors", self.dtype, row=self.row),
            "offsets": Column(folder / "offsets", "<i8"),
            "numbers": Column(folder / "numbers", "<i8"),
            "tokens": Column(folder / "tokens", "u1"),
            "token_offsets": Column(folder / "token_offsets", "<i8"),
            "labels": Column(folder / "labels", "u1"),
            "label_offsets": Column(folder / "label_offsets", "<i8"),
        }
        self.totals = Totals()
        self.input_digest = ""  # of the whole input, other shards' sentences too: known when it was read to its end
        self._on_disk: Totals | None = None
        self._state = folder / "spool.json"
        self._lock = folder / "lock"
        self._description = {**self.job, "vectors": {"dim": dim, "layers": layers, "dtype": dtype}}
        self._resources = ExitStack()
        self._is_open = False
        self._open(fresh=fresh)

    @property
    def done(self) -> int:
        """How many sentences are in: a job that goes on does so after these."""
        return self.totals.sentences

    def append(self, sentence: EmbeddedSentence) -> None:
        """Add one sentence; its number must be above all before it."""
        number, words, label, vectors, digest = sentence
        before = self.totals
        if number <= before.last_number:
            raise InputError(f"sentence {number} comes after sentence {before.last_number}; numbers must rise")
        if vectors.shape != (expected := (*self.row[:-1], len(words), self.row[-1])):
            raise InputError(f"sentence {number}: its vectors have the shape {vectors.shape}; it must be {expected}")
        tokens = [encode_string(word) for word in words]
        token_ends = list(accumulate(map(len, tokens), initial=before.word_bytes))
        label_data = encode_string(label or "")
        after = Totals(
            sentences=before.sentences + 1,
            words=before.words + len(words),
            word_bytes=token_ends[-1],
            label_bytes=before.label_bytes + len(label_data),
            last_number=number,
            digest=digest,
        )
        rows = {
            "vectors": vectors.swapaxes(0, -2).astype(self.dtype, copy=False).tobytes(),
            "offsets": _packed([after.words]),
            "numbers": _packed([number]),
            "tokens": b"".join(tokens),
            "token_offsets": _packed(token_ends[1:]),
            "labels": label_data,
            "label_offsets": _packed([after.label_bytes]),
        }
        with self._last_commit_stands():
            for name, column in self.columns.items():
                column.write(rows[name])
            self.totals = after

    def commit(self) -> None:
        """Put on disk, for good, all that was appended; when to, is the job's to say, and closing does it."""
        if self.totals == self._on_disk:
            return
        with self._last_commit_stands():
            for column in self.columns.values():
                column.sync()
            with atomic_write(self._state) as unfinished:
                unfinished.write_text(json.dumps({"job": self._description, "totals": self.totals._asdict()}))
        self._on_disk = self.totals

    def __iter__(self) -> Iterator[EmbeddedSentence]:
        """Every sentence in order, a few in memory at a time; the arrays are read-only."""
        self._flush()
        for first in range(0, self.done, SENTENCES_AT_ONCE):
            yield from self._sentences(first, min(first + SENTENCES_AT_ONCE, self.done))

    def blocks(self, column: str) -> Iterator[NDArray[Any]]:
        """All rows of one column, in pieces small enough to hold."""
        self._flush()
        return self.columns[column].blocks(self.totals.rows[column])

    @contextmanager
    def finishing(self, path: Path) -> Iterator[Path]:
        """Give a sink a path to fill; filled whole, the file takes its final name.

        What a killed process leaves here is overwritten by the next try, and goes when the spool does.
        """
        unfinished = self.folder / f"unfinished{path.suffix}"
        with atomic_write(path) as beside:
            try:
                yield unfinished
                # Not a plain rename: the final name may be a link that leads to another disk.
                shutil.move(unfinished, beside)
            finally:
                unfinished.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete the folder: its sentences are in a file now, or not wanted."""
        self._release()
        shutil.rmtree(self.folder)

    def close(self) -> None:
        """Commit, and leave the folder to whoever goes on with it; after `remove`, or a second time, do nothing."""
        if self._is_open:
            self.commit()
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, *, fresh: bool) -> None:
        with self._last_commit_stands(), ExitStack() as opened:
            _make_folder(self.folder, known_by=self._lock.name)
            opened.callback(self._locked().release)
            self.totals = Totals() if fresh else self._committed()
            for name, column in self.columns.items():
                if self.done == 0:
                    column.path.unlink(missing_ok=True)
                column.open(self.totals.rows[name])
                opened.callback(column.close)
            self._resources = opened.pop_all()
        self._is_open = True
        self.commit()

    def _locked(self) -> BaseFileLock:
        """The folder's lock, taken: one process at a time, until it lets go or dies, however it dies."""
        lock = FileLock(self._lock, thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise InputError(
                f"{self.folder}: another process is at work on it; let it finish, or stop it first"
            ) from None
        return lock

    def _committed(self) -> Totals:
        """What an earlier process got done of this same job."""
        if not self._state.exists():
            return Totals()
        try:
            state = json.loads(self._state.read_bytes())
            job, totals = dict(state["job"]), Totals(**state["totals"])
        except (ValueError, KeyError, TypeError):
            return self._start_over()
        if totals.sentences == 0:
            return Totals()
        if changes := _changes(job, self._description):
            raise InputError(
                f"{self.folder}: holds the unfinished work of another job ({'; '.join(changes)}); "
                "finish that one with the options it had, or delete the folder to start over (--fresh does it)"
            )
        return totals if self._holds(totals) else self._start_over()

    def _holds(self, totals: Totals) -> bool:
        """Whether the columns have what a commit says they have."""
        if not all(type(total) is int for total in totals[:5]) or min(totals[:4]) < 0:
            return False
        if not all(column.holds(totals.rows[name]) for name, column in self.columns.items()):
            return False
        ends = {"offsets": totals.words, "token_offsets": totals.word_bytes, "label_offsets": totals.label_bytes}
        return all(_last(self.columns[name].path, totals.rows[name]) == end for name, end in ends.items())

    def _start_over(self) -> Totals:
        warnings.warn(f"{self.folder}: the unfinished work is damaged; starting over", InputWarning, stacklevel=5)
        return Totals()

    def _release(self) -> None:
        self._is_open = False
        self._resources.close()

    def _flush(self) -> None:
        for column in self.columns.values():
            column.flush()

    @contextmanager
    def _last_commit_stands(self) -> Iterator[None]:
        """Close if writing stops half-way: the columns no longer fit each other, and nothing may follow."""
        try:
            yield
        except BaseException as error:
            with suppress(OSError):
                self._release()
            if isinstance(error, OSError) and not isinstance(error, ElmoreError):
                refusal = cannot_be_written(self.folder, error)
                if self._on_disk is not None and self._on_disk.sentences:
                    refusal.args = (f"{refusal}; what is done is kept, and the same job goes on from there",)
                raise refusal from error
            raise

    def _sentences(self, first: int, stop: int) -> Iterator[EmbeddedSentence]:
        columns = self.columns
        numbers = columns["numbers"].span(first, stop).tolist()
        offsets = columns["offsets"].span(first, stop + 1).tolist()
        words = _texts(columns["tokens"], columns["token_offsets"].span(offsets[0], offsets[-1] + 1))
        labels = _texts(columns["labels"], columns["label_offsets"].span(first, stop + 1))
        for i, number in enumerate(numbers):
            start, end = offsets[i], offsets[i + 1]
            vectors = columns["vectors"].span(start, end).swapaxes(0, -2)
            own = words[start - offsets[0] : end - offsets[0]]
            yield EmbeddedSentence(number, own, labels[i] or None, vectors)


def _make_folder(folder: Path, *, known_by: str) -> None:
    check_folder_of(folder)
    if not folder.exists():
        make_folder(folder)
    # It will be removed one day, so it must be nobody else's.
    elif not folder.is_dir() or (any(folder.iterdir()) and not (folder / known_by).exists()):
        raise InputError(
            f"{folder}: is in the way; unfinished work goes to a folder of that name, so move it elsewhere"
        )


def _texts(data: Column, offsets: NDArray[Any]) -> list[str]:
    first, end = int(offsets[0]), int(offsets[-1])
    return slice_strings(data.span(first, end), offsets - first, 0, len(offsets) - 1)


def _packed(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, dtype="<i8").tobytes()


def _last(path: Path, rows: int) -> int:
    return int(np.fromfile(path, "<i8", count=1, offset=8 * (rows - 1))[0])


def _changes(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Which fields differ, for a message."""
    return [
        f"{field} was {_shown(there.get(field))} and is now {_shown(here.get(field))}"
        for field in dict.fromkeys((*there, *here))
        if there.get(field) != here.get(field)
    ]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
