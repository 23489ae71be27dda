"""What was read from a file is the reader's own: it stays as it is when the file is written over or deleted."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from elmore import load
from elmore.formats import Checkpoint, read_checkpoint, write_checkpoint
from elmore.formats.storage.container import FileContainer, open_container
from elmore.formats.storage.int8 import Int8Tensor
from elmore.formats.storage.torch_files import load_tensors
from elmore.model import Model, save
from elmore.training.checkpoints import Snapshot, TrainingCheckpoints


def spoil(path: Path) -> None:
    """Write over every file in place, which shows through in memory that is mapped; then delete it."""
    for file in [file for file in path.rglob("*") if file.is_file()]:
        size = file.stat().st_size
        with file.open("r+b") as opened:
            opened.write(b"\xff" * size)
        file.unlink()


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def assert_unchanged(tensors: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> None:
    assert tensors.keys() == before.keys()
    assert [name for name, tensor in tensors.items() if not torch.equal(tensor, before[name])] == []


@pytest.mark.parametrize("format_name", ["folder", "folder-int8", "hdf5"])
def test_a_model(tmp_path: Path, tiny_model: Model, format_name: str) -> None:
    save(tiny_model, tmp_path / "model", format=format_name)
    model = load(tmp_path / "model")
    before = copied(model.network.state_dict())
    spoil(tmp_path / "model")
    assert_unchanged(model.network.state_dict(), before)


def parts(checkpoint: Checkpoint) -> dict[str, Tensor]:
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
        for number, piece in enumerate(tensor if isinstance(tensor, Int8Tensor) else [tensor])
    }


@pytest.mark.parametrize("format_name", ["folder", "folder-int8"])
def test_all_parts_of_a_model(tmp_path: Path, tiny_model: Model, format_name: str) -> None:
    config = tiny_model.config
    random = torch.Generator().manual_seed(1)
    state = (config.lstm_layers, config.num_directions)
    whole = replace(
        tiny_model.checkpoint(),
        softmax=lambda: {"weight": torch.randn(5, config.vector_dim, generator=random), "bias": torch.zeros(5)},
        start={"h": torch.ones(*state, config.vector_dim), "c": torch.ones(*state, config.cell_dim)},
        mixes={"0.scalars": torch.ones(3), "0.gamma": torch.ones(())},
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
    assert_unchanged(found.tensors, {"weight": torch.arange(1000.0)})


def test_a_file_of_torch(tmp_path: Path) -> None:
    for as_zip in (False, True):
        folder = tmp_path / str(as_zip)
        folder.mkdir()
        torch.save({"w": torch.arange(1000.0)}, folder / "w.th", _use_new_zipfile_serialization=as_zip)
        found = load_tensors(FileContainer({"w.th": folder / "w.th"}), "w.th")
        spoil(folder)
        assert_unchanged(found, {"w": torch.arange(1000.0)})
