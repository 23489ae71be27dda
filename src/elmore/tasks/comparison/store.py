"""The folder of a comparison. It contains everything that resuming requires.

comparison.json      identity: task, recipe, digests of data and biLM
results.jsonl        a line for each finished training run
ensembles.jsonl      a line for each scored ensemble
counts/              the metric's rows of each run and ensemble, by test set
runs/VARIANT/SEED    the run's folder; without `keep_models`, the weights are removed at its end
cache/               ELMo's layers, until the end of the comparison
table.md, table.json, *.png
"""

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmore.display import join_names
from elmore.errors import FormatError, InputError, error_context
from elmore.fields import check_fields, read_fields
from elmore.files.atomic_files import atomic_write, make_folder
from elmore.files.locks import LOCK, file_lock
from elmore.files.os_errors import cannot_be_written
from elmore.tasks.comparison.plan import ComparisonRun, folder_name
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.model_folder import MixWeights

R = TypeVar("R")

IDENTITY_FILE = "comparison.json"
OPTION_NAMES = {"train": "the --train data", "dev": "the --dev data", "test": "the --test data", "task": "the task"}


@dataclass(frozen=True, kw_only=True)
class TestScore:
    """The official score on one test set."""

    __test__ = False  # not a test class of pytest, despite its name

    value: float
    parts: Mapping[str, float]
    examples: int
    metric: str = ""  # "": the metric of the dev set; results of older versions lack it


