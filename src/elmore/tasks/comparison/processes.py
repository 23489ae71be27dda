"""Jobs in processes of their own, some at once; what they tell comes back in one stream.

A process whose parent is gone, however it went, ends by itself. What goes wrong in one does not touch the others.
"""

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NamedTuple, Protocol

from elmore.cpus import MOST_PROCESSES
from elmore.engine.threads import set_threads
from elmore.errors import ElmoreError

SECONDS_BETWEEN_LOOKS = 0.2  # whether the user has asked to stop
STOP = "stop"


class RunningJob(Protocol):
    """The events of a job, which can be asked to save and end."""

    def __iter__(self) -> Iterator[Any]: ...

    def stop(self) -> None: ...


class Job(Protocol):
    """Something to do; it can be sent to another process."""

    def start(self) -> RunningJob: ...


class JobWarned(NamedTuple):
    """A warning, from a process of its own."""

    text: str


class JobEnded(NamedTuple):
    """Of every job that did not fail, the last event."""


class JobFailed(NamedTuple):
    """Of every job that failed, the last event."""

    error: str
    traceback: str


class JobEvent(NamedTuple):
    """What a job tells."""

    number: int  # of the job, from 0
    event: Any


def run_jobs(
    jobs: Sequence[Job], *, at_once: int, stop_requested: Callable[[], bool] = lambda: False
) -> Iterator[JobEvent]:
    """Do all jobs, so many at once in processes of their own, or with 0 one after another in this one."""
    return _run_here(jobs, stop_requested) if at_once == 0 else _Processes(jobs, at_once, stop_requested).events()


def _run_here(jobs: Sequence[Job], stop_requested: Callable[[], bool]) -> Iterator[JobEvent]:
    for number, job in enumerate(jobs):
        if stop_requested():
            return
        try:
            running = job.start()
            for event in running:
                yield JobEvent(number, event)
                if stop_requested():
                    running.stop()
        except Exception as error:  # noqa: BLE001  # whatever goes wrong is told, and the others go on
            yield JobEvent(number, _failure(error))
        else:
            yield JobEvent(number, JobEnded())


@dataclass(frozen=True)
class _Started:
    number: int
    process: SpawnProcess
    connection: "Connection[Any, Any]"


class _Processes:
    def __init__(self, jobs: Sequence[Job], at_once: int, stop_requested: Callable[[], bool]) -> None:
        self._waiting = list(enumerate(jobs))
        # More would run; but `wait` takes no more connections than this.
        self._at_once, self._stop_requested = min(at_once, MOST_PROCESSES), stop_requested
        # Imported here: it takes seconds, and run_jobs may have no job for another process.
        import torch

        # Jobs share the threads of this process: more threads than cores make each job slower.
        self._threads = max(1, torch.get_num_threads() // min(self._at_once, len(jobs) or 1))
        self._running: list[_Started] = []
        self._is_stopping = False

    def events(self) -> Iterator[JobEvent]:
        try:
            while self._waiting or self._running:
                self._stop_if_asked()
                while self._waiting and len(self._running) < self._at_once:
                    self._start(*self._waiting.pop(0))
                for connection in wait([one.connection for one in self._running], SECONDS_BETWEEN_LOOKS):
                    started = next(one for one in self._running if one.connection is connection)
                    yield JobEvent(started.number, self._received(started))
        finally:
            for one in self._running:
                one.process.kill()
            for one in self._running:
                one.process.join()

    def _start(self, number: int, job: Job) -> None:
        # Spawned, because a process that has threads, or a GPU, must not be forked.
        context = get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(job, there, self._threads))
        with _ctrl_c_ignored():
            process.start()
        there.close()
        self._running.append(_Started(number, process, here))

    def _received(self, started: _Started) -> Any:
        """The next event of a job; after the last one its process is gone."""
        try:
            event = started.connection.recv()
        except (EOFError, OSError):
            started.process.join()
            code = started.process.exitcode
            event = JobFailed(
                f"its process died (exit code {code}), perhaps for want of memory; try fewer at once. "
                '(A Python script must call this under: if __name__ == "__main__":)',
                "",
            )
        if isinstance(event, JobEnded | JobFailed):
            self._running.remove(started)
            started.process.join()
            started.connection.close()
        return event

    def _stop_if_asked(self) -> None:
        if self._is_stopping or not self._stop_requested():
            return
        self._is_stopping = True
        self._waiting.clear()
        for one in self._running:
            with suppress(OSError):  # one that has just ended
                one.connection.send(STOP)


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; those started here are told by their parent, which hears it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _work(job: Job, connection: "Connection[Any, Any]", threads: int) -> None:
    """What a process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Imported here: it takes seconds, and the parent may need no process.
    import torch

    torch.set_num_threads(threads)
    set_threads(threads)
    one_at_a_time = threading.Lock()

    def send(event: Any) -> None:
        # A thread that makes batches may warn of something while another event is on its way.
        with one_at_a_time:
            connection.send(event)

    warnings.showwarning = lambda message, *_, **__: send(JobWarned(str(message)))
    try:
        running = job.start()
        threading.Thread(target=_listen, args=(connection, running), daemon=True).start()
        for event in running:
            send(event)
    except Exception as error:  # noqa: BLE001  # whatever goes wrong is told
        send(_failure(error))
    else:
        send(JobEnded())


def _listen(connection: "Connection[Any, Any]", running: RunningJob) -> None:
    """Do as the parent says, and end when it has ended."""
    try:
        while connection.recv() == STOP:
            running.stop()
    except (EOFError, OSError):
        os._exit(1)


def _failure(error: Exception) -> JobFailed:
    text = str(error) if isinstance(error, ElmoreError) else f"{type(error).__name__}: {error}"
    return JobFailed(text, "".join(traceback.format_exception(error)))
