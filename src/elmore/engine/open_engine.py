"""The one place that chooses an engine, by device and `compute`, or by name.

torch is imported only if the device is not the CPU, or if the GPU engine is requested by name.
"""

import ctypes.util
import importlib.util
import os
import sys
from pathlib import Path
from typing import get_args

from elmore.defaults import ComputeName, EngineName
from elmore.engine.engine import Engine
from elmore.engine.native_engine import PRECISIONS, NativeEngine
from elmore.engine.native_library import Precision, why_unavailable
from elmore.engine.numpy_engine import NumpyEngine
from elmore.errors import InputError, MissingExtra
from elmore.fields import check_value
from elmore.formats.checkpoint import Checkpoint

AUTO = "auto"


def open_engine(
    checkpoint: Checkpoint,
    *,
    device: object = AUTO,
    compute: ComputeName = "float32",
    engine: EngineName | None = None,
    batch_invariant: bool = False,
) -> Engine:
    """Build the engine for a device and a `compute` setting, or the one that is named.

    `batch_invariant` gives all matrix products of a GPU one number of rows, so that a sentence has bit-identical
    vectors in every batch; the native engine always has this property.

    >>> from elmore.sources.tiny_random import tiny_checkpoint
    >>> open_engine(tiny_checkpoint(), device="cpu", engine="numpy")
    NumpyEngine(compute='float32', dim=32, layers=3)
    """
    check_value("compute", compute, ComputeName)
    chosen = resolve_device(device)
    name = engine or engine_name(chosen, compute)
    if name not in get_args(EngineName):
        raise InputError(f"there is no engine {name!r}; choose {', '.join(get_args(EngineName))}")
    if name == "gpu":
        from elmore.nn.gpu_engine import GpuEngine

        return GpuEngine(checkpoint, device=chosen, compute=compute, batch_invariant=batch_invariant)
    if chosen != "cpu":
        raise InputError(f"the {name} engine runs on the CPU, and the device is {chosen}")
    if name == "native":
        return NativeEngine(checkpoint, compute)
    if compute != "float32":
        raise InputError(f"the numpy engine computes in float32, not in {compute}")
    return NumpyEngine(checkpoint)


def engine_name(device: str, compute: ComputeName) -> EngineName:
    """The engine for a device ("cpu", "cuda:0", ...) and a `compute` setting; InputError where there is none."""
    if device != "cpu":
        if compute == "int8":
            raise InputError("compute='int8' runs on a CPU; on a GPU choose float32, tf32 or bfloat16")
        return "gpu"
    if compute == "tf32":
        raise InputError("compute='tf32' is a mode of NVIDIA GPUs; on a CPU choose float32, bfloat16 or int8")
    reason = why_unavailable(Precision.FLOAT32) or why_unavailable(PRECISIONS[compute])
    if reason is None:
        return "native"
    if compute == "float32":
        return "numpy"
    raise InputError(f"compute={compute!r} requires the native engine: {reason}")


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
    from elmore.nn.devices import choose_device

    return str(choose_device(None if name == AUTO else name))


def may_have_gpu() -> bool:
    """Whether torch is installed and the system has a driver for NVIDIA GPUs: a quick check without torch."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1") or importlib.util.find_spec("torch") is None:
        return False
    if sys.platform == "win32":
        return ctypes.util.find_library("nvcuda") is not None
    return any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl-gpu"))


def describe_engines() -> dict[str, str]:
    """The number types that this machine computes in, for `elmore info --system`."""
    reasons = {precision.name.lower(): why_unavailable(precision) for precision in Precision}
    usable = [name for name, reason in reasons.items() if reason is None]
    missing = [f"{name}: {reason}" for name, reason in reasons.items() if reason is not None]
    native = ", ".join(usable) or "none"
    return {"cpu engine": engine_name("cpu", "float32"), "native": "; ".join([native, *missing]), "numpy": "float32"}
