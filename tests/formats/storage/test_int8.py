"""Weights in int8: no number moves by more than half a step, and no file can ask for more memory than it should."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from safetensors.torch import load_file, save_file

from elmore import load
from elmore.config import SMALL, ModelConfig, tensor_shapes
from elmore.errors import FormatError
from elmore.formats import Checkpoint, read_checkpoint, write_checkpoint
from elmore.formats.storage.container import open_container
from elmore.formats.storage.int8 import SCALE, Int8Tensor, dequantize, pack, quantize, unpack
from elmore.model import Model, model_of, save
from elmore.text.vocabulary import Vocabulary
from reference.strategies import patiently, seeds

SHAPES = {
    "words.characters": (7, 5),
    "words.convolutions.0.weight": (4, 3, 2),
    "words.projection.weight": (6, 9),
    "words.projection.bias": (6,),
    "lstm.0.input": (2, 5, 8),
    "lstm.0.bias": (2, 8),
    "weight": (11, 4),
    "bias": (11,),
}
# A scale for each unit of output: that is a column of an LSTM matrix, and a row of any other.
SCALES = {
    "words.characters": (7, 1),
    "words.convolutions.0.weight": (4, 1, 1),
    "words.projection.weight": (6, 1),
    "lstm.0.input": (2, 1, 8),
    "weight": (11, 1),
}


def random_tensors(seed: int) -> dict[str, torch.Tensor]:
    """With units of very different sizes, and some that are zero throughout."""
    random = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in SHAPES.items():
        sizes = 10.0 ** torch.randint(-6, 4, SCALES.get(name, shape), generator=random)
        tensors[name] = torch.randn(shape, generator=random) * sizes
    tensors["weight"][3] = 0.0
    return tensors


@patiently
@given(seeds)
def test_no_number_moves_by_more_than_half_a_step(seed):
    tensors = random_tensors(seed)
    packed = pack(quantize(tensors))
    again = dequantize(unpack(packed))
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        if name not in SCALES:
            assert torch.equal(again[name], tensor), name
            continue
        scale = packed[name + SCALE]
        assert packed[name].dtype == torch.int8
        assert tuple(scale.shape) == SCALES[name]
        assert ((again[name] - tensor).abs() <= scale * 0.5001).all(), name
        # A step is the 127th part of the largest number of its unit, which is therefore kept.
        largest = tensor.abs().amax(dim=[n for n, size in enumerate(SCALES[name]) if size == 1], keepdim=True)
        torch.testing.assert_close(scale * 127, largest.clamp(min=1e-12), rtol=1e-6, atol=0)
        assert again[name].dtype == torch.float32


def test_biases_stay_as_they_are_even_those_with_a_row_for_each_direction():
    packed = pack(quantize(random_tensors(1)))
    assert {name for name in packed if packed[name].dtype == torch.int8} == set(SCALES)
    assert packed.keys() == SHAPES.keys() | {name + SCALE for name in SCALES}


def test_zeros_stay_zeros():
    assert (dequantize(quantize({"w": torch.zeros(2, 3)}))["w"] == 0).all()


def test_what_is_not_int8_passes_even_under_a_name_that_looks_like_a_scale():
    tensors = {"x": torch.ones(2), "x.scale": torch.ones(3), "y.scale": torch.ones(1)}
    assert unpack(tensors).keys() == tensors.keys()


@pytest.mark.parametrize(
    "scale",
    [
        None,
        torch.ones(3),
        torch.ones(3, 1, 1),
        torch.ones(2, 1),
        torch.ones(3, 2),
        torch.ones(1, 1).int(),
        torch.ones(1, 1).double(),
        # Small in a file; multiplied, it would be eight terabytes.
        torch.ones(1).expand(2_000_000, 1_000_000),
    ],
    ids=str,
)
def test_scales_that_do_not_fit_are_refused_before_they_are_multiplied(scale):
    tensors = {"w": torch.ones(3, 4, dtype=torch.int8)} | ({} if scale is None else {"w.scale": scale})
    with pytest.raises(FormatError, match=r"w holds int8 numbers, and w\.scale is missing or does not fit"):
        unpack(tensors)


def random_model(config: ModelConfig, *, classes: int = 0) -> Model:
    random = torch.Generator().manual_seed(2)
    tensors = {name: 0.1 * torch.randn(shape, generator=random) for name, shape in tensor_shapes(config).items()}
    softmax = {"weight": torch.randn(classes, config.vector_dim, generator=random), "bias": torch.randn(classes)}
    words = Vocabulary(["<S>", "</S>", "<UNK>", *(f"w{n}" for n in range(classes - 3))])
    checkpoint = Checkpoint(config=config, tensors=tensors)
    if classes:
        checkpoint = replace(checkpoint, vocabulary=words, softmax=lambda: softmax)
    return model_of(checkpoint)


def test_a_folder_in_int8_is_written_and_read_like_any_other(tmp_path: Path, tiny_model: Model):
    save(tiny_model, tmp_path / "small", format="folder-int8")
    again = load(tmp_path / "small")
    assert again.config == tiny_model.config
    stored = load_file(tmp_path / "small" / "model.safetensors")
    expected = dequantize(quantize(tiny_model.network.state_dict()))
    for name, tensor in again.network.state_dict().items():
        assert torch.equal(tensor, expected[name])
    assert stored["lstm.0.input"].dtype == torch.int8
    assert stored["lstm.0.bias"].dtype == torch.float32
    # Once rounded, it is rounded: a second time changes next to nothing.
    save(again, tmp_path / "twice", format="folder-int8")
    for name, tensor in load(tmp_path / "twice").network.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-6, atol=1e-8)


def test_vectors_of_a_model_in_int8_are_close(tmp_path: Path, tiny_model: Model):
    save(tiny_model, tmp_path / "small", format="folder-int8")
    batch = tiny_model.batch([["a", "bow", "and", "arrow"]])
    exact, rounded = (model.network(batch, model.start)[0].stack() for model in (tiny_model, load(tmp_path / "small")))
    assert not torch.equal(exact, rounded)
    assert (torch.nn.functional.cosine_similarity(exact, rounded, dim=-1) > 0.9995).all()


def test_it_takes_a_quarter_of_the_space_softmax_included(tmp_path: Path):
    model = random_model(SMALL, classes=500)
    for kind in ("folder", "folder-int8"):
        save(model, tmp_path / kind, format=kind)

    def size(kind: str, name: str) -> int:
        return (tmp_path / kind / name).stat().st_size

    for name, most in (("model.safetensors", 0.26), ("softmax.safetensors", 0.3)):
        assert 0.25 < size("folder-int8", name) / size("folder", name) < most
    softmax, exact = load(tmp_path / "folder-int8").softmax(), model.softmax()
    assert torch.equal(softmax["bias"], exact["bias"])
    step = exact["weight"].abs().amax(dim=1, keepdim=True) / 127
    assert ((softmax["weight"] - exact["weight"]).abs() <= step * 0.5001).all()


def test_a_checkpoint_read_from_int8_stays_int8_and_is_written_again_to_the_byte(tmp_path: Path, monkeypatch):
    save(random_model(SMALL, classes=500), tmp_path / "small", format="folder-int8")
    checkpoint = read_checkpoint(open_container(tmp_path / "small"))
    stored = [*checkpoint.tensors.values(), *checkpoint.softmax().values()]
    held = sum(part.nbytes for tensor in stored for part in (tensor if isinstance(tensor, Int8Tensor) else [tensor]))
    exact = sum(4 * tensor.shape.numel() for tensor in stored)
    assert 0.25 < held / exact < 0.26
    # Not by way of float32, which would give back other bits of a scale here and there.
    monkeypatch.setattr(Int8Tensor, "dequantize", None)
    write_checkpoint(checkpoint, tmp_path / "again", format="folder-int8")
    for file in ("model.safetensors", "softmax.safetensors"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "small" / file).read_bytes()


@pytest.mark.parametrize("kind", ["folder", "hdf5"])
def test_a_checkpoint_in_int8_is_written_in_float32_where_the_format_wants_it(tmp_path: Path, tiny_model, kind):
    save(tiny_model, tmp_path / "small", format="folder-int8")
    write_checkpoint(read_checkpoint(open_container(tmp_path / "small")), tmp_path / "wide", format=kind)
    expected = load(tmp_path / "small").network.state_dict()
    for name, tensor in load(tmp_path / "wide").network.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_a_file_whose_scale_was_changed_is_refused_by_its_name(tmp_path: Path, tiny_model: Model):
    write_checkpoint(tiny_model.checkpoint(), tmp_path / "small", format="folder-int8")
    file = tmp_path / "small" / "model.safetensors"
    tensors = load_file(file)
    tensors["lstm.0.input.scale"] = tensors["lstm.0.input.scale"][:, :, :-1].contiguous()
    save_file(tensors, file)
    with pytest.raises(FormatError, match=r"model\.safetensors: lstm\.0\.input holds int8 numbers"):
        load(tmp_path / "small")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_scale_that_is_no_number_is_refused(tmp_path: Path, tiny_model: Model, value):
    save(tiny_model, tmp_path / "small", format="folder-int8")
    file = tmp_path / "small" / "model.safetensors"
    tensors = load_file(file)
    tensors["lstm.0.input.scale"][0, 0, 0] = value
    save_file(tensors, file)
    with pytest.raises(FormatError, match=r"lstm\.0\.input"):
        load(tmp_path / "small")
