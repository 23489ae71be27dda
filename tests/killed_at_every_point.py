"""Kill a process at every point of a piece of work, and check each time what it left.

    python tests/killed_at_every_point.py FOLDER

A point is the moment before or after a system call that syncs, renames, exchanges or removes. For each point, a child
does the work from the same old state and kills itself there with SIGKILL. The result must be the complete old state or
the complete new one. Prints the number of points for each work. A separate process, because a child is a fork.
"""

import json
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch

from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import VectorType, parquet, writer_for
from elmore.embedding.vectors import open_vectors
from elmore.files import atomic_files
from elmore.files.atomic_files import atomic_write, atomic_write_folder
from elmore.training.checkpoints import Snapshot, TrainingCheckpoints
from elmore.training.log import JsonLog, read_log
from embedded_sentences import DIM, numbered

CALLS = ("fsync", "rename", "replace", "unlink", "rmdir")


class File:
    """A file in the place of another."""

    def old(self, folder: Path) -> None:
        (folder / "file").write_text("old")

    def work(self, folder: Path) -> None:
        with atomic_write(folder / "file") as unfinished:
            unfinished.write_text("new")

    def check(self, folder: Path) -> str:
        return (folder / "file").read_text()


class Folder:
    """A folder that replaces another by an exchange of their names: the name always exists."""

    def old(self, folder: Path) -> None:
        self._write(folder, "old")

    def work(self, folder: Path) -> None:
        self._write(folder, "new")

    def check(self, folder: Path) -> str:
        a, b = (folder / "model" / "a").read_text(), (folder / "model" / "b").read_text()
        assert a == b
        return a

    def _write(self, folder: Path, text: str) -> None:
        with atomic_write_folder(folder / "model", replaces=["a", "b"]) as unfinished:
            for name in ("a", "b"):
                (unfinished / name).write_text(text)


class FolderWithoutExchange(Folder):
    """A folder that replaces another by renames, and gets its name back before it is read."""

    def work(self, folder: Path) -> None:
        atomic_files._exchange_at_once = lambda *_: False
        super().work(folder)

    def check(self, folder: Path) -> str:
        atomic_files.restore_folder(folder / "model")
        found = super().check(folder)
        # A later write removes the leftovers of this one.
        self._write(folder, "newer")
        assert super().check(folder) == "newer"
        assert not list(folder.glob(".old-*"))
        return found


class SpoolCommit:
    """A commit of unfinished vectors, in each kind of file."""

    def __init__(self, name: str) -> None:
        self.name = name
        # A Parquet file waits for a sentence that no longer fits into the row group.
        self.waiting = 1 if name.endswith(".parquet") else 0

    def old(self, folder: Path) -> None:
        with self._spool(folder) as spool:
            spool.append(numbered(range(1, 2 + self.waiting)))

    def work(self, folder: Path) -> None:
        with self._spool(folder) as spool:
            spool.append(numbered(range(2, 3 + self.waiting)))
            spool.commit()
            spool.append(numbered([3 + self.waiting]))

    def check(self, folder: Path) -> str:
        with self._spool(folder) as spool:
            found = spool.num_sentences
            spool.append(numbered(range(found + 1, 5)))
            spool.finish(folder / self.name)
        assert_file_of(folder / self.name, sentences=4)
        return {1: "old", 2: "between two commits", 3: "new"}[found]

    def _spool(self, folder: Path) -> Spool:
        parquet.ROW_GROUP_BYTES = 1  # a row group for each sentence
        return Spool(folder / "work", {"job": 1}, writer_for(self.name), VectorType(DIM))


