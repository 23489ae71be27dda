"""Where a network runs, chosen in one way by every verb and by `Embedder.from_pretrained`; and in which process."""

import os

import torch
from torch import Tensor

from elmore.errors import InputError

CPU = torch.device("cpu")

# A process that was forked from this one has another.
_PROCESS = os.getpid()


def choose_device(asked: str | torch.device | None = None) -> torch.device:
    """The device asked for; else a GPU, if there is one; else the CPU.

    Of several GPUs each process that torchrun started on a host has its own, by `LOCAL_RANK`. MPS, on a Mac, is taken
    only when it is asked for.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(asked or default_device())
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", _local_gpu())
        # Only work on it tells whether it is there.
        torch.empty(0, device=device)
    # Torch has no exception of its own for a device that it does not know, or was not built for.
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        # For an unknown kind torch lists all that anybody ever built it for; for a GPU, how to install its driver.
        reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
        reason = "there is no such kind" if reason.startswith("Expected one of") else reason
        raise InputError(
            f"the device {str(asked or 'cuda')!r} cannot be used here: {reason}; give {' or '.join(usable_devices())}"
        ) from None
    return device


def default_device() -> str:
    """The kind of device that serves when none is asked for."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of ordinary memory on a device, which is not waited for: the copy is made when it comes to that."""
    if device.type != "cuda" or not tensor.numel():
        return tensor.to(device)
    # From memory that is not pinned the copy of anything large would begin only once all work before it is done.
    return tensor.pin_memory().to(device, non_blocking=True)


def allow_forked_process(device: torch.device = CPU) -> None:
    """Make torch usable in a process that was forked from one that uses it; where that cannot be, an error.

    The child of a fork has its parent's record of threads, and none of the threads: whatever is shared among them waits
    for ever. One thread needs no others. A GPU cannot be used there at all.
    """
    if os.getpid() == _PROCESS or (device.type == "cpu" and torch.get_num_threads() == 1):
        return
    if device.type != "cpu":
        raise InputError(
            f"a forked process cannot use {device}; start processes with multiprocessing.get_context('spawn')"
        )
    torch.set_num_threads(1)


def _local_gpu() -> int:
    local_rank, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local_rank >= gpus > 0:
        raise InputError(
            f"process {local_rank + 1} of this host has no GPU of its own, for there are only {gpus}; start as many "
            "processes as there are GPUs, or stay on the CPU: --device cpu"
        )
    return local_rank


def usable_devices() -> list[str]:
    """The devices there are here, by the names to ask for them."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *(f"cuda:{number}" for number in range(gpus)), *mps]
