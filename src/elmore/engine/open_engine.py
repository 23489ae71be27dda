"""The one place that chooses an engine, by device and `compute`, or by name."""

from typing import get_args

from elmore.defaults import ComputeName, EngineName
from elmore.engine.devices import AUTO, resolve_device
from elmore.engine.engine import Engine
from elmore.engine.native_engine import PRECISIONS, NativeEngine
from elmore.engine.native_library import Precision, why_unavailable
from elmore.engine.numpy_engine import NumpyEngine
from elmore.errors import InputError
from elmore.fields import check_value
from elmore.formats.checkpoint import Checkpoint


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

    >>> from elmore.tiny_random import tiny_checkpoint
    >>> open_engine(tiny_checkpoint(), device="cpu", engine="numpy")
    NumpyEngine(compute='float32', dim=32, layers=3)
    """
    check_value("compute", compute, ComputeName)
    chosen = resolve_device(device)
    name = engine or engine_name(chosen, compute)
    if name not in get_args(EngineName):
        raise InputError(f"there is no engine {name!r}; choose {', '.join(get_args(EngineName))}")
    if name == "gpu":
        from elmore.nn.gpu_engine import GpuEngine  # torch is imported here, for GPUs only

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


def describe_engines() -> dict[str, str]:
    """What this machine can compute in, for `elmore info --system`."""
    reasons = {precision.name.lower(): why_unavailable(precision) for precision in Precision}
    usable = [name for name, reason in reasons.items() if reason is None]
    missing = [f"{name}: {reason}" for name, reason in reasons.items() if reason is not None]
    native = ", ".join(usable) or "none"
    return {"cpu engine": engine_name("cpu", "float32"), "native": "; ".join([native, *missing]), "numpy": "float32"}
