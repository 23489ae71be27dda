"""The choice of an engine."""

import sys
from typing import Any

import pytest

from elmore import load
from elmore.engine import open_engine
from elmore.engine.native_library import Precision, why_unavailable
from elmore.errors import InputError, MissingExtra
from elmore.formats.checkpoint import Checkpoint

opening = sys.modules["elmore.engine.open_engine"]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return load("tiny-random").checkpoint


def test_open_engine_chooses_native_on_cpu(checkpoint: Checkpoint) -> None:
    expected = "native" if why_unavailable(Precision.FLOAT32) is None else "numpy"
    assert open_engine(checkpoint, device="cpu").name == expected


@pytest.mark.parametrize("name", ["numpy", "native", "gpu"])
def test_open_engine_opens_engine_by_name(checkpoint: Checkpoint, name: Any) -> None:
    if name == "native" and (reason := why_unavailable(Precision.FLOAT32)):
        pytest.skip(reason)
    engine = open_engine(checkpoint, device="cpu", engine=name)
    assert (engine.name, engine.device, engine.compute) == (name, "cpu", "float32")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compute": "tf32"}, "compute='tf32' is a mode of NVIDIA GPUs"),
        ({"compute": "float16"}, "compute is 'float16'"),
        ({"engine": "numpy", "compute": "int8"}, "the numpy engine computes in float32, not in int8"),
        ({"engine": "gpu", "compute": "int8"}, "compute='int8' runs on a CPU"),
        ({"engine": "torch"}, "there is no engine 'torch'"),
    ],
    ids=str,
)
def test_open_engine_rejects_what_no_engine_computes(
    checkpoint: Checkpoint, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        open_engine(checkpoint, device="cpu", **options)


def test_open_engine_never_replaces_requested_precision(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "why_unavailable", lambda precision: "this CPU is too old")
    assert open_engine(checkpoint, device="cpu").name == "numpy"
    for compute in ("bfloat16", "int8"):
        with pytest.raises(InputError, match=f"compute='{compute}' requires the native engine: this CPU is too old"):
            open_engine(checkpoint, device="cpu", compute=compute)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["numpy", "native"])
def test_open_engine_rejects_cpu_engine_on_gpu(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, name: Any
) -> None:
    monkeypatch.setattr(opening, "resolve_device", lambda device: "cuda:0")
    with pytest.raises(InputError, match=f"the {name} engine runs on the CPU, and the device is cuda:0"):
        open_engine(checkpoint, device="cuda", engine=name)


def test_resolve_device_requires_torch_for_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening.importlib.util, "find_spec", lambda name: None)
    assert opening.resolve_device() == "cpu"
    with pytest.raises(MissingExtra, match=r"pip install 'elmore\[torch\]'"):
        opening.resolve_device("cuda")


@pytest.mark.parametrize("visible", ["", "-1"])
def test_may_have_gpu_respects_hidden_devices(monkeypatch: pytest.MonkeyPatch, visible: str) -> None:
    monkeypatch.setattr(opening.Path, "exists", lambda path: True)
    assert opening.may_have_gpu()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert not opening.may_have_gpu()


def test_resolve_device_names_unknown_device() -> None:
    with pytest.raises(InputError, match="'quantum'"):
        opening.resolve_device("quantum")


def test_describe_engines_names_engine_of_this_machine() -> None:
    assert opening.describe_engines()["cpu engine"] in ("native", "numpy")
