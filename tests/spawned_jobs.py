"""Jobs for processes of their own, which import them from here."""

import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from filelock import FileLock

from elmore.errors import InputError
from elmore.tasks.comparison.processes import run_jobs
from elmore.training.run import Run

LONG, NUMBER = b"long" * 20_000, 200  # too long to be sent in one piece


@dataclass(frozen=True)
class Count:
    """Tells numbers, the process it is in, and how many threads it has."""

    until: int

    def start(self) -> Run:
        torch = sys.modules.get("torch")
        threads = None if torch is None else torch.get_num_threads()
        return Run(lambda _: iter([*range(self.until), ("process", os.getpid(), threads)]))


@dataclass(frozen=True)
class Fail:
    """Goes wrong, in one way or another."""

    how: str

    def start(self) -> Run:
        return Run(lambda _: self._events())

    def _events(self) -> Iterator[int]:
        yield 1
        warnings.warn("look out", stacklevel=1)
        if self.how == "dies":
            os._exit(9)
        raise InputError("the file is empty") if self.how == "refuses" else KeyError("word")


class WarnBeside:
    """Tells long events while a thread warns of something."""

    def start(self) -> Run:
        return Run(lambda _: self._events())

    def _events(self) -> Iterator[bytes]:
        thread = Thread(target=self._warn)
        thread.start()
        for _ in range(NUMBER):
            yield LONG
        thread.join()

    def _warn(self) -> None:
        warnings.simplefilter("always")
        for _ in range(NUMBER):
            warnings.warn(LONG.decode(), stacklevel=1)


class WaitForEver:
    """Does nothing, until it is asked to stop."""

    def __init__(self, lock: Path) -> None:
        self.lock = lock

    def start(self) -> "_Waiting":
        return _Waiting(self.lock)


class _Waiting:
    def __init__(self, lock: Path) -> None:
        self._lock, self._stopped = lock, Event()

    def __iter__(self) -> Iterator[str]:
        with FileLock(self._lock):
            yield "holds the lock"
            self._stopped.wait()
            yield "stopped"

    def stop(self) -> None:
        self._stopped.set()


if __name__ == "__main__":
    for _, event in run_jobs([WaitForEver(Path(sys.argv[1]))], at_once=1):
        print(event, flush=True)
