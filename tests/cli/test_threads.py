"""The threads of a command, in processes of their own: OpenMP reads its variables when it is loaded."""

import os
import subprocess
import sys

import pytest

from cpu_environment import ON_THE_CPU
from elmore.cli.app import COMMANDS, program
from elmore.cli.threads import COUNT, WAITING

# GNU's OpenMP, which torch has on Linux, prints its settings.
ENVIRONMENT = {name: value for name, value in ON_THE_CPU.items() if name not in (*WAITING, COUNT)}
SHOWN = {**ENVIRONMENT, "OMP_DISPLAY_ENV": "VERBOSE"}
HAVE_NO_THREADS = {"info", "export", "prepare", "completion"}


def openmp_settings(*arguments: str, **environment: str) -> str:
    """What OpenMP prints while a task model predicts, which needs torch."""
    ended = subprocess.run(
        [sys.executable, "-m", "elmore", "predict", "pos", *arguments],
        input="I took a bow.\n",
        env=SHOWN | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "bow" in ended.stdout
    if "OPENMP DISPLAY ENVIRONMENT" not in ended.stderr:
        pytest.skip("this torch has another OpenMP")
    return ended.stderr


def test_command_lets_waiting_threads_sleep() -> None:
    assert "GOMP_SPINCOUNT = '0'" in openmp_settings()


def test_command_keeps_wait_policy_of_user() -> None:
    assert "GOMP_SPINCOUNT = '1000'" in openmp_settings(GOMP_SPINCOUNT="1000")
    assert "OMP_WAIT_POLICY = 'ACTIVE'" in openmp_settings(OMP_WAIT_POLICY="active")


def test_threads_option_sets_threads_of_openmp() -> None:
    assert "OMP_NUM_THREADS = '3'" in openmp_settings("--threads", "3")
    assert "OMP_NUM_THREADS = '3'" in openmp_settings("--threads", "3", OMP_NUM_THREADS="5")
    assert "OMP_NUM_THREADS = '5'" in openmp_settings(OMP_NUM_THREADS="5")


PROGRAM = """
import os, sys
from elmore.cli import threads
threads.cpu_quota, threads.available_cpus = lambda: {quota}, lambda: 1
threads.prepare_threads()
import torch
print(torch.get_num_threads(), os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.mark.parametrize(("quota", "environment", "threads"), [("1.0", {}, 1), ("1.0", {COUNT: "2"}, 2)])
def test_prepare_threads_limits_openmp_to_cpu_quota(quota: str, environment: dict[str, str], threads: int) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("needs two CPUs")
    code = PROGRAM.format(quota=quota)
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=ENVIRONMENT | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ended.stdout == f"{threads} passive\n"


def test_python_package_leaves_variables_of_openmp_alone() -> None:
    code = (
        "import os, elmore; elmore.Embedder.from_pretrained('tiny-random').encode('I took a bow.'); print(*os.environ)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=True
    )
    assert not {*WAITING, COUNT} & set(ended.stdout.split())


def test_long_commands_have_threads_option() -> None:
    names = {
        name for name in COMMANDS if any("--threads" in one.opts for one in program.get_command(None, name).params)
    }
    assert set(COMMANDS) - names == HAVE_NO_THREADS


@pytest.mark.parametrize("value", ["0", "many"])
def test_threads_option_rejects_other_values(value: str) -> None:
    command = [sys.executable, "-m", "elmore", "predict", "pos", "--threads", value]
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "--threads" in ended.stderr
