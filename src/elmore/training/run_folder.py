"""The folder of a training run, and its settings.

recipe.json       what is trained and how, with all fields
settings.json     how often the run logs, evaluates and saves
run.json          provenance: data, commands, and facts of the kind of training
log.jsonl         steps and evaluations, one object per line
checkpoints/      the newest checkpoints
model/            the finished model
loss.png          the loss curve
.lock             held by the process that trains, from start to end

A kind of training may add more files.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from elmore.display import join_names
from elmore.errors import FormatError, InputError, error_context
from elmore.fields import check_fields, checked_field
from elmore.files.atomic_files import atomic_write, make_folder
from elmore.files.locks import LOCK, file_lock

IN_USE = (
    "another training run uses this folder; wait until it ends, stop it, or choose another folder (in Python, close() "
    "an unfinished run)"
)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How often a run logs, evaluates and saves. Settings do not change the trained model."""

    log_every: int = checked_field(50, at_least=1)  # steps
    checkpoint_every: int = checked_field(1000, at_least=1)  # steps
    checkpoint_seconds: float = checked_field(0.0, at_least=0)  # shortest time between two checkpoints
    evaluate_every: int = checked_field(0, at_least=0)  # steps; 0 means after each epoch
    keep: int = checked_field(2, at_least=1)  # checkpoints

    def __post_init__(self) -> None:
        check_fields(self)


class StoredRun(NamedTuple):
    """The description of a run in its folder, as plain values."""

    recipe: Mapping[str, Any]
    settings: Mapping[str, Any]
    provenance: Mapping[str, Any]


@dataclass(frozen=True)
class RunFolder:
    """The paths in the folder of a run."""

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
    def exists(self) -> bool:
        """Whether the folder contains a run."""
        return self.recipe.is_file()

    def existing_files(self, *more: str) -> list[str]:
        """The names of existing files and folders that a new run, which also writes `more`, would replace."""
        written = (self.recipe, self.settings, self.provenance, self.log, self.checkpoints, self.model, self.curve)
        others = (self.path / name for name in more)
        return [path.name for path in (*written, *others) if path.exists()]

    def check_free(self, *more: str) -> None:
        """Raise InputError if a new run, which also writes `more`, would replace existing files."""
        if files := self.existing_files(*more):
            raise InputError(
                f"{self.path}: contains {join_names(files)}, and a run would replace it; choose another folder"
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
        """Read what `write` wrote; FormatError if a file is damaged."""
        return StoredRun(_read_json(self.recipe), _read_json(self.settings), _read_json(self.provenance))

    def write(self, run: StoredRun) -> None:
        make_folder(self.path)
        _write_json(self.provenance, run.provenance)
        _write_json(self.settings, run.settings)
        # Last, because a folder with a recipe is a run.
        _write_json(self.recipe, run.recipe)


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # not empty
            folder.rmdir()


def _read_json(path: Path) -> dict[str, Any]:
    with error_context(path):
        try:
            values = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise FormatError(f"cannot be read ({error}); start a new run in another folder") from None
        if not isinstance(values, dict):
            raise FormatError("is not a JSON object; start a new run in another folder")
        return values


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(values, indent=2) + "\n")
