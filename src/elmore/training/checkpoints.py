"""The checkpoints of a training: everything a run needs to go on, as data only, each written whole or not at all.

A checkpoint is a folder `step-00001200` with safetensors and JSON. The newest few are kept. One that turns out to be
damaged is passed over for the one before it, with a word.
"""

import json
import re
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from elmore.errors import InputWarning, NotFound
from elmore.files.atomic_files import atomic_write_folder, make_folder
from elmore.formats.storage.safetensors_files import write_tensors
from elmore.nn.devices import to_arrays

TENSORS, PROGRESS = "tensors.safetensors", "progress.json"


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint holds: named tensors, and how far the run was."""

    tensors: Mapping[str, Tensor]
    progress: Mapping[str, Any]


class TrainingCheckpoints:
    """The checkpoints of a run, in a folder of their own."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, step: int, snapshot: Snapshot) -> None:
        """Write one, then remove all but the newest few."""
        make_folder(self.folder)
        # A process that was killed may have left something half-written, under a hidden name.
        for unfinished in self.folder.glob(".*-step-*"):
            shutil.rmtree(unfinished)
        with atomic_write_folder(self.folder / f"step-{step:08d}", replaces=(TENSORS, PROGRESS)) as folder:
            write_tensors(to_arrays(snapshot.tensors), folder / TENSORS)
            (folder / PROGRESS).write_text(json.dumps({"step": step, **snapshot.progress}, indent=2))
        # A later one was damaged, or the run would have gone on from it.
        until_now = [folder for folder in self._folders() if _step(folder) <= step]
        for folder in self._folders():
            if folder not in until_now[-self.keep :]:
                shutil.rmtree(folder)

    def newest(self) -> Snapshot:
        """The newest that can be read."""
        for folder in reversed(self._folders()):
            try:
                return _read(folder)
            except (OSError, ValueError, SafetensorError) as error:
                warnings.warn(f"{folder}: passed over, it cannot be read ({error})", InputWarning, stacklevel=2)
        raise NotFound(f"{self.folder}: no checkpoint to go on from; start the run anew, in another folder")

    def __bool__(self) -> bool:
        return bool(self._folders())

    def _folders(self) -> list[Path]:
        """From the oldest to the newest."""
        found = self.folder.glob("step-*") if self.folder.is_dir() else ()
        return sorted((folder for folder in found if _NAME.fullmatch(folder.name)), key=_step)


_NAME = re.compile(r"step-\d+")


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def _read(folder: Path) -> Snapshot:
    progress = json.loads((folder / PROGRESS).read_bytes())
    if not isinstance(progress, dict) or progress.get("step") != _step(folder):
        raise ValueError(f"{PROGRESS} does not belong here")
    # Copied, because what the library gives is the file itself.
    return Snapshot({name: tensor.clone() for name, tensor in load_file(folder / TENSORS).items()}, progress)
