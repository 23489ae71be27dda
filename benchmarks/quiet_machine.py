"""How much else a machine does while something is timed on it, and how to wait until it does less."""

import os
import time
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
STEP = 0.5  # seconds that are looked at
QUIET = 0.1  # of the machine's time, taken by others


class Others(NamedTuple):
    """The parts of a machine's time that went to other programs."""

    usual: float
    niced: float  # at low priority: they take what is left over, and give it up when something else wants it


class Clock(NamedTuple):
    """When something began, and how long all processors together had been at work by then."""

    wall: float
    usual: float
    niced: float

    @classmethod
    def now(cls) -> "Clock":
        user, nice, system, _idle, _waiting, irq, softirq, steal, *_ = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        )
        return cls(time.perf_counter(), (user + system + irq + softirq + steal) / TICKS, nice / TICKS)

    def others(self, own: float) -> Others:
        """Who had the machine since this clock, but for the `own` seconds of processor time."""
        now = Clock.now()
        whole = (now.wall - self.wall) * (os.cpu_count() or 1)
        return Others(max(now.usual - self.usual - own, 0.0) / whole, (now.niced - self.niced) / whole)


def wait_until_quiet(seconds: float) -> None:
    """Go on as soon as others leave the machine alone, and after so many seconds at the latest."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        clock = Clock.now()
        time.sleep(STEP)
        if clock.others(own=0.0).usual < QUIET:
            return
