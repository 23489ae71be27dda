"""The threads of a command: how many, and how they wait. All of this happens before torch is loaded.

OpenMP and BLAS libraries read their environment variables when they are loaded. The program sets the variables only
for its own process and the processes that it starts. The Python package never does: there the process belongs to the
user.
"""

import os
import sys

from elmore.cpus import available_cpus, cpu_quota

COUNT = "OMP_NUM_THREADS"
# GNU's, the standard's and LLVM's variable for the same.
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME")


def prepare_threads() -> None:
    """Let OpenMP threads sleep while they wait, and limit them to the CPU quota, unless the user has set this."""
    if "torch" in sys.modules:
        return  # the variables have no effect any more
    # By default waiting threads spin. If another process uses the cores, threads that wait then keep the threads that
    # have work from running, and training nearly stops (docs/threads.md has figures).
    if not any(name in os.environ for name in WAITING):
        os.environ["OMP_WAIT_POLICY"] = "passive"
    # OpenMP counts the CPUs of the affinity mask, and does not know the quota.
    if COUNT not in os.environ and cpu_quota() is not None:
        os.environ[COUNT] = str(available_cpus())


def set_command_threads(threads: int) -> None:
    """Set the number of threads of native kernels, torch, OpenMP and BLAS for this process and those that it starts."""
    from elmore.engine.threads import set_threads  # imported here: NumPy is not needed for `elmore --help`

    set_threads(threads)
    os.environ[COUNT] = str(threads)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(threads)
