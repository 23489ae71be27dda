"""Kernels are chosen in one place, for what a pass needs and for nothing that merely surrounds it."""

import pytest
import torch

from elmore.errors import InputError
from elmore.kernels import native_recurrence, reference, selection
from elmore.kernels.character_cnn import pool_by_convolution, pool_by_length
from elmore.kernels.cross_entropy import Candidates
from elmore.kernels.native_library import Number, native_obstacle
from elmore.kernels.selection import choose_kernels, describe_kernels, kernels_for, kernels_named
from elmore.network.initialization import initialize
from elmore.network.language_model import LanguageModel
from elmore.network.state import State
from elmore.text.spelling import Speller
from small_training import MODEL, TYPES
from triton_here import DEVICE, IS_HERE, needs_triton

CPU, GPU = torch.device("cpu"), torch.device("cuda")
READING = "reference" if native_obstacle(Number.FLOAT32) else "native"

TRAINING = "cpu" if native_obstacle(Number.FLOAT32) else "native-training"


def test_reading_takes_the_native_kernels_where_they_run_and_else_the_reference(monkeypatch):
    monkeypatch.setattr(selection, "triton_runs_on", lambda device, dtype: False)
    for device in (CPU, GPU, torch.device("mps")):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            native = READING if (device, dtype) == (CPU, torch.float32) else "reference"
            assert choose_kernels(device, dtype, training=False).name == native
    monkeypatch.setattr(selection, "native_obstacle", lambda number: "not built")
    kernels = choose_kernels(CPU, torch.float32, training=False)
    assert (kernels.recurrence, kernels.pool_characters) == (reference.RECURRENCE, pool_by_convolution)
    assert selection.describe_native_kernels() == "not built"


def test_native_kernels_asked_for_by_name_never_give_way(monkeypatch):
    monkeypatch.setattr(native_recurrence, "native_obstacle", lambda number: "not built; install a compiler")
    kernels_named.cache_clear()
    with pytest.raises(InputError, match="native kernels for float32 cannot run here: not built; install a compiler"):
        choose_kernels(CPU, torch.float32, training=False, name="native")


def test_native_kernels_asked_for_by_name_refuse_what_they_cannot_do():
    for device, dtype, training in (
        (GPU, torch.float32, False),
        (CPU, torch.float64, False),
        (CPU, torch.float32, True),
    ):
        with pytest.raises(InputError, match="'native-int8' read float32 on a CPU, without gradients; wanted were"):
            choose_kernels(device, dtype, training=training, name="native-int8")


def test_kernels_that_train_on_a_cpu_refuse_other_numbers_and_devices():
    for device, dtype in ((GPU, torch.float32), (CPU, torch.bfloat16)):
        with pytest.raises(InputError, match="'native-training' train float32 on a CPU; wanted were"):
            choose_kernels(device, dtype, training=True, name="native-training")


def test_kernels_that_are_captured_refuse_what_they_cannot_do():
    for device, dtype, training in (
        (CPU, torch.float32, False),
        (GPU, torch.float64, False),
        (GPU, torch.float32, True),
    ):
        for name in ("cuda-graphs", "cuda-graphs-tf32"):
            with pytest.raises(InputError, match=f"'{name}' read on a GPU, without gradients; wanted were"):
                choose_kernels(device, dtype, training=training, name=name)
    with pytest.raises(InputError, match="'packed' read on any device, without gradients; wanted were gradients"):
        choose_kernels(CPU, torch.float32, training=True, name="packed")


@needs_triton
def test_reading_on_a_gpu_is_captured_where_triton_computes_exactly_enough():
    for dtype in (torch.float32, torch.bfloat16):
        assert choose_kernels(GPU, dtype, training=False).name == "cuda-graphs"
    assert choose_kernels(GPU, torch.float64, training=False).name == "reference"


