"""Devices of torch: choice of a device, arrays as tensors, forked processes, and TF32 products."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, local
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.engine.open_engine import AUTO
from elmore.errors import InputError
from elmore.forks import forked_with_torch

CPU = torch.device("cpu")


def choose_device(name: str | torch.device | None = AUTO) -> torch.device:
    """The device of this name; "auto" (or None) is a GPU if there is one, else the CPU.

    In a process that torchrun started, `LOCAL_RANK` is the index of the GPU. MPS, on a Mac, is used only by name.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    allow_forked_process()
    kind = default_device() if name is None or name == AUTO else name
    try:
        device = torch.device(kind)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", _local_gpu())
        # A device that is missing raises an error only when it is used.
        torch.empty(0, device=device)
    # torch has no exception class for unknown and missing devices.
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        # torch lists all kinds of devices for an unknown one, and for a GPU how to install its driver.
        reason = str(error).splitlines()[0].split(". ")[0].rstrip(".")
        reason = "there is no such kind" if reason.startswith("Expected one of") else reason
        raise InputError(
            f"the device {str(kind)!r} cannot be used here: {reason}; give {' or '.join(usable_devices())}"
        ) from None
    return device


def process_device(name: str | torch.device | None) -> torch.device:
    """The device that this process trains on, which becomes torch's current device."""
    device = choose_device(name)
    if device.type == "cuda":
        # Streams, events and our kernels use the current device.
        torch.cuda.set_device(device)
    return device


def default_device() -> str:
    """The kind of device of "auto"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def describe_devices() -> str:
    """The devices of this machine, for `elmore info --system`.

    >>> describe_devices().split(", ")[0]
    'cpu'
    """
    return ", ".join(
        f"{name} ({torch.cuda.get_device_name(name)})" if name.startswith("cuda") else name for name in usable_devices()
    )


def as_tensor(array: NDArray[Any] | Tensor) -> Tensor:
    """A tensor with the memory of the array, or a copy of a read-only array. A tensor is returned unchanged.

    >>> import numpy as np
    >>> as_tensor(np.ones((2, 3), np.float32)).shape
    torch.Size([2, 3])
    """
    if isinstance(array, Tensor):
        return array
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def to_tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Tensors of named arrays, on the CPU."""
    return {name: as_tensor(array) for name, array in arrays.items()}


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Arrays of named tensors of any device."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on a device. A copy to a GPU is only started: the GPU makes it before later work."""
    if device.type != "cuda" or not tensor.numel():
        return tensor.to(device)
    # A large copy from memory that is not pinned would start only after all earlier work.
    return tensor.pin_memory().to(device, non_blocking=True)


def compute_dtype(x: Tensor) -> torch.dtype:
    """The number type of products: that of x, unless autocast is on.

    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     compute_dtype(torch.ones(2))
    torch.bfloat16
    """
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory of a GPU or ordinary memory was short."""
    # On a CPU torch raises a plain RuntimeError.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


def allow_forked_process(device: torch.device = CPU) -> None:
    """Make torch usable in a process that was forked from one with torch; raise InputError for a GPU.

    Each function that starts torch operations for a caller calls this first. On a CPU torch gets one thread, because
    the parent's other threads do not exist here (see `elmore.forks`).
    """
    if not forked_with_torch():
        return
    if device.type != "cpu":
        raise InputError(
            f"a forked process cannot use {device}; start processes with multiprocessing.get_context('spawn')"
        )
    if torch.get_num_threads() > 1:
        torch.set_num_threads(1)


def _local_gpu() -> int:
    local_rank, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local_rank >= gpus > 0:
        raise InputError(
            f"process {local_rank + 1} of this host has no GPU: there are {gpus}; start as many processes as there "
            "are GPUs, or use the CPU: --device cpu"
        )
    return local_rank


def usable_devices() -> list[str]:
    """The names of the devices of this machine."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ["cpu", *(f"cuda:{number}" for number in range(gpus)), *mps]


class _Tf32:
    """TF32 products of float32 matrices on NVIDIA GPUs, while at least one pass requests them.

    torch has one setting for the whole process. Requests are counted, and the last one restores the setting. While one
    thread runs a pass with TF32, products of other threads are rounded to TF32 too. A CUDA graph must not be captured
    in another thread in the meantime, because it would round in every replay: see `number_of_requests`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._requests = 0
        self._before: tuple[str, object] = ("allow_tf32", False)  # name and value of torch's setting
        self._this_thread = local()

    @contextmanager
    def rounding(self) -> Iterator[None]:
        """Allow TF32 during the context."""
        matmul = torch.backends.cuda.matmul
        with self._lock:
            if self._users == 0:
                self._before = _tf32_setting()
                name, _ = self._before
                setattr(matmul, name, _TF32_VALUES[name])
            self._users += 1
            self._requests += 1
        depth = getattr(self._this_thread, "depth", 0)
        self._this_thread.depth = depth + 1
        try:
            yield
        finally:
            self._this_thread.depth = depth
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    setattr(matmul, *self._before)

    def number_of_requests(self) -> int | None:
        """The requests of other threads so far; None while one of them rounds the products of this thread.

        If the number is the same before and after some products, no request has rounded them. In a thread that made
        a request, other requests change nothing, and the number is always 0.
        """
        with self._lock:
            if getattr(self._this_thread, "depth", 0):
                return 0
            name, value = self._before
            return None if self._users and value != _TF32_VALUES[name] else self._requests


_TF32_VALUES = {"allow_tf32": True, "fp32_precision": "tf32"}


def _tf32_setting() -> tuple[str, object]:
    """Name and value of torch's setting for TF32 products: the older one, unless the user has set the newer one."""
    matmul = torch.backends.cuda.matmul
    try:
        return "allow_tf32", matmul.allow_tf32
    except RuntimeError:  # torch raises it for the older setting if the newer one differs
        return "fp32_precision", matmul.fp32_precision


TF32 = _Tf32()
