"""Checkpoints: everything a run needs to go on, as data only, each written whole or not at all.

A checkpoint is a folder `step-00001200` with safetensors and JSON. The newest few are kept. One that turns out to be
damaged is passed over for the one before it, with a word.
"""

import json
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmore.errors import InputWarning, NotFound
from elmore.files import writing_folder

TENSORS, PROGRESS = "tensors.safetensors", "progress.json"


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint holds: named tensors, and how far the run was."""

    tensors: Mapping[str, Tensor]
    progress: Mapping[str, Any]


class Checkpoints:
    """The checkpoints of a run, in a folder of their own."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, step: int, snapshot: Snapshot) -> None:
        """Write one, then remove those that are older than the newest few."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with writing_folder(self.folder / f"step-{step:08d}", replaces=(TENSORS, PROGRESS)) as folder:
            save_file({name: tensor.contiguous() for name, tensor in snapshot.tensors.items()}, folder / TENSORS)
            (folder / PROGRESS).write_text(json.dumps({"step": step, **snapshot.progress}, indent=2))
        for old in self._steps()[: -self.keep]:
            shutil.rmtree(old)

    def newest(self) -> Snapshot:
        """The newest that can be read."""
        for folder in reversed(self._steps()):
            try:
                return Snapshot(load_file(folder / TENSORS), json.loads((folder / PROGRESS).read_text()))
            except (OSError, ValueError, SafetensorError) as error:
                warnings.warn(f"{folder}: passed over, it cannot be read ({error})", InputWarning, stacklevel=2)
        raise NotFound(f"{self.folder}: no checkpoint to go on from")

    def __bool__(self) -> bool:
        return bool(self._steps())

    def _steps(self) -> list[Path]:
        return sorted(self.folder.glob("step-*")) if self.folder.is_dir() else []
