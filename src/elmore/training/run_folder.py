"""The folder of a training run: what lies where.

recipe.json       what is trained and how, resolved
settings.json     how often the run logs, evaluates and saves
run.json          what the run was started with: data, commands, whatever the training adds
log.jsonl         what happened, one object a line
checkpoints/      the newest few, each whole
model/            the finished model
loss.png          the curve
tensorboard/      the same for TensorBoard, if asked for
.lock             held by the process that trains, from start to end

A training may put more beside these.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from elmore.display import join_names
from elmore.errors import FormatError, InputError, error_context
from elmore.files.atomic_files import atomic_write, make_folder
from elmore.files.locks import LOCK, file_lock

IN_USE = (
    "another training run uses this folder; wait until it ends, stop it, or choose another folder (in Python, "
    "close() the events of a run that was left unfinished)"
)


class StoredRun(NamedTuple):
    """What a folder knows of its run, as plain values, for each training to read."""

    recipe: Mapping[str, Any]
    settings: Mapping[str, Any]
    provenance: Mapping[str, Any]


@dataclass(frozen=True)
class RunFolder:
    """The places in a run's folder."""

    path: Path

    def __post_init__(self) -> None:
        if self.path.is_file():
            raise InputError(f"{self.path}: is a file; name a folder for the run")

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.json"

    @property
    def settings(self) -> Path:
        return self.path / "settings.json"

    @property
    def provenance(self) -> Path:
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
    def curve(self) -> Path:
        return self.path / "loss.png"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def is_begun(self) -> bool:
        return self.recipe.is_file()

    def taken(self, *more: str) -> list[str]:
        """What lies there under the names of a run's own files, or of `more` that it writes, be it anybody's."""
        described = (self.recipe, self.settings, self.provenance)
        written = (self.log, self.checkpoints, self.model, self.curve, self.tensorboard)
        others = (self.path / name for name in more)
        return [place.name for place in (*described, *written, *others) if place.exists()]

    def check_free(self, *more: str) -> None:
        """Refuse to begin a run where it would write over something, be it anybody's."""
        if taken := self.taken(*more):
            raise InputError(
                f"{self.path}: holds {join_names(taken)}, which would be written over; choose another folder"
            )

    @contextmanager
    def locked(self, *, timeout: float = 0) -> Iterator[None]:
        """Hold the folder's lock, so that no other run writes there. A crash of the process frees it.

        Creates the folder. If nothing was written in it, the folder and those above are as before at the end.
        """
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        before = self._entries()
        make_folder(self.path)
        with ExitStack() as at_end:
            at_end.callback(_remove_empty, missing)
            at_end.enter_context(file_lock(self.path / LOCK, timeout=timeout, busy=f"{self.path}: {IN_USE}"))
            at_end.callback(self._remove_lock, before)
            yield

    def _remove_lock(self, before: frozenset[str]) -> None:
        """Remove the lock file if no other file was written. Called while the lock is held."""
        if LOCK not in before and self._entries() == before | {LOCK}:
            with suppress(OSError):  # Windows does not delete an open file, and filelock deletes it there
                (self.path / LOCK).unlink()

    def _entries(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.path.iterdir()) if self.path.is_dir() else frozenset()

    def read(self) -> StoredRun:
        """What `write` wrote; an error where that is not what lies there."""
        return StoredRun(_read_json(self.recipe), _read_json(self.settings), _read_json(self.provenance))

    def write(self, run: StoredRun) -> None:
        make_folder(self.path)
        _write_json(self.provenance, run.provenance)
        _write_json(self.settings, run.settings)
        # Last, because it is what makes a folder a run.
        _write_json(self.recipe, run.recipe)


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # it is not empty
            folder.rmdir()


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