class SpoolFinish(SpoolCommit):
    """The end of a job: the file of vectors is completed and gets its name, and the work folder disappears."""

    def old(self, folder: Path) -> None:
        with self._spool(folder) as spool:
            spool.append(numbered(range(1, 5)))

    def work(self, folder: Path) -> None:
        with self._spool(folder) as spool:
            spool.append(numbered(range(spool.num_sentences + 1, 5)))
            spool.finish(folder / self.name)

    def check(self, folder: Path) -> str:
        if (folder / self.name).exists():
            assert_file_of(folder / self.name, sentences=4)
            with self._spool(folder) as spool:
                assert spool.num_sentences == 0
            assert [path.name for path in folder.iterdir()] == [self.name]
            return "new"
        with self._spool(folder) as spool:
            assert spool.num_sentences == 4 - self.waiting
            spool.append(numbered(range(spool.num_sentences + 1, 5)))
            spool.finish(folder / self.name)
        assert_file_of(folder / self.name, sentences=4)
        return "old"


WHOLE: dict[str, bytes] = {}


def assert_file_of(path: Path, *, sentences: int) -> None:
    """A file has these sentences, and the same bytes as at the first point."""
    with open_vectors(path) as vectors:
        assert [vectors.tokens(i) for i in range(len(vectors))] == numbered(range(1, sentences + 1)).words
    assert WHOLE.setdefault(path.name, path.read_bytes()) == path.read_bytes()


class TrainingCheckpoint:
    """A checkpoint of a training, after which the one before is removed."""

    def old(self, folder: Path) -> None:
        self._save(folder, 1)

    def work(self, folder: Path) -> None:
        self._save(folder, 2)

    def check(self, folder: Path) -> str:
        found = TrainingCheckpoints(folder, keep=1).newest()
        assert found.tensors["weight"].tolist() == [found.progress["step"]] * 3
        return {1: "old", 2: "new"}[found.progress["step"]]

    def _save(self, folder: Path, step: int) -> None:
        TrainingCheckpoints(folder, keep=1).save(step, Snapshot({"weight": torch.full((3,), float(step))}, {}))


class RewoundLog:
    """A log of which the end is forgotten."""

    def old(self, folder: Path) -> None:
        log = JsonLog(folder / "log.jsonl")
        for step in range(4):
            log.write(step=step)
        log.close()

    def work(self, folder: Path) -> None:
        JsonLog(folder / "log.jsonl").rewind(1)

    def check(self, folder: Path) -> str:
        return {4: "old", 2: "new"}[len(read_log(folder / "log.jsonl"))]


SUFFIXES = (".h5", ".npz", ".parquet")

WORKS: dict[str, Any] = {
    "File": File(),
    "Folder": Folder(),
    **{f"SpoolCommit{suffix}": SpoolCommit(f"v{suffix}") for suffix in SUFFIXES},
    **{f"SpoolFinish{suffix}": SpoolFinish(f"v{suffix}") for suffix in SUFFIXES},
    "TrainingCheckpoint": TrainingCheckpoint(),
    "RewoundLog": RewoundLog(),
}


def main(folder: Path) -> None:
    warnings.simplefilter("error")  # damaged work is started over with a warning
    print(json.dumps({name: points_survived(work, folder) for name, work in WORKS.items()}))


def points_survived(work: Any, folder: Path) -> int:
    seen = []
    for point in count():
        place = folder / str(point)
        place.mkdir()
        work.old(place)
        killed = dies(lambda place=place: work.work(place), at=point)
        seen.append(work.check(place))
        shutil.rmtree(place)
        if not killed:
            break
    assert seen[0] == "old", seen
    assert seen[-1] == "new", seen
    assert seen == sorted(seen, key=["old", "between two commits", "new"].index), seen  # never back
    return len(seen) - 1


def dies(work: Callable[[], None], *, at: int) -> bool:
    """Whether a child was killed at that point of its work; if not, it has done all of it."""
    child = os.fork()
    if not child:
        kill_at(at)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def kill_at(point: int) -> None:
    """Have this process kill itself at a point: before or after one of the calls."""
    points = count()

    def pass_point() -> None:
        if next(points) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def calling(*arguments: Any, **options: Any) -> Any:
            pass_point()
            result = call(*arguments, **options)
            pass_point()
            return result

        return calling

    for name in CALLS:
        setattr(os, name, watched(getattr(os, name)))
    atomic_files._exchange_at_once = watched(atomic_files._exchange_at_once)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
