"""The thread that writes: order, bounds, errors, and Ctrl-C. No test waits for a time; events say what has happened."""

import gc
import os
import signal
import subprocess
import sys
import weakref
from threading import Event, current_thread, main_thread

import pytest

from elmore.embedding import writer_thread
from elmore.embedding.writer_thread import WriterThread

SECONDS = 60  # of a wait that ends at once if all is well


class Gate:
    """A function that waits at each item until it is opened."""

    def __init__(self) -> None:
        self.begun, self.open = Event(), Event()
        self.written: list[object] = []

    def write(self, item: object) -> None:
        self.begun.set()
        assert self.open.wait(SECONDS)
        self.written.append(item)


def test_writer_thread_writes_in_order_in_another_thread() -> None:
    written = []
    with WriterThread(lambda item: written.append((item, current_thread()))) as thread:
        for number in range(100):
            thread.put(number, size=1)
    assert [item for item, _ in written] == list(range(100))
    assert {each for _, each in written} != {main_thread()}


def test_writer_thread_lets_the_caller_go_on_while_it_writes() -> None:
    gate = Gate()
    with WriterThread(gate.write) as thread:
        thread.put("first", size=10)
        assert gate.begun.wait(SECONDS)
        thread.put("second", size=10)
        assert gate.written == []
        gate.open.set()
    assert gate.written == ["first", "second"]


@pytest.mark.parametrize(("size", "waits"), [(40, False), (41, True)])
def test_writer_thread_put_waits_beyond_its_bound(monkeypatch, size: int, waits: bool) -> None:
    gate, waited = Gate(), Event()
    with WriterThread(gate.write, max_bytes=100) as thread:
        wait = thread._changed.wait

        def noting(timeout: float | None = None) -> bool:
            if current_thread() is main_thread():
                waited.set()
                gate.open.set()
            return wait(timeout)

        monkeypatch.setattr(thread._changed, "wait", noting)
        thread.put("first", size=60)
        thread.put("second", size=size)
        assert waited.is_set() == waits
        gate.open.set()
    assert gate.written == ["first", "second"]


def test_writer_thread_takes_one_item_larger_than_its_bound() -> None:
    written = []
    with WriterThread(written.append, max_bytes=10) as thread:
        for number in range(3):
            thread.put(number, size=1000)
    assert written == [0, 1, 2]


def test_writer_thread_put_raises_the_error_of_a_write() -> None:
    written = []

    def failing(item: int) -> None:
        if item == 2:
            raise OSError(28, "No space left on device")
        written.append(item)

    with pytest.raises(OSError, match="No space left"), WriterThread(failing, max_bytes=1) as thread:  # noqa: PT012
        for number in range(1000):
            thread.put(number, size=1)
    assert written == [0, 1]


def test_writer_thread_raises_the_error_of_the_last_write_at_its_end() -> None:
    with pytest.raises(ZeroDivisionError), WriterThread(lambda item: 1 // item) as thread:
        thread.put(0, size=1)


def test_writer_thread_writes_what_waits_when_the_caller_fails() -> None:
    gate = Gate()
    with pytest.raises(KeyError), WriterThread(gate.write) as thread:  # noqa: PT012
        thread.put("first", size=1)
        thread.put("second", size=1)
        gate.open.set()
        raise KeyError
    assert gate.written == ["first", "second"]


def test_writer_thread_forgets_what_it_wrote() -> None:
    class Item:
        pass

    done = Event()
    with WriterThread(lambda item: done.set() if item is None else None) as thread:
        item = Item()
        found = weakref.ref(item)
        thread.put(item, size=1)
        del item
        thread.put(None, size=1)
        assert done.wait(SECONDS)
        gc.collect()
        assert found() is None


def test_writer_thread_ends_with_its_item_when_stopped_again(monkeypatch) -> None:
    monkeypatch.setattr(writer_thread, "WAKE_SECONDS", 0.01)
    gate = Gate()
    thread = WriterThread(gate.write)
    join, stops = thread._thread.join, iter([KeyboardInterrupt, None])

    def stopped(timeout: float) -> None:
        if next(stops, None) is not None:
            raise KeyboardInterrupt
        gate.open.set()
        join(timeout)

    monkeypatch.setattr(thread._thread, "join", stopped)
    with pytest.raises(KeyboardInterrupt), thread:  # noqa: PT012
        thread.put("first", size=1)
        assert gate.begun.wait(SECONDS)
        thread.put("second", size=1)
    assert gate.written == ["first"]


CTRL_C = """
import threading, time
from elmore.embedding.writer_thread import WriterThread

begun, stop = threading.Event(), threading.Event()

def write(item):
    if item == 0:
        while thread._unwritten_bytes < 10:
            time.sleep(0.01)
        print("writing", flush=True)
    stop.wait(60)
    written.append(item)

written = []
try:
    with WriterThread(write, max_bytes=10) as thread:
        try:
            for number in range(100):
                thread.put(number, size=5)  # waits at the third
        except KeyboardInterrupt:
            stop.set()
            raise
except KeyboardInterrupt:
    print("stopped", written)
"""


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent the POSIX way")
def test_writer_thread_put_is_interrupted_by_ctrl_c() -> None:
    with subprocess.Popen([sys.executable, "-c", CTRL_C], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "writing\n"
            child.send_signal(signal.SIGINT)
            assert child.communicate(timeout=SECONDS)[0] == "stopped [0, 1]\n"
        finally:
            child.kill()
