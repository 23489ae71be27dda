"""Int8 arrays: no value moves by more than half a step, and no file makes the reader take more memory than it holds."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from safetensors.numpy import load_file, save_file

from elmore import Embedder, load
from elmore.config import SMALL, ModelConfig, tensor_shapes
from elmore.errors import FormatError
from elmore.formats import Checkpoint, read_checkpoint, write_checkpoint
from elmore.formats.arrays import Floats, Int8Array, check_finite, dequantize, quantize
from elmore.formats.storage.container import open_container
from elmore.formats.storage.safetensors_files import SCALE, pack, unpack
from elmore.model import Model, save
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


def ones(*shape: int) -> Floats:
    return np.ones(shape, np.float32)


def random_arrays(seed: int) -> dict[str, Floats]:
    """With units of very different sizes, and one that is zero throughout."""
    random = np.random.default_rng(seed)
    arrays = {}
    for name, shape in SHAPES.items():
        sizes = 10.0 ** random.integers(-6, 4, SCALES.get(name, shape))
        arrays[name] = (random.standard_normal(shape) * sizes).astype(np.float32)
    arrays["weight"][3] = 0.0
    return arrays


@patiently
@given(seeds)
def test_no_number_moves_by_more_than_half_a_step(seed):
    arrays = random_arrays(seed)
    packed = pack(quantize(arrays))
    again = dequantize(unpack(packed))
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        if name not in SCALES:
            assert np.array_equal(again[name], array), name
            continue
        scale = packed[name + SCALE]
        assert packed[name].dtype == np.int8
        assert scale.shape == SCALES[name]
        assert (np.abs(again[name] - array) <= scale * 0.5001).all(), name
        # A step is the 127th part of the largest number of its unit, which therefore does not change.
        largest = np.abs(array).max(axis=tuple(n for n, size in enumerate(SCALES[name]) if size == 1), keepdims=True)
        np.testing.assert_allclose(scale * 127, np.maximum(largest, 1e-12), rtol=1e-6)
        assert again[name].dtype == np.float32


def test_biases_stay_as_they_are_even_those_with_a_row_for_each_direction():
    packed = pack(quantize(random_arrays(1)))
    assert {name for name in packed if packed[name].dtype == np.int8} == set(SCALES)
    assert packed.keys() == SHAPES.keys() | {name + SCALE for name in SCALES}


def test_zeros_stay_zeros():
    assert (dequantize(quantize({"w": ones(2, 3) * 0}))["w"] == 0).all()


def test_what_is_not_int8_passes_even_under_a_name_that_looks_like_a_scale():
    tensors = {"x": ones(2), "x.scale": ones(3), "y.scale": ones(1)}
    assert unpack(tensors).keys() == tensors.keys()


@pytest.mark.parametrize(
    "scale",
    [
        None,
        ones(3),
        ones(3, 1, 1),
        ones(2, 1),
        ones(3, 2),
        np.ones((1, 1), np.int32),
        np.ones((1, 1), np.float64),
        # Small in a file; multiplied, it would be eight terabytes.
        np.broadcast_to(ones(1), (2_000_000, 1_000_000)),
    ],
    ids=lambda scale: "none" if scale is None else f"{scale.dtype} {scale.shape}",
)
def test_scales_that_do_not_fit_are_refused_before_they_are_multiplied(scale):
    tensors = {"w": np.ones((3, 4), np.int8)} | ({} if scale is None else {"w.scale": scale})
    with pytest.raises(FormatError, match=r"w has the type int8, but w\.scale is missing or has a wrong shape"):
        unpack(tensors)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_check_finite_rejects_one_value_at_any_position(value: float, position: int) -> None:
    values = ones(3)
    check_finite("x", values)
    values[position] = value
    with pytest.raises(FormatError, match=r"x contains nan or infinity"):
        check_finite("x", values)


def test_check_finite_accepts_an_empty_array() -> None:
    check_finite("x", ones(0, 3))


def random_model(config: ModelConfig, *, classes: int = 0) -> Model:
    random = np.random.default_rng(2)
    shapes = tensor_shapes(config).items()
    tensors = {name: np.float32(0.1) * random.standard_normal(shape, np.float32) for name, shape in shapes}
    softmax = {
        "weight": random.standard_normal((classes, config.vector_dim), np.float32),
        "bias": random.standard_normal(classes, np.float32),
    }
    words = Vocabulary(["<S>", "</S>", "<UNK>", *(f"w{n}" for n in range(classes - 3))])
    checkpoint = Checkpoint(config=config, tensors=tensors)
    if classes:
        checkpoint = replace(checkpoint, vocabulary=words, softmax=lambda: softmax)
    return Model(checkpoint)


def test_a_folder_in_int8_is_written_and_read_like_any_other(tmp_path: Path, tiny_model: Model):
    save(tiny_model, tmp_path / "small", format="folder-int8")
    again = load(tmp_path / "small")
    assert again.config == tiny_model.config
    stored = load_file(tmp_path / "small" / "model.safetensors")
    expected = dequantize(quantize(tiny_model.checkpoint.tensors))
    for name, array in again.checkpoint.float_arrays().items():
        assert np.array_equal(array, expected[name])
    assert stored["lstm.0.input"].dtype == np.int8
    assert stored["lstm.0.bias"].dtype == np.float32
    # Once rounded, it is rounded: a second time changes next to nothing.
    save(again, tmp_path / "twice", format="folder-int8")
    for name, array in load(tmp_path / "twice").checkpoint.float_arrays().items():
        np.testing.assert_allclose(array, expected[name], rtol=1e-6, atol=1e-8)


def test_vectors_of_a_model_in_int8_are_close(tmp_path: Path, tiny_model: Model):
    save(tiny_model, tmp_path / "small", format="folder-int8")
    exact, rounded = (
        Embedder(model, device="cpu").encode([["a", "bow", "and", "arrow"]], layers="all")[0]
        for model in (tiny_model, load(tmp_path / "small"))
    )
    assert not np.array_equal(exact, rounded)
    cosine = (exact * rounded).sum(-1) / np.linalg.norm(exact, axis=-1) / np.linalg.norm(rounded, axis=-1)
    assert (cosine > 0.9995).all()


def test_it_takes_a_quarter_of_the_space_softmax_included(tmp_path: Path):
    model = random_model(SMALL, classes=500)
    for kind in ("folder", "folder-int8"):
        save(model, tmp_path / kind, format=kind)

    def size(kind: str, name: str) -> int:
        return (tmp_path / kind / name).stat().st_size

    for name, most in (("model.safetensors", 0.26), ("softmax.safetensors", 0.3)):
        assert 0.25 < size("folder-int8", name) / size("folder", name) < most
    softmax, exact = dequantize(load(tmp_path / "folder-int8").softmax()), model.softmax()
    assert np.array_equal(softmax["bias"], exact["bias"])
    step = np.abs(exact["weight"]).max(axis=1, keepdims=True) / 127
    assert (np.abs(softmax["weight"] - exact["weight"]) <= step * 0.5001).all()


def test_a_checkpoint_read_from_int8_stays_int8_and_is_written_again_to_the_byte(tmp_path: Path, monkeypatch):
    save(random_model(SMALL, classes=500), tmp_path / "small", format="folder-int8")
    checkpoint = read_checkpoint(open_container(tmp_path / "small"))
    stored = [*checkpoint.tensors.values(), *checkpoint.softmax().values()]
    held = sum(part.nbytes for array in stored for part in (array if isinstance(array, Int8Array) else [array]))
    exact = sum(4 * math.prod(array.shape) for array in stored)
    assert 0.25 < held / exact < 0.26
    # Not by way of float32, which would give back other bits of a scale here and there.
    monkeypatch.setattr(Int8Array, "dequantize", None)
    write_checkpoint(checkpoint, tmp_path / "again", format="folder-int8")
    for file in ("model.safetensors", "softmax.safetensors"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "small" / file).read_bytes()


@pytest.mark.parametrize("kind", ["folder", "hdf5"])
def test_a_checkpoint_in_int8_is_written_in_float32_where_the_format_wants_it(tmp_path: Path, tiny_model, kind):
    save(tiny_model, tmp_path / "small", format="folder-int8")
    write_checkpoint(read_checkpoint(open_container(tmp_path / "small")), tmp_path / "wide", format=kind)
    expected = load(tmp_path / "small").checkpoint.float_arrays()
    for name, tensor in load(tmp_path / "wide").checkpoint.float_arrays().items():
        assert np.array_equal(tensor, expected[name]), name


def test_a_file_whose_scale_was_changed_is_refused_by_its_name(tmp_path: Path, tiny_model: Model):
    write_checkpoint(tiny_model.checkpoint, tmp_path / "small", format="folder-int8")
    file = tmp_path / "small" / "model.safetensors"
    tensors = load_file(file)
    tensors["lstm.0.input.scale"] = tensors["lstm.0.input.scale"][:, :, :-1].copy()
    save_file(tensors, file)
    with pytest.raises(FormatError, match=r"model\.safetensors: lstm\.0\.input has the type int8"):
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