def test_tf32_is_on_during_a_pass_and_not_after_it():
    kernels = kernels_named("packed")._replace(name="cuda-graphs-tf32")
    before = torch.backends.cuda.matmul.allow_tf32
    with kernels.settings():
        assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_training_on_a_cpu_takes_the_kernels_made_for_it(monkeypatch):
    assert choose_kernels(CPU, torch.float32, training=True).name == TRAINING
    for dtype in (torch.bfloat16, torch.float64):
        assert choose_kernels(CPU, dtype, training=True).name == "cpu"
    monkeypatch.setattr(selection, "native_obstacle", lambda number: "not built")
    assert choose_kernels(CPU, torch.float32, training=True).name == "cpu"
    assert choose_kernels(CPU, torch.float32, training=True).pool_characters is pool_by_length
    assert choose_kernels(torch.device("mps"), torch.float32, training=True).name == "torch"


@needs_triton
def test_training_on_a_gpu_takes_triton_for_what_it_computes_exactly_enough():
    names = {dtype: choose_kernels(GPU, dtype, training=True).name for dtype in (torch.float32, torch.bfloat16)}
    assert names == {torch.float32: "triton", torch.bfloat16: "triton-bfloat16"}
    assert choose_kernels(GPU, torch.float64, training=True).name == "torch"


def test_a_name_decides():
    assert choose_kernels(CPU, torch.float32, training=True, name="reference").name == "reference"
    assert choose_kernels(CPU, torch.float32, training=False, name="torch") is kernels_named("torch")
    with pytest.raises(InputError, match="no kernels 'fast'; there are reference, native, native-bfloat16"):
        choose_kernels(CPU, torch.float32, training=False, name="fast")


def test_kernels_of_training_run_only_where_something_wants_a_gradient():
    x, frozen, trained = torch.ones(2), [torch.ones(2)], [torch.ones(2), torch.ones(2, requires_grad=True)]
    assert kernels_for(x, frozen).name == READING
    assert kernels_for(x, trained).name == TRAINING
    assert kernels_for(x.clone().requires_grad_(), frozen).name == TRAINING
    with torch.no_grad():
        assert kernels_for(x, trained).name == READING


def test_what_is_said_of_a_device_is_what_is_chosen_there():
    said = describe_kernels(CPU)
    assert said["reading"] == choose_kernels(CPU, torch.float32, training=False).name
    assert said["training in bfloat16"] == choose_kernels(CPU, torch.bfloat16, training=True).name


@pytest.mark.parametrize(
    "name",
    [
        "torch",
        "cpu",
        pytest.param("native-training", marks=pytest.mark.skipif(TRAINING == "cpu", reason="no native kernels here")),
        *(pytest.param(name, marks=pytest.mark.triton) for name in ("triton", "triton-bfloat16")),
    ],
)
def test_a_pass_of_training_is_the_same_with_all_kernels(name):
    if name.startswith("triton") and not IS_HERE:
        pytest.skip("Triton, and a GPU or TRITON_INTERPRET=1, are needed")
    device = "cpu" if name in ("cpu", "native-training") else DEVICE
    expected = losses_and_gradients("reference", device)
    for found, one in zip(losses_and_gradients(name, device), expected, strict=True):
        torch.testing.assert_close(found, one, rtol=1e-4, atol=1e-6)


def losses_and_gradients(name: str, device: str) -> list[torch.Tensor]:
    """Of a window of a small model in float32, with classes drawn, and dropout where its draws can be repeated."""
    torch.manual_seed(1)
    model = LanguageModel(MODEL, classes=len(TYPES))
    initialize(model, torch.Generator().manual_seed(1))
    model.to(device).train()
    model.network.use_kernels(name)
    words = Speller(MODEL).spell(TYPES).to(device)
    inputs, targets = torch.randint(0, len(TYPES), (2, 2, 5, 3)).to(device)
    candidates = Candidates(torch.tensor([0, 3, 4, 9], device=device), -torch.rand(len(TYPES)).to(device))
    # On a GPU what is dropped depends on how a tensor lies in memory, and in that kernels differ.
    dropout = 0.3 if device == "cpu" else 0.0
    losses, after = model(
        words, inputs, targets, State.zeros(MODEL, rows=3).to(device), candidates=candidates, dropout=dropout
    )
    losses.mean().backward()
    return [losses.detach(), after.h, after.c, *(parameter.grad for parameter in model.parameters())]
