"""A program that keeps one core busy while others are timed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Self

from quiet_machine import TICKS

WORK = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"


class BusyCore:
    """Between entering and leaving, one core has something else to do all the time."""

    def __enter__(self) -> Self:
        core = min(os.sched_getaffinity(0))
        self._process = subprocess.Popen([sys.executable, "-c", WORK, str(core)], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it has begun
        return self

    def processor_time(self) -> float:
        """The seconds of processor time that it has had."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()
