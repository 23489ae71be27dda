"""The lock that keeps two processes from fetching the same file."""

import subprocess
import sys
import threading

from elmore.sources.locking import locked


def test_only_one_at_a_time_is_inside(tmp_path):
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        with locked(tmp_path / "lock"):
            inside += 1
            most = max(most, inside)
            threading.Event().wait(0.01)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_killed_process_leaves_no_lock_behind(tmp_path):
    program = f"""
from pathlib import Path
from elmore.sources.locking import locked
with locked(Path({str(tmp_path / "lock")!r})):
    print("inside", flush=True)
    input()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"inside\n"
        holder.kill()
    with locked(tmp_path / "lock"):
        pass