# Variant, fraction of the data, and the seed, or the seeds of an ensemble.
ScoreKey = tuple[str, float, int | tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of a training run. The metric's rows of the test examples are in a separate file."""

    variant: str
    changes: Mapping[str, Any]
    fraction: float
    seed: int
    examples: int  # trained on
    metric: str
    dev: float  # the best score
    best_epoch: int  # from 1
    epochs: int
    dev_scores: tuple[float, ...]  # after each epoch
    tests: Mapping[str, TestScore]  # by the name of the test set
    mixes: Mapping[str, MixWeights]  # by position; empty without ELMo
    seconds: float  # spent on training steps
    command: str  # that trains the same model

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def key(self) -> tuple[str, float, int]:
        return self.variant, self.fraction, self.seed


@dataclass(frozen=True, kw_only=True)
class EnsembleResult:
    """The scores of the ensemble of all seeds' models."""

    variant: str
    fraction: float
    seeds: tuple[int, ...]
    tests: Mapping[str, TestScore]  # by the name of the test set

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def key(self) -> tuple[str, float, tuple[int, ...]]:
        return self.variant, self.fraction, self.seeds


@dataclass(frozen=True)
class ComparisonFolder:
    """The files in a comparison's folder: paths, and reading and writing."""

    path: Path

    @property
    def identity(self) -> Path:
        return self.path / IDENTITY_FILE

    @property
    def results(self) -> Path:
        return self.path / "results.jsonl"

    @property
    def ensembles(self) -> Path:
        return self.path / "ensembles.jsonl"

    @property
    def cache(self) -> Path:
        return self.path / "cache"

    @property
    def counts_folder(self) -> Path:
        return self.path / "counts"

    @property
    def table(self) -> Path:
        return self.path / "table.md"

    @property
    def table_json(self) -> Path:
        return self.path / "table.json"

    def run(self, run: ComparisonRun) -> Path:
        return self.path / run.folder

    def counts(self, variant: str, fraction: float, seed: int | tuple[int, ...]) -> Path:
        model = f"seed-{seed}" if isinstance(seed, int) else "-".join(map(str, ("ensemble", *seed)))
        return self.counts_folder / f"{folder_name(variant)}-fraction-{fraction!r}-{model}.npz"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock: one comparison at a time. A crash frees the lock."""
        make_folder(self.path)
        busy = f"{self.path}: another comparison uses this folder; wait until it ends, or stop it"
        with file_lock(self.path / LOCK, timeout=0, busy=busy):
            yield

    def check_same(self, identity: Mapping[str, Any], *, recipe_type: type[TaskRecipe] | None = None) -> None:
        """Store the identity of a comparison. If it differs from the stored identity, raise InputError.

        New entries are added. `recipe_type` reads a stored recipe of an older version, with defaults for new fields.
        """
        # Through JSON, which turns tuples into lists.
        identity = json.loads(json.dumps(identity))
        if not self.identity.is_file():
            written = (
                self.results,
                self.ensembles,
                self.counts_folder,
                self.path / "runs",
                self.cache,
                self.table,
                self.table_json,
            )
            if existing := [path.name for path in (*written, *self.path.glob("*.png")) if path.exists()]:
                raise InputError(
                    f"{self.path}: contains {join_names(existing)}, which would be overwritten; choose another folder"
                )
        else:
            with error_context(self.identity):
                stored = _read_json(self.identity)
                if recipe_type is not None and "recipe" in stored:
                    stored["recipe"] = json.loads(json.dumps(asdict(read_fields(recipe_type, stored["recipe"]))))
            for name, value in identity.items():
                if name in stored and stored[name] != value:
                    what = OPTION_NAMES.get(name, f"the {name}")
                    raise InputError(
                        f"{self.path}: {what} differs from the earlier calls of this comparison"
                        f"{_difference(stored[name], value)}; give the same, or compare in another folder"
                    )
            identity = {**stored, **identity}
        with atomic_write(self.identity) as unfinished:
            unfinished.write_text(json.dumps(identity, indent=2) + "\n")

    def read_results(self) -> list[RunResult]:
        """The results of all finished training runs."""
        return _read_lines(self.results, RunResult)

    def add_result(self, result: RunResult) -> None:
        _add_line(self.results, result)

    def read_ensembles(self) -> list[EnsembleResult]:
        """The results of all scored ensembles."""
        return _read_lines(self.ensembles, EnsembleResult)

    def add_ensemble(self, result: EnsembleResult) -> None:
        _add_line(self.ensembles, result)

    def read_counts(self, results: Sequence[RunResult | EnsembleResult]) -> dict[ScoreKey, dict[str, NDArray[Any]]]:
        """The stored rows of each result, by key and test set."""
        counts: dict[ScoreKey, dict[str, NDArray[Any]]] = {}
        for result in results:
            if not (path := self.counts(*result.key)).is_file():
                continue
            with np.load(path) as arrays:
                counts[result.key] = {name: arrays[name] for name in arrays.files}
        return counts


def _read_lines(path: Path, kind: type[R]) -> list[R]:
    """A record for each line. An incomplete last line, from a crash, is removed."""
    if not path.is_file():
        return []
    content = path.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    if len(complete) < len(content):
        with atomic_write(path) as unfinished:
            unfinished.write_bytes(complete)
    records = []
    for number, line in enumerate(complete.decode().split("\n")[:-1], start=1):
        with error_context(f"{path}, line {number}"):
            try:
                values = json.loads(line)
            except ValueError as error:
                raise FormatError(f"cannot be read ({error}); remove the line to repeat its run") from None
            records.append(read_fields(kind, values, error=FormatError))
    return records


def _add_line(path: Path, record: RunResult | EnsembleResult) -> None:
    """Append a line, and flush it to disk."""
    line = (json.dumps(asdict(record)) + "\n").encode()
    try:
        with path.open("ab", buffering=0) as file:
            before = file.tell()
            try:
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(before)
                raise
    except OSError as error:
        raise cannot_be_written(path, error) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot be read ({error}); compare in another folder") from None
    if not isinstance(values, dict):
        raise FormatError("does not contain a JSON object; compare in another folder")
    return values


def _difference(before: Any, now: Any, name: str = "") -> str:
    """The first field that differs, as text; empty if the values have no fields."""
    if isinstance(before, dict) and isinstance(now, dict):
        for field in sorted(before.keys() | now.keys()):
            if before.get(field) != now.get(field):
                return _difference(before.get(field), now.get(field), f"{name}.{field}".lstrip("."))
    return f" ({name} was {before} and is now {now})" if name else ""
