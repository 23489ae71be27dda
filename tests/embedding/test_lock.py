import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from elmore.embedding.lock import lock
from elmore.errors import InputError

HOLD = """
import sys, pathlib
from elmore.embedding.lock import lock
held = lock(pathlib.Path(sys.argv[1]), what="it")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no kill -9 here")
def test_a_second_process_is_refused_until_the_first_is_gone_even_by_kill_9(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=r"vectors.partial: another process"):
            lock(path, what="vectors.partial")
        child.send_signal(signal.SIGKILL)
        child.wait()
    lock(path, what="vectors.partial").close()
