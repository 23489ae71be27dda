"""A work folder that makes embedding a file resumable after any interruption.

Vectors are appended to the file that becomes the target. Words, labels, numbers and offsets, which are small, go to
flat files next to it. Now and then a commit puts all of them on disk and then writes to `spool.json` how much of each
is valid. A job that was stopped, even by `kill -9` or a power cut, opens the folder again, cuts every file back to the
last commit and continues. At the end the small files are added to the file of vectors, which then gets its final name.
"""

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from elmore.embedding.vector_files import EmbeddedSentences, OpenWriter, VectorType, VectorWriter
from elmore.embedding.vector_files.flat import Column, pack_strings
from elmore.errors import ElmoreError, FormatError, InputError, InputWarning
from elmore.files.atomic_files import atomic_write, make_folder, replace_file
from elmore.files.os_errors import cannot_be_written
from elmore.files.output_paths import check_parent_folder

DIGEST_BYTES = 16
VECTORS, STATE, LOCK = "vectors", "spool.json", "lock"


class Totals(NamedTuple):
    """How much a spool contains."""

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
            "offsets": self.sentences + 1,  # sentence i has the words offsets[i] to offsets[i + 1]
            "numbers": self.sentences,
            "tokens": self.word_bytes,
            "token_offsets": self.words + 1,  # word i has the bytes token_offsets[i] to token_offsets[i + 1]
            "labels": self.label_bytes,
            "label_offsets": self.sentences + 1,
            "digests": self.sentences,
        }


