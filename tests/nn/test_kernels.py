"""Kernels are chosen in one place, by device and number type or by name, and all compute the same gradients."""

import pytest
import torch

from elmore.errors import InputError
from elmore.nn import kernels as selection
from elmore.nn import native_recurrence
from elmore.nn.bilm import StateTensors
from elmore.nn.character_cnn import pool_by_length
from elmore.nn.cross_entropy import Candidates
from elmore.nn.kernels import choose_kernels, kernels_named
from elmore.nn.language_model import LanguageModel, initialize
from elmore.nn.native_training_library import why_training_unavailable
from elmore.nn.word_encoder import WordIdTensors
from elmore.text.word_ids import WordIndexer
from small_training import MODEL, TYPES
from triton_here import DEVICE, IS_HERE, needs_triton

CPU, GPU = torch.device("cpu"), torch.device("cuda")
NATIVE = "cpu" if why_training_unavailable() else "native-training"


def test_choose_kernels_on_cpu_is_native_for_float32_only(monkeypatch):
    assert choose_kernels(CPU, torch.float32).name == NATIVE
    for dtype in (torch.bfloat16, torch.float64):
        assert choose_kernels(CPU, dtype).name == "cpu"
    monkeypatch.setattr(selection, "why_training_unavailable", lambda: "not built")
    kernels = choose_kernels(CPU, torch.float32)
    assert (kernels.name, kernels.pool_characters) == ("cpu", pool_by_length)


def test_choose_kernels_without_triton_is_torch(monkeypatch):
    monkeypatch.setattr(selection, "triton_runs_on", lambda device, dtype: False)
    for device in (GPU, torch.device("mps")):
        assert choose_kernels(device, torch.float32).name == "torch"


@needs_triton
def test_choose_kernels_on_gpu_is_triton_except_for_float64():
    names = {dtype: choose_kernels(GPU, dtype).name for dtype in (torch.float32, torch.bfloat16, torch.float64)}
    assert names == {torch.float32: "triton", torch.bfloat16: "triton-bfloat16", torch.float64: "torch"}


def test_choose_kernels_takes_named_kernels():
    assert choose_kernels(CPU, torch.float32, name="reference").name == "reference"
    assert choose_kernels(CPU, torch.float32, name="torch") is kernels_named("torch")
    with pytest.raises(InputError, match="no kernels 'fast'; there are reference, torch, cpu, native-training, triton"):
        choose_kernels(CPU, torch.float32, name="fast")


def test_native_kernels_by_name_reject_unbuilt_library(monkeypatch):
    monkeypatch.setattr(native_recurrence, "why_training_unavailable", lambda: "not built; install a compiler")
    kernels_named.cache_clear()
    with pytest.raises(InputError, match="native kernels cannot run here: not built; install a compiler"):
        choose_kernels(CPU, torch.float32, name="native-training")


def test_native_kernels_by_name_reject_other_devices_and_types():
    for device, dtype in ((GPU, torch.float32), (CPU, torch.bfloat16)):
        with pytest.raises(InputError, match=f"'native-training' compute float32 on a CPU, not {dtype} on {device}"):
            choose_kernels(device, dtype, name="native-training")


@pytest.mark.parametrize(
    "name",
    [
        "torch",
        "cpu",
        pytest.param("native-training", marks=pytest.mark.skipif(NATIVE == "cpu", reason="no native kernels here")),
        *(pytest.param(name, marks=pytest.mark.triton) for name in ("triton", "triton-bfloat16")),
    ],
)
def test_training_pass_has_the_same_gradients_with_all_kernels(name):
    if name.startswith("triton") and not IS_HERE:
        pytest.skip("Triton, and a GPU or TRITON_INTERPRET=1, are needed")
    device = "cpu" if name in ("cpu", "native-training") else DEVICE
    expected = losses_and_gradients("reference", device)
    for found, one in zip(losses_and_gradients(name, device), expected, strict=True):
        torch.testing.assert_close(found, one, rtol=1e-4, atol=1e-6)


def losses_and_gradients(name: str, device: str) -> list[torch.Tensor]:
    """Of a window of a small model in float32, with sampled classes, and dropout where it is reproducible."""
    torch.manual_seed(1)
    model = LanguageModel(MODEL, classes=len(TYPES))
    initialize(model, torch.Generator().manual_seed(1))
    model.to(device).train()
    model.network.use_kernels(name)
    words = WordIdTensors.of(WordIndexer(MODEL).index(TYPES)).to(torch.device(device))
    inputs, targets = torch.randint(0, len(TYPES), (2, 2, 5, 3)).to(device)
    candidates = Candidates(torch.tensor([0, 3, 4, 9], device=device), -torch.rand(len(TYPES)).to(device))
    # On a GPU dropout depends on the layout of a tensor, which differs between kernels.
    dropout = 0.3 if device == "cpu" else 0.0
    losses, after = model(
        words, inputs, targets, StateTensors.zeros(MODEL, rows=3).to(device), candidates=candidates, dropout=dropout
    )
    losses.mean().backward()
    return [losses.detach(), after.h, after.c, *(parameter.grad for parameter in model.parameters())]
