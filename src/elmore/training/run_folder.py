"""The folder of a training run: what lies where.

recipe.json       model and training, resolved
settings.json     how often the run logs, evaluates and saves
run.json          what the run was started with: data, commands, whatever the training adds
log.jsonl         what happened, one object a line
checkpoints/      the newest few, each whole
model/            the finished model
hdf5/             of pre-training: the same as options.json and weights.hdf5, if asked for
loss.png          the curve
tensorboard/      the same for TensorBoard, if asked for
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from elmore.atomic_files import atomic_write, make_folder
from elmore.errors import FormatError, error_context
from elmore.fields import read_fields
from elmore.training.settings import RunSettings


class StoredRun(NamedTuple):
    """What a folder knows of its run; recipe and origins as plain values, for each training to read."""

    recipe: Mapping[str, Any]
    settings: RunSettings
    origins: Mapping[str, Any]


@dataclass(frozen=True)
class RunFolder:
    """The places in a run's folder."""

    path: Path

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.json"

    @property
    def settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def origins(self) -> Path:
        return self.path / "run.json"

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def hdf5(self) -> Path:
        return self.path / "hdf5"

    @property
    def curve(self) -> Path:
        return self.path / "loss.png"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def is_begun(self) -> bool:
        return self.recipe.is_file()

    @property
    def taken(self) -> list[str]:
        """What lies there under the names of a run's own files, be it anybody's."""
        described = (self.recipe, self.settings, self.origins)
        written = (self.log, self.checkpoints, self.model, self.hdf5, self.curve, self.tensorboard)
        return [place.name for place in (*described, *written) if place.exists()]

    def read(self) -> StoredRun:
        """What `write` wrote; an error where that is not what lies there."""
        recipe, settings, origins = (_read_json(path) for path in (self.recipe, self.settings, self.origins))
        with error_context(self.settings):
            return StoredRun(recipe, read_fields(RunSettings, settings, error=FormatError), origins)

    def write(self, run: StoredRun) -> None:
        make_folder(self.path)
        _write_json(self.origins, run.origins)
        _write_json(self.settings, asdict(run.settings))
        # Last, because it is what makes a folder a run.
        _write_json(self.recipe, run.recipe)


def _read_json(path: Path) -> dict[str, Any]:
    with error_context(path):
        try:
            values = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise FormatError(f"cannot be read ({error}); begin the run anew") from None
        if not isinstance(values, dict):
            raise FormatError("is not a table of values; begin the run anew")
        return values


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(values, indent=2) + "\n")
