"""Children of a process that has used torch with several threads: without care they wait forever."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cpu_environment import ON_THE_CPU
from forked_work import SECONDS, WORK

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
PROGRAM = Path(__file__).resolve().parents[1] / "forked_work.py"


@pytest.mark.parametrize("mode", ["inherited", "loaded", "unprepared"])
def test_forked_child_works_after_parent_used_torch(mode: str) -> None:
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), mode, *WORK],
        env=ON_THE_CPU,
        capture_output=True,
        text=True,
        timeout=len(WORK) * (SECONDS + 30),
        check=False,
    )
    assert ended.stdout.split() == list(WORK), ended.stderr
