"""Which device is chosen: what is asked for, else a GPU, else the CPU."""

import sys

import numpy as np
import pytest
import torch

from elmore import Embedder
from elmore.engine.open_engine import resolve_device
from elmore.errors import InputError
from elmore.nn import devices
from elmore.nn.devices import as_tensor, choose_device, describe_devices, is_out_of_memory, process_device

# As it is; for other tests it is replaced.
default_device = devices.default_device


@pytest.fixture(autouse=True)
def as_for_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "default_device", default_device)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch):
    """Has torch believe that there are GPUs; nothing is put on them."""
    placed = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch, "empty", lambda *_, device: placed.append(device))
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    return placed


def test_without_a_gpu_it_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert (
        choose_device()
        == choose_device("auto")
        == choose_device(None)
        == choose_device("cpu")
        == choose_device(torch.device("cpu"))
        == torch.device("cpu")
    )


def test_a_gpu_that_is_there_is_taken_unless_another_device_is_asked_for(gpus: list[torch.device]) -> None:
    assert choose_device() == torch.device("cuda:0")
    assert choose_device("cuda:3") == torch.device("cuda:3")
    assert choose_device("cpu") == torch.device("cpu")
    assert gpus == [torch.device("cuda:0"), torch.device("cuda:3"), torch.device("cpu")]


def test_each_process_of_torchrun_has_a_gpu_of_its_own(gpus: list[torch.device], monkeypatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert choose_device() == choose_device("cuda") == torch.device("cuda:2")
    assert choose_device("cuda:1") == torch.device("cuda:1")


@pytest.mark.parametrize("choose", [choose_device, process_device, lambda name: Embedder.from_pretrained(device=name)])
@pytest.mark.parametrize("name", ["abacus", "cuda:99", "meta:x"])
def test_a_device_that_is_not_there_is_an_error_that_names_it(choose, name: str) -> None:
    with pytest.raises(InputError, match=f"the device '{name}' cannot be used here: .*; give cpu"):
        choose(name)


@pytest.mark.parametrize(("gpus", "mps", "offered"), [(0, False, "cpu"), (2, True, "cpu or cuda:0 or cuda:1 or mps")])
def test_only_devices_that_are_here_are_offered(monkeypatch: pytest.MonkeyPatch, gpus: int, mps: bool, offered) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    with pytest.raises(InputError, match=f"cannot be used here: there is no such kind; give {offered}$"):
        choose_device("abacus")


def test_resolve_device_auto_is_gpu_only_with_driver(gpus: list[torch.device], monkeypatch) -> None:
    monkeypatch.setattr(sys.modules["elmore.engine.open_engine"], "may_have_gpu", lambda: True)
    assert (resolve_device(), resolve_device("auto"), resolve_device("cpu")) == ("cuda:0", "cuda:0", "cpu")
    monkeypatch.setattr(sys.modules["elmore.engine.open_engine"], "may_have_gpu", lambda: False)
    assert resolve_device() == "cpu"
    assert resolve_device("cuda:1") == "cuda:1"


def test_describe_devices_names_each_gpu(gpus: list[torch.device], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda name: f"GPU of {name}")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    expected = [f"cuda:{number} (GPU of cuda:{number})" for number in range(4)]
    assert describe_devices() == ", ".join(["cpu", *expected, "mps"])


def test_as_tensor_shares_memory_unless_array_is_read_only() -> None:
    array = np.zeros(2, dtype=np.float32)
    as_tensor(array)[0] = 1
    assert array.tolist() == [1, 0]
    array.flags.writeable = False
    as_tensor(array)[0] = 2
    assert array.tolist() == [1, 0]
    tensor = torch.zeros(2)
    assert as_tensor(tensor) is tensor


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes"), True),
        (RuntimeError("shapes cannot be multiplied"), False),
    ],
)
def test_is_out_of_memory_knows_the_errors_of_torch(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) == expected


def test_allow_forked_process_rejects_gpu_in_forked_process(monkeypatch):
    devices.allow_forked_process(torch.device("cuda:0"))
    monkeypatch.setattr(devices, "forked_with_torch", lambda: True)
    with pytest.raises(InputError, match=r"a forked process cannot use cuda:0; .*spawn"):
        devices.allow_forked_process(torch.device("cuda:0"))


def test_choose_device_leaves_threads_of_torch_in_unforked_process():
    torch.set_num_threads(2)
    try:
        choose_device("cpu")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_process_device_rejects_unknown_device() -> None:
    with pytest.raises(InputError, match="the device 'abacus' cannot be used here"):
        process_device("abacus")
    assert process_device("cpu") == torch.device("cpu")


def test_process_device_rejects_more_processes_than_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    for name in ("cuda", torch.device("cuda")):
        with pytest.raises(InputError, match=r"process 2 of this host has no GPU: there are 1;.*--device cpu"):
            process_device(name)
    assert process_device("cpu") == torch.device("cpu")
