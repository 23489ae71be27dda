"""What was read from a file is the reader's own: it stays as it is when the file is written over or deleted."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from elmore import load
from elmore.formats import Checkpoint, Int8Array, read_checkpoint, write_checkpoint
from elmore.formats.storage.container import FileContainer, open_container
from elmore.formats.storage.torch_files import load_tensors
from elmore.model import Model, save
from elmore.nn.devices import to_arrays
from elmore.training.checkpoints import Snapshot, TrainingCheckpoints

Array = NDArray[Any]


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def spoil(path: Path) -> None:
    """Write over every file in place, which shows through in memory that is mapped; then delete it."""
    for file in [file for file in path.rglob("*") if file.is_file()]:
        size = file.stat().st_size
        with file.open("r+b") as opened:
            opened.write(b"\xff" * size)
        file.unlink()


def copied(arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {name: array.copy() for name, array in arrays.items()}


def assert_unchanged(arrays: Mapping[str, Array], before: Mapping[str, Array]) -> None:
    assert arrays.keys() == before.keys()
    assert [name for name, array in arrays.items() if not np.array_equal(array, before[name])] == []


@pytest.mark.parametrize("format_name", ["folder", "folder-int8", "hdf5"])
def test_a_model(tmp_path: Path, tiny_model: Model, format_name: str) -> None:
    save(tiny_model, tmp_path / "model", format=format_name)
    model = load(tmp_path / "model")
    before = copied(model.checkpoint.float_arrays())
    spoil(tmp_path / "model")
    assert_unchanged(model.checkpoint.float_arrays(), before)


def parts(checkpoint: Checkpoint) -> dict[str, Array]:
    """All tensors of a checkpoint; of one in int8 its numbers and its scales."""
    whole = {
        "model": checkpoint.tensors,
        "softmax": checkpoint.softmax(),
        "start": checkpoint.start,
        "mixes": checkpoint.mixes,
    }
    return {
        f"{part}.{name}.{number}": piece
        for part, tensors in whole.items()
        for name, tensor in tensors.items()
        for number, piece in enumerate(tensor if isinstance(tensor, Int8Array) else [tensor])
    }


@pytest.mark.parametrize("format_name", ["folder", "folder-int8"])
def test_all_parts_of_a_model(tmp_path: Path, tiny_model: Model, format_name: str) -> None:
    config = tiny_model.config
    random = np.random.default_rng(1)
    state = (config.lstm_layers, config.num_directions)
    whole = replace(
        tiny_model.checkpoint,
        softmax=lambda: {"weight": random.standard_normal((5, config.vector_dim), np.float32), "bias": zeros(5)},
        start={"h": zeros(*state, config.vector_dim), "c": zeros(*state, config.cell_dim)},
        mixes={"0.scalars": zeros(3), "0.gamma": zeros()},
        card=replace(tiny_model.card, start_state="warm"),
    )
    write_checkpoint(whole, tmp_path / "model", format=format_name)
    read = read_checkpoint(open_container(tmp_path / "model"))
    found = parts(read)
    before = copied(found)
    spoil(tmp_path / "model")
    assert_unchanged(found, before)


def test_a_checkpoint_of_a_training(tmp_path: Path) -> None:
    checkpoints = TrainingCheckpoints(tmp_path / "checkpoints")
    checkpoints.save(1, Snapshot({"weight": torch.arange(1000.0)}, {}))
    found = checkpoints.newest()
    spoil(tmp_path / "checkpoints")
    assert_unchanged(to_arrays(found.tensors), {"weight": np.arange(1000.0)})


def test_a_file_of_torch(tmp_path: Path) -> None:
    for as_zip in (False, True):
        folder = tmp_path / str(as_zip)
        folder.mkdir()
        torch.save({"w": torch.arange(1000.0)}, folder / "w.th", _use_new_zipfile_serialization=as_zip)
        found = load_tensors(FileContainer({"w.th": folder / "w.th"}), "w.th")
        spoil(folder)
        assert_unchanged(found, {"w": np.arange(1000.0)})
