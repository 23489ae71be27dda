"""The device an engine runs on, found without importing torch where there is no GPU."""

import ctypes.util
import importlib.util
import os
import sys
from pathlib import Path

from elmore.errors import MissingExtra

AUTO = "auto"


def resolve_device(device: object = AUTO) -> str:
    """The name of a usable device: "cpu", "cuda:0", "mps". "auto" is a GPU if torch finds one, else the CPU.

    >>> resolve_device("cpu")
    'cpu'
    """
    name = AUTO if device is None else str(device)
    if name == "cpu" or (name == AUTO and not may_have_gpu()):
        return "cpu"
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra(f"the device {name!r}", library="torch", extra="torch")
    from elmore.nn.devices import choose_device  # torch is imported here, for GPUs only

    return str(choose_device(None if name == AUTO else name))


def may_have_gpu() -> bool:
    """Whether torch is installed and the system has a driver for NVIDIA GPUs: a quick check without torch."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1") or importlib.util.find_spec("torch") is None:
        return False
    if sys.platform == "win32":
        return ctypes.util.find_library("nvcuda") is not None
    return any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu"))
