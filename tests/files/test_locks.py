import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import pytest

from elmore.errors import ElmoreError, InputError, InputWarning
from elmore.files.locks import file_lock

HOLDER = """
import sys
from pathlib import Path
from elmore.files.locks import file_lock
with file_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the lock file `lock` until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_file_lock_rejects_second_process_at_once(tmp_path: Path, holder: subprocess.Popen) -> None:
    with (
        pytest.raises(InputError, match="the folder is in use"),
        file_lock(tmp_path / "lock", timeout=0, busy="the folder is in use"),
    ):
        pytest.fail("the lock was held twice")


def test_file_lock_waits_for_end_of_other_process(tmp_path: Path, holder: subprocess.Popen) -> None:
    assert holder.stdin is not None
    holder.stdin.close()
    with file_lock(tmp_path / "lock", timeout=60):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill -9")
def test_file_lock_is_freed_by_kill(tmp_path: Path, holder: subprocess.Popen) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait(timeout=60)
    with file_lock(tmp_path / "lock", timeout=0):
        pass


def test_file_lock_released_by_other_thread_is_free(tmp_path: Path) -> None:
    lock = file_lock(tmp_path / "lock", timeout=0)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lock.__enter__).result()
    lock.__exit__(None, None, None)
    with file_lock(tmp_path / "lock", timeout=0):
        pass


def test_file_lock_that_cannot_be_created_names_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ElmoreError, match=r"file/lock: cannot be written"), file_lock(tmp_path / "file" / "lock"):
        pytest.fail("a lock was held without a file")


def test_file_lock_without_support_of_file_system_warns(tmp_path: Path, monkeypatch) -> None:
    def acquire(*_: object, **__: object) -> None:
        raise NotImplementedError("FileSystem does not appear to support flock; use SoftFileLock instead")

    monkeypatch.setattr(filelock.FileLock, "acquire", acquire)
    with pytest.warns(InputWarning, match="this file system has no locks"), file_lock(tmp_path / "lock"):
        pass


def test_locks_are_imported_without_filelock() -> None:
    code = "import sys, elmore.files.locks, elmore.sources.downloads; print('filelock' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout == "False\n"
