"""Checkpoints of a training run: tensors and progress, each checkpoint written completely or not at all.

A checkpoint is a folder `step-00001200` with safetensors and JSON. Only the newest checkpoints are stored. If one
cannot be read, the one before is used, with a warning. The names of its tensors:

model.…              parameters of the model
optimizer.0.3.…      state of the first optimizer for its fourth parameter

A checkpoint does not depend on the number of processes.
"""

import json
import re
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, as_tensor, nn
from torch.optim import Optimizer

from elmore.errors import InputWarning, NotFound
from elmore.files.atomic_files import atomic_write_folder, make_folder
from elmore.formats.storage.safetensors_files import write_tensors
from elmore.nn.devices import to_arrays
from elmore.training.trainable import Snapshot

TENSORS, PROGRESS = "tensors.safetensors", "progress.json"


class TrainingCheckpoints:
    """The checkpoints of a run, in one folder."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, step: int, snapshot: Snapshot) -> None:
        """Write a checkpoint, then remove all but the newest."""
        make_folder(self.folder)
        # A killed process may have left an incomplete checkpoint under a hidden name.
        for incomplete in self.folder.glob(".*-step-*"):
            shutil.rmtree(incomplete)
        with atomic_write_folder(self.folder / f"step-{step:08d}", replaces=(TENSORS, PROGRESS)) as folder:
            write_tensors(to_arrays(snapshot.tensors), folder / TENSORS)
            (folder / PROGRESS).write_text(json.dumps({"step": step, **snapshot.progress}, indent=2))
        # A checkpoint of a later step is damaged: otherwise the run would have resumed from it.
        up_to_step = [folder for folder in self._folders() if _step(folder) <= step]
        for folder in self._folders():
            if folder not in up_to_step[-self.keep :]:
                shutil.rmtree(folder)

    def newest(self) -> Snapshot:
        """The newest checkpoint that can be read."""
        for folder in reversed(self._folders()):
            try:
                return _read(folder)
            except (OSError, ValueError, SafetensorError) as error:
                warnings.warn(f"{folder}: skipped, because it cannot be read ({error})", InputWarning, stacklevel=2)
        raise NotFound(f"{self.folder}: contains no usable checkpoint; start a new run in another folder")

    def __bool__(self) -> bool:
        return bool(self._folders())

    def _folders(self) -> list[Path]:
        """From the oldest to the newest."""
        folders = self.folder.glob("step-*") if self.folder.is_dir() else ()
        return sorted((folder for folder in folders if _NAME.fullmatch(folder.name)), key=_step)


_NAME = re.compile(r"step-\d+")


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def _read(folder: Path) -> Snapshot:
    progress = json.loads((folder / PROGRESS).read_bytes())
    if not isinstance(progress, dict) or progress.get("step") != _step(folder):
        raise ValueError(f"{PROGRESS} is not of step {_step(folder)}")
    # Copied, because the library returns tensors that are mapped to the file.
    return Snapshot({name: tensor.clone() for name, tensor in load_file(folder / TENSORS).items()}, progress)


def joint_state_dict(model: nn.Module, optimizers: Sequence[Optimizer]) -> dict[str, Tensor]:
    """All parameters and optimizer states under the names above, on the CPU."""
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, optimizer in enumerate(optimizers):
        for number, values in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{number}.{name}": as_tensor(value) for name, value in values.items()}
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}


def load_joint_state_dict(model: nn.Module, optimizers: Sequence[Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Restore the tensors of `joint_state_dict`."""
    model.load_state_dict(_without_prefix("model.", tensors))
    for index, optimizer in enumerate(optimizers):
        states: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _without_prefix(f"optimizer.{index}.", tensors).items():
            number, field = name.split(".", 1)
            states.setdefault(int(number), {})[field] = tensor
        optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})


def _without_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
