"""How many CPUs this process may use: the affinity mask, limited by the CPU quota of its control groups.

A container that is limited to two CPUs still sees every core of its host, in `os.cpu_count` and in the affinity mask.
The limit is a quota of time in the control group (cgroup) of the process, or in one of the groups above it.
"""

import math
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Windows waits for at most 64 objects in one call. Two of them are not processes, and Python's own limit is 61.
MOST_PROCESSES = 61 if sys.platform == "win32" else 4096

ROOT = Path("/")


def available_cpus() -> int:
    """The number of CPUs that this process may use, at least 1.

    >>> 1 <= available_cpus() <= os.cpu_count()
    True
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    # Rounded up: with a quota of 1.5 CPUs, two threads are faster than one.
    return cpus if quota is None else max(1, min(cpus, math.ceil(quota)))


@cache  # read for each native call otherwise
def cpu_quota(root: Path = ROOT) -> float | None:
    """The number of CPUs that the control groups of this process allow, as in 1.5; None without a limit.

    `root` is the folder that contains `proc` and the mounted control groups.
    """
    quotas = [quota for folder in _group_folders(root) if (quota := _quota_of(folder)) is not None]
    return min(quotas, default=None)


def _group_folders(root: Path) -> Iterator[Path]:
    """The folders of the process's groups in each hierarchy that can limit CPU time, innermost first."""
    groups = {}
    for line in _lines(root / "proc/self/cgroup"):  # 4:cpu,cpuacct:/docker/1f52; version 2 has 0::/docker/1f52
        _, controllers, path = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            groups["cgroup" if controllers else "cgroup2"] = path
    for line in _lines(root / "proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        mounted, folder = before.split()[3:5]  # the group at the top of this mount, and where it is mounted
        kind, _, options = after.split()[:3]
        if kind not in groups or (kind == "cgroup" and "cpu" not in options.split(",")):
            continue
        group = groups[kind]
        if mounted != "/" and (group == mounted or group.startswith(f"{mounted}/")):
            group = group[len(mounted) :]
        top = root / folder.lstrip("/")
        inner = top / group.strip("/")
        # A limit of an outer group applies to all groups inside it.
        yield from (inner, *(parent for parent in inner.parents if parent == top or top in parent.parents))


def _quota_of(folder: Path) -> float | None:
    """The quota of one group; None where it has none, or where its files are not visible."""
    values = _lines(folder / "cpu.max")  # version 2: 200000 100000, or max 100000
    if not values:
        values = [" ".join(_lines(folder / "cpu.cfs_quota_us") + _lines(folder / "cpu.cfs_period_us"))]
    quota, _, period = values[0].partition(" ")
    # Version 1 writes -1 for no limit.
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
