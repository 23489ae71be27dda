"""The CPU limit of a process. The files of the fake systems are copies of what Linux shows."""

import os
from pathlib import Path

import pytest

from elmore.cpus import available_cpus, cpu_quota

# Version 2 alone, as on a current distribution.
VERSION_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
# Version 1 with joined controllers, as under an older Docker or systemd.
VERSION_1 = (
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw,nosuid shared:10 - cgroup cgroup rw,cpuset\n"
)
# Version 1 in a container that still sees the path of its group on the host.
CONTAINER = "41 40 0:29 /docker/1f52 /sys/fs/cgroup/cpu ro,nosuid - cgroup cgroup rw,cpu\n"


@pytest.fixture
def system(tmp_path: Path):
    """Make the files of a system, from the lines of /proc and the limits of the groups."""

    def make(groups: str, mounts: str, **limits: str) -> Path:
        for path, content in {"proc/self/cgroup": groups, "proc/self/mountinfo": mounts, **limits}.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("limit", "quota"), [("200000 100000\n", 2.0), ("150000 100000\n", 1.5), ("max 100000\n", None), ("", None)]
)
def test_cpu_quota_reads_version_2(system, limit: str, quota: float | None) -> None:
    root = system("0::/user.slice/job\n", VERSION_2, **{"sys/fs/cgroup/user.slice/job/cpu.max": limit})
    assert cpu_quota(root) == quota


def test_cpu_quota_takes_smallest_limit_of_outer_groups(system) -> None:
    limits = {"": "max 100000\n", "a/": "100000 100000\n", "a/b/": "400000 100000\n"}
    root = system("0::/a/b\n", VERSION_2, **{f"sys/fs/cgroup/{group}cpu.max": limit for group, limit in limits.items()})
    assert cpu_quota(root) == 1.0


@pytest.mark.parametrize(("limit", "quota"), [("300000\n", 3.0), ("-1\n", None)])
def test_cpu_quota_reads_version_1(system, limit: str, quota: float | None) -> None:
    folder = "sys/fs/cgroup/cpu,cpuacct/job"
    root = system(
        "5:cpuset:/\n4:cpu,cpuacct:/job\n",
        VERSION_1,
        **{f"{folder}/cpu.cfs_quota_us": limit, f"{folder}/cpu.cfs_period_us": "100000\n"},
    )
    assert cpu_quota(root) == quota


def test_cpu_quota_reads_mounted_group_of_container(system) -> None:
    root = system(
        "4:cpu:/docker/1f52\n",
        CONTAINER,
        **{"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
    )
    assert cpu_quota(root) == 0.5


def test_cpu_quota_ignores_group_whose_name_only_starts_like_the_mounted_one(system) -> None:
    folder = "sys/fs/cgroup/cpu/ab"
    limits = {f"{folder}/cpu.cfs_quota_us": "50000\n", f"{folder}/cpu.cfs_period_us": "100000\n"}
    assert cpu_quota(system("4:cpu:/docker/1f52ab\n", CONTAINER, **limits)) is None


def test_cpu_quota_is_none_without_control_groups(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None


@pytest.mark.parametrize(("quota", "cpus"), [(None, 64), (0.5, 1), (1.5, 2), (2.0, 2), (100.0, 64)])
def test_available_cpus_is_limited_by_quota(monkeypatch, quota: float | None, cpus: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr("elmore.cpus.cpu_quota", lambda: quota)
    assert available_cpus() == cpus


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no CPU affinity")
def test_available_cpus_is_limited_by_affinity() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert available_cpus() == 1
    finally:
        os.sched_setaffinity(0, allowed)
