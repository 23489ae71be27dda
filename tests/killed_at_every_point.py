"""Kill a process at every point of a piece of work, and look each time what it left.

    python tests/killed_at_every_point.py FOLDER

A point is the moment before or after the system is asked to sync, rename or remove. For each, a child does the work
from the same old state and kills itself there with SIGKILL; what it left must be the old state or the new one, whole.
Prints for each work how many points there were. In a process of its own, because a child is a fork.
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

import numpy as np
import torch

from elmore.atomic_files import atomic_write, atomic_write_folder
from elmore.embedding.spool import EmbeddedSentence, Spool
from elmore.training.checkpoints import Snapshot, TrainingCheckpoints
from elmore.training.log import JsonLog, read_log

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
    """A folder in the place of another, which between two renames has a hidden name."""

    def old(self, folder: Path) -> None:
        self._write(folder, "old")

    def work(self, folder: Path) -> None:
        self._write(folder, "new")

    def check(self, folder: Path) -> str:
        there = folder / "model"
        if not there.exists():
            (there,) = folder.glob(".old-*-model")
        a, b = (there / "a").read_text(), (there / "b").read_text()
        assert a == b
        return a

    def _write(self, folder: Path, text: str) -> None:
        with atomic_write_folder(folder / "model", replaces=["a", "b"]) as unfinished:
            for name in ("a", "b"):
                (unfinished / name).write_text(text)


class SpoolCommit:
    """A commit of unfinished work."""

    def old(self, folder: Path) -> None:
        with self._spool(folder) as spool:
            spool.append(self._sentence(0))

    def work(self, folder: Path) -> None:
        with self._spool(folder) as spool:
            spool.append(self._sentence(1))
            spool.commit()
            spool.append(self._sentence(2))

    def check(self, folder: Path) -> str:
        with self._spool(folder) as spool:
            for number, found in enumerate(spool):
                expected = self._sentence(number)
                assert found[:3] == expected[:3]
                np.testing.assert_array_equal(found.vectors, expected.vectors)
            return {1: "old", 2: "between two commits", 3: "new"}[spool.done]

    def _spool(self, folder: Path) -> Spool:
        return Spool(folder / "work", {"job": 1}, dim=4)

    def _sentence(self, number: int) -> EmbeddedSentence:
        words = ["a", "bow", "too"][: number + 1]
        vectors = np.full((len(words), 4), number, dtype=np.float32)
        return EmbeddedSentence(number, words, f"s{number}", vectors)


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


WORKS: tuple[Any, ...] = (File(), Folder(), SpoolCommit(), TrainingCheckpoint(), RewoundLog())


def main(folder: Path) -> None:
    warnings.simplefilter("error")  # work that is found damaged is told of, and would be done anew
    print(json.dumps({type(work).__name__: points_survived(work, folder) for work in WORKS}))


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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