class Spool:
    """Collects sentences for a file, in the order of their numbers.

    `job` describes the work in plain JSON values: model, input, options. A folder with unfinished work is continued if
    its job is the same, and rejected if the job differs, unless `fresh` starts over. `resumable=False` never commits.

    >>> import tempfile
    >>> from elmore.embedding.vector_files import writer_for
    >>> target = Path(tempfile.mkdtemp()) / "vectors.npz"
    >>> folder, job = target.with_suffix(".partial"), {"model": "tiny"}
    >>> with Spool(folder, job, writer_for(target), VectorType(dim=2)) as spool:
    ...     spool.append(EmbeddedSentences([0], [["a", "b"]], [None], np.ones((2, 2)), ["00" * 16]))
    >>> with Spool(folder, job, writer_for(target), VectorType(dim=2)) as spool:
    ...     print(spool.num_sentences)
    ...     spool.finish(target)
    1
    >>> target.exists(), folder.exists()
    (True, False)
    """

    def __init__(
        self,
        folder: Path,
        job: Mapping[str, Any],
        open_writer: OpenWriter,
        kind: VectorType,
        *,
        fresh: bool = False,
        resumable: bool = True,
    ) -> None:
        self.folder = folder
        # Converted to JSON and back, so that it is equal to a job that was read from a file.
        self.job: dict[str, Any] = json.loads(json.dumps(dict(job)))
        self.kind = kind
        self.resumable = resumable
        self.columns = {
            "offsets": Column(folder / "offsets", "<i8"),
            "numbers": Column(folder / "numbers", "<i8"),
            "tokens": Column(folder / "tokens", "u1"),
            "token_offsets": Column(folder / "token_offsets", "<i8"),
            "labels": Column(folder / "labels", "u1"),
            "label_offsets": Column(folder / "label_offsets", "<i8"),
            "digests": Column(folder / "digests", "u1", row=(DIGEST_BYTES,)),
        }
        self.totals = self.committed = Totals()
        self.input_digest = ""  # of the whole input, including other shards' sentences; the job sets it at the end
        self._description = {**self.job, "vectors": kind._asdict()}
        self._open_writer = open_writer
        self._writer: VectorWriter | None = None  # None: closed, or an error occurred
        self._lock = FileLock(folder / LOCK, thread_local=False)
        with self._explained():
            self._acquire()
            try:
                self._open(fresh=fresh)
            except BaseException:
                self._close_files()
                self._lock.release()
                raise

    @property
    def num_sentences(self) -> int:
        """How many sentences were appended, in this process and before."""
        return self.totals.sentences

    def append(self, batch: EmbeddedSentences) -> None:
        """Add sentences; their numbers must rise."""
        rows, totals = self._rows_of(batch)
        with self._writing() as writer:
            writer.append(batch)
            for name, values in rows.items():
                self.columns[name].write(values)
            self.totals = totals

    def commit(self) -> None:
        """Put the appended sentences on disk. The job decides when; `close` and `finish` do it too."""
        if not self.resumable:
            return
        with self._writing() as writer:
            state = writer.sync()
            totals = self._totals_at(state["sentences"])
            if totals == self.committed:
                return
            for column in self.columns.values():
                column.sync()
            with atomic_write(self.folder / STATE) as unfinished:
                content = {"job": self._description, "totals": totals._asdict(), "file": state}
                unfinished.write_text(json.dumps(content))
            self.committed = totals

    def finish(self, target: Path) -> None:
        """Complete the file of vectors, give it its final name, and delete the folder."""
        self.commit()
        about = {
            "sentences": self.totals.sentences,
            "words": self.totals.words,
            **self.kind._asdict(),
            "input_digest": self.input_digest,
            "job": self.job,
        }
        with self._writing() as writer:
            writer.finish({name: column for name, column in self.columns.items() if name != "digests"}, about)
            self._writer = None
            replace_file(self.folder / VECTORS, target)
        self._remove()

    def close(self) -> None:
        """Commit, and leave the folder for a later process. A folder without committed sentences is deleted.

        After an error the last commit remains. After `finish` this does nothing.
        """
        if not self._lock.is_locked:
            return
        try:
            if self._writer is not None:
                self.commit()
        finally:
            if self.resumable and self.committed.sentences:
                self._close_files()
                self._lock.release()
            else:
                self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _acquire(self) -> None:
        """Lock the folder for this process, until it releases the lock or ends."""
        path = self.folder / LOCK
        while True:
            _make_folder(self.folder)
            try:
                with path.open("ab") as opened:
                    self._lock.acquire(blocking=False)
                    # The file may be that of a folder which another process has deleted, and a third one made again.
                    if path.exists() and os.path.samestat(os.fstat(opened.fileno()), path.stat()):
                        return
                    self._lock.release()
            except Timeout:
                raise InputError(
                    f"{self.folder}: another process is working on it; let it finish, or stop it first"
                ) from None
            except FileNotFoundError:  # deleted by another process
                self._lock.release()

    def _open(self, *, fresh: bool) -> None:
        path = self.folder / VECTORS
        totals, state = (Totals(), {}) if fresh else self._read_state()
        try:
            if totals.sentences:
                self._writer = self._open_writer(path, self.kind, state)
        except FormatError:
            totals = self._start_over()
        if self._writer is None:
            self._clear()
            self._writer = self._open_writer(path, self.kind, {})
        for name, column in self.columns.items():
            column.open(totals.rows[name])
        self.totals = self.committed = totals

    def _read_state(self) -> tuple[Totals, dict[str, int]]:
        """The last commit of an earlier process for the same job, and the state of its writer."""
        path = self.folder / STATE
        # A missing file of vectors has its final name already: the process was stopped before it deleted the folder.
        if not (path.exists() and (self.folder / VECTORS).exists()):
            return Totals(), {}
        try:
            content = json.loads(path.read_bytes())
            job, totals, state = dict(content["job"]), Totals(**content["totals"]), dict(content["file"])
        except (ValueError, KeyError, TypeError):
            return self._start_over(), {}
        if changes := _changes(job, self._description):
            raise InputError(
                f"{self.folder}: contains the unfinished work of another job ({'; '.join(changes)}); "
                "finish that job with its options, or delete the folder to start over (--fresh does this)"
            )
        if not self.resumable:
            return Totals(), {}
        fits = all(type(number) is int and number >= 0 for number in state.values()) and self._fits(totals)
        return (totals, state) if fits else (self._start_over(), {})

    def _fits(self, totals: Totals) -> bool:
        """Whether the columns are as long as these totals, and end with them."""
        if not all(type(total) is int for total in totals[:5]) or min(totals[:4]) < 0:
            return False
        if not all(self.columns[name].has_rows(rows) for name, rows in totals.rows.items()):
            return False
        ends = {"offsets": totals.words, "token_offsets": totals.word_bytes, "label_offsets": totals.label_bytes}
        return all(_last(self.columns[name].path, totals.rows[name]) == end for name, end in ends.items())

    def _start_over(self) -> Totals:
        warnings.warn(f"{self.folder}: the unfinished work is damaged; starting over", InputWarning, stacklevel=5)
        return Totals()

    def _rows_of(self, batch: EmbeddedSentences) -> tuple[dict[str, NDArray[Any]], Totals]:
        """The new rows of each column for a batch, and the totals after it."""
        before = self.totals
        numbers = np.array([before.last_number, *batch.numbers], dtype=np.int64)
        if (bad := np.flatnonzero(np.diff(numbers) <= 0)).size:
            previous, number = numbers[bad[0] : bad[0] + 2].tolist()
            raise InputError(f"sentence {number} comes after sentence {previous}; numbers must rise")
        lengths = np.fromiter(map(len, batch.words), np.int64, len(batch.words))
        expected = (*self.kind.row[:-1], int(lengths.sum()), self.kind.row[-1])
        if batch.vectors.shape != expected:
            raise InputError(
                f"sentences {numbers[1]} to {numbers[-1]}: their vectors have the shape {batch.vectors.shape}; it must "
                f"be {expected}"
            )
        tokens, token_sizes = pack_strings(list(chain.from_iterable(batch.words)))
        labels, label_sizes = pack_strings([label or "" for label in batch.labels])
        rows: dict[str, NDArray[Any]] = {
            "offsets": before.words + np.cumsum(lengths),
            "numbers": numbers[1:],
            "tokens": tokens,
            "token_offsets": before.word_bytes + np.cumsum(token_sizes),
            "labels": labels,
            "label_offsets": before.label_bytes + np.cumsum(label_sizes),
            "digests": np.frombuffer(bytes.fromhex("".join(batch.digests)), np.uint8),
        }
        return rows, Totals(
            sentences=before.sentences + len(lengths),
            words=before.words + len(token_sizes),
            word_bytes=before.word_bytes + len(tokens),
            label_bytes=before.label_bytes + len(labels),
            last_number=int(numbers[-1]),
            digest=batch.digests[-1] if batch.digests else before.digest,
        )

    def _totals_at(self, sentences: int) -> Totals:
        """The totals after this many sentences."""
        if sentences in (0, self.totals.sentences):
            return self.totals if sentences else Totals()
        columns = self.columns
        words = _only(columns["offsets"], sentences)
        return Totals(
            sentences=sentences,
            words=words,
            word_bytes=_only(columns["token_offsets"], words),
            label_bytes=_only(columns["label_offsets"], sentences),
            last_number=_only(columns["numbers"], sentences - 1),
            digest=columns["digests"].read(sentences - 1, sentences).tobytes().hex(),
        )

    @contextmanager
    def _writing(self) -> Iterator[VectorWriter]:
        """Close all files after an error, because some columns may have more sentences than others."""
        if self._writer is None:
            raise InputError(f"{self.folder}: is closed")
        try:
            with self._explained():
                yield self._writer
        except BaseException:
            self._close_files()
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ElmoreError:
            raise
        except OSError as error:
            problem = cannot_be_written(self.folder, error)
            if self.committed.sentences:
                problem.args = (f"{problem}; the same command resumes from the last commit",)
            raise problem from error

    def _close_files(self) -> None:
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
            self._writer = None
        for column in self.columns.values():
            with suppress(OSError):
                column.close()

    def _remove(self) -> None:
        """Delete the folder, and release the lock only when no other process can use the folder any more."""
        self._close_files()
        self._clear()
        if os.name != "posix":  # where an open file cannot be deleted
            self._lock.release()
        with suppress(OSError):
            (self.folder / LOCK).unlink()
            self.folder.rmdir()
        self._lock.release()

    def _clear(self) -> None:
        """Delete all files but the lock; the commit first, because it refers to the others."""
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name != STATE):
            if path.name != LOCK:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _make_folder(folder: Path) -> None:
    check_parent_folder(folder)
    if not folder.exists():
        make_folder(folder)
    # The folder will be deleted, so it must not contain files of other programs.
    elif not folder.is_dir() or (any(folder.iterdir()) and not (folder / LOCK).exists()):
        raise InputError(
            f"{folder}: is not a folder of Elmore; unfinished work needs a folder of this name, so move the other one"
        )


def _only(column: Column, row: int) -> int:
    return int(column.read(row, row + 1)[0])


def _last(path: Path, rows: int) -> int:
    return int(np.fromfile(path, "<i8", count=1, offset=8 * (rows - 1))[0])


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The fields that differ, as text for an error message."""
    return [
        f"{field} was {_shown(before.get(field))} and is now {_shown(now.get(field))}"
        for field in dict.fromkeys((*before, *now))
        if before.get(field) != now.get(field)
    ]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
