"""Which device is chosen: what is asked for, else a GPU, else the CPU."""

import pytest
import torch

from elmore import Embedder, devices
from elmore.devices import choose_device
from elmore.errors import InputError
from elmore.training.distributed import process_device

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
    assert choose_device() == choose_device("cpu") == choose_device(torch.device("cpu")) == torch.device("cpu")


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


def test_an_embedder_takes_the_gpu_by_itself_and_a_model_only_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("elmore.embedding.embedder.choose_device", lambda name: asked.append(name) or "cpu")
    Embedder.from_pretrained("tiny-random")
    Embedder.from_pretrained("tiny-random", device="cpu")
    assert asked == [None, "cpu"]
