import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest
import torch
from filelock import FileLock

from elmore.tasks.comparison.processes import JobEnded, JobEvent, JobFailed, JobWarned, run_jobs
from spawned_jobs import LONG, NUMBER, Count, Fail, WaitForEver, WarnBeside

TESTS = Path(__file__).resolve().parents[2]


def of(number: int, events: list[JobEvent]) -> list:
    return [event.event for event in events if event.number == number]


def test_jobs_run_in_processes_of_their_own_and_what_goes_wrong_in_one_does_not_touch_the_others():
    events = list(run_jobs([Count(3), Fail("refuses"), Fail("dies")], at_once=2))
    *numbers, (_, process, threads), last = of(0, events)
    assert (numbers, last) == ([0, 1, 2], JobEnded())
    assert process != os.getpid()
    assert threads == 1  # of two at once on a machine, each has one
    assert of(1, events)[:2] == [1, JobWarned("look out")]
    assert of(1, events)[-1].error == "the file is empty"
    assert of(2, events)[-1].error.startswith("its process ended with exit code 9")


@pytest.mark.parametrize(("at_once", "number", "threads"), [(2, 2, 2), (3, 4, 1), (9, 2, 2), (1, 1, 4)])
def test_run_jobs_divides_threads_among_processes(at_once, number, threads):
    torch.set_num_threads(4)
    try:
        events = list(run_jobs([Count(1)] * number, at_once=at_once))
    finally:
        torch.set_num_threads(1)
    assert {event.event[2] for event in events if isinstance(event.event, tuple) and event.event} == {threads}


def test_run_jobs_starts_no_more_processes_than_system_allows(monkeypatch):
    monkeypatch.setattr("elmore.tasks.comparison.processes.MOST_PROCESSES", 1)
    events = list(run_jobs([Count(2), Count(2)], at_once=100))
    assert [event.number for event in events] == [0] * 4 + [1] * 4


def test_warnings_of_threads_do_not_run_into_other_events():
    events = list(run_jobs([WarnBeside()], at_once=1))
    assert events.count(JobEvent(0, LONG)) == events.count(JobEvent(0, JobWarned(LONG.decode()))) == NUMBER
    assert events[-1] == JobEvent(0, JobEnded())


def test_without_processes_the_same_is_told():
    with pytest.warns(UserWarning, match="look out"):
        events = list(run_jobs([Fail("refuses"), Fail("breaks"), Count(2)], at_once=0))
    assert [type(event) for event in of(0, events)] == [int, JobFailed]
    broken = of(1, events)[-1]
    assert broken.error == "KeyError: 'word'"
    assert "spawned_jobs.py" in broken.traceback
    *numbers, (_, process, _), last = of(2, events)
    assert (numbers, process, last) == ([0, 1], os.getpid(), JobEnded())


def test_a_stop_reaches_jobs_that_run_and_those_that_wait_are_not_begun(tmp_path):
    stopped = Event()
    told = []
    for event in run_jobs([WaitForEver(tmp_path / "lock"), Count(3)], at_once=1, stop_requested=stopped.is_set):
        told.append(event)
        stopped.set()
    assert told == [JobEvent(0, "holds the lock"), JobEvent(0, "stopped"), JobEvent(0, JobEnded())]


def test_a_process_ends_when_nobody_listens_any_more(tmp_path):
    events = run_jobs([WaitForEver(tmp_path / "lock")], at_once=1)
    assert next(events).event == "holds the lock"
    events.close()
    # Free at once, for the process is gone; a lock that is held would be waited for in vain.
    FileLock(tmp_path / "lock").acquire(timeout=0)


@pytest.mark.skipif(os.name != "posix", reason="kills a process as only POSIX has it")
def test_a_process_ends_when_its_parent_was_killed(tmp_path):
    lock = tmp_path / "lock"
    command = [sys.executable, str(TESTS / "spawned_jobs.py"), str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "holds the lock\n"
        parent.send_signal(signal.SIGKILL)
    FileLock(lock).acquire(timeout=60)
