"""Run jobs in separate processes, several in parallel, and yield their events in one stream.

A process ends when its parent has ended, in any way. If a job fails, the others continue.
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

SECONDS_BETWEEN_CHECKS = 0.2  # for a stop request
STOP = "stop"


class RunningJob(Protocol):
    """The events of a job. `stop` requests that it saves its state and ends."""

    def __iter__(self) -> Iterator[Any]: ...

    def stop(self) -> None: ...


class Job(Protocol):
    """A unit of work that can be sent to another process."""

    def start(self) -> RunningJob: ...


class JobWarned(NamedTuple):
    """A warning that was raised in the process of a job."""

    text: str


class JobEnded(NamedTuple):
    """The last event of a job that did not fail."""


class JobFailed(NamedTuple):
    """The last event of a job that failed."""

    error: str
    traceback: str


class JobEvent(NamedTuple):
    """An event of a job."""

    number: int  # of the job, from 0
    event: Any


def run_jobs(
    jobs: Sequence[Job], *, at_once: int, stop_requested: Callable[[], bool] = lambda: False
) -> Iterator[JobEvent]:
    """Run all jobs, `at_once` in parallel in separate processes; with 0, sequentially in this process."""
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
        except Exception as error:  # noqa: BLE001  # reported as an event; the other jobs continue
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
        # The limit of `wait` for connections.
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
                self._stop_if_requested()
                while self._waiting and len(self._running) < self._at_once:
                    self._start(*self._waiting.pop(0))
                for connection in wait([running.connection for running in self._running], SECONDS_BETWEEN_CHECKS):
                    started = next(running for running in self._running if running.connection is connection)
                    yield JobEvent(started.number, self._received(started))
        finally:
            for started in self._running:
                started.process.kill()
            for started in self._running:
                started.process.join()

    def _start(self, number: int, job: Job) -> None:
        # Spawned, because a process with threads or a GPU must not be forked.
        context = get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(job, there, self._threads))
        with _ctrl_c_ignored():
            process.start()
        there.close()
        self._running.append(_Started(number, process, here))

    def _received(self, started: _Started) -> Any:
        """The next event of a job. After the last event, its process has ended."""
        try:
            event = started.connection.recv()
        except (EOFError, OSError):
            started.process.join()
            code = started.process.exitcode
            event = JobFailed(
                f"its process ended with exit code {code}; if memory was too small, run fewer jobs in parallel. "
                '(A Python script must call compare under: if __name__ == "__main__":)',
                "",
            )
        if isinstance(event, JobEnded | JobFailed):
            self._running.remove(started)
            started.process.join()
            started.connection.close()
        return event

    def _stop_if_requested(self) -> None:
        if self._is_stopping or not self._stop_requested():
            return
        self._is_stopping = True
        self._waiting.clear()
        for started in self._running:
            with suppress(OSError):  # the process may have ended
                started.connection.send(STOP)


@contextmanager
def _ctrl_c_ignored() -> Iterator[None]:
    """Ignore Ctrl-C in new processes. A terminal sends it to all processes; the parent handles it for the others."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _work(job: Job, connection: "Connection[Any, Any]", threads: int) -> None:
    """The main function of a job's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Imported here: it takes seconds, and the parent may need no process.
    import torch

    torch.set_num_threads(threads)
    set_threads(threads)
    lock = threading.Lock()

    def send(event: Any) -> None:
        # A thread that collates batches may warn while another event is being sent.
        with lock:
            connection.send(event)

    warnings.showwarning = lambda message, *_, **__: send(JobWarned(str(message)))
    try:
        running = job.start()
        threading.Thread(target=_listen, args=(connection, running), daemon=True).start()
        for event in running:
            send(event)
    except Exception as error:  # noqa: BLE001  # reported as an event
        send(_failure(error))
    else:
        send(JobEnded())


def _listen(connection: "Connection[Any, Any]", running: RunningJob) -> None:
    """Handle the parent's stop requests, and end this process when the parent has ended."""
    try:
        while connection.recv() == STOP:
            running.stop()
    except (EOFError, OSError):
        os._exit(1)


def _failure(error: Exception) -> JobFailed:
    text = str(error) if isinstance(error, ElmoreError) else f"{type(error).__name__}: {error}"
    return JobFailed(text, "".join(traceback.format_exception(error)))
