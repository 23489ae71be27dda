"""The folder of a comparison, and all that makes it go on where it was stopped.

comparison.json      what is compared: task, recipe, digests of data and biLM
results.jsonl        a line for each training that is done
ensembles.jsonl      a line for each ensemble that was scored
counts/              of each of them, what every test example counted
runs/VARIANT/SEED    its run, of which the weights are removed when it is done, unless they are to be kept
cache/               ELMo's layers, for the time of the comparison
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

ABOUT = "comparison.json"
SHOWN = {"train": "the --train data", "dev": "the --dev data", "test": "the --test data", "task": "the task"}


@dataclass(frozen=True, kw_only=True)
class TestScore:
    """The official score on one test set."""

    __test__ = False  # no test of pytest's, whatever its name begins with

    value: float
    parts: Mapping[str, float]
    examples: int
    metric: str = ""  # "": the metric of the dev set; results of older versions lack it


# Whose scores they are: variant, share of the data, and the seed, or the seeds of an ensemble.
ScoreKey = tuple[str, float, int | tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """All that is kept of a training; what each test example counted lies in a file beside."""

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
    mixes: Mapping[str, MixWeights]  # by place; none without ELMo
    seconds: float  # spent on training steps
    command: str  # that trains the same model

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def key(self) -> tuple[str, float, int]:
        return self.variant, self.fraction, self.seed


@dataclass(frozen=True, kw_only=True)
class EnsembleResult:
    """The scores of all seeds' models, which decide together."""

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
    """The places in a comparison's folder, and what is kept there."""

    path: Path

    @property
    def about(self) -> Path:
        return self.path / ABOUT

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
        own = f"seed-{seed}" if isinstance(seed, int) else "-".join(map(str, ("ensemble", *seed)))
        return self.counts_folder / f"{folder_name(variant)}-fraction-{fraction!r}-{own}.npz"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock: one comparison at a time. A crash frees the lock."""
        make_folder(self.path)
        busy = f"{self.path}: another comparison uses this folder; wait until it ends, or stop it"
        with file_lock(self.path / LOCK, timeout=0, busy=busy):
            yield

    def check_same(self, about: Mapping[str, Any], *, recipe_type: type[TaskRecipe] | None = None) -> None:
        """Keep what is compared, or refuse it where something else was compared here before; more may be added.

        Fields that recipes of the given type had not yet then were what they are by default now.
        """
        # As JSON has it: a tuple is a list there.
        about = json.loads(json.dumps(about))
        if not self.about.is_file():
            written = (
                self.results,
                self.ensembles,
                self.counts_folder,
                self.path / "runs",
                self.cache,
                self.table,
                self.table_json,
            )
            if taken := [place.name for place in (*written, *self.path.glob("*.png")) if place.exists()]:
                raise InputError(
                    f"{self.path}: holds {join_names(taken)}, which may be written over; choose another folder"
                )
        else:
            with error_context(self.about):
                known = _read_json(self.about)
                if recipe_type is not None and "recipe" in known:
                    known["recipe"] = json.loads(json.dumps(asdict(read_fields(recipe_type, known["recipe"]))))
            for name, value in about.items():
                if name in known and known[name] != value:
                    what = SHOWN.get(name, f"the {name}")
                    raise InputError(
                        f"{self.path}: {what} is not what this comparison was begun with"
                        f"{_difference(known[name], value)}; give the same, or compare in another folder"
                    )
            about = {**known, **about}
        with atomic_write(self.about) as unfinished:
            unfinished.write_text(json.dumps(about, indent=2) + "\n")

    def read_results(self) -> list[RunResult]:
        """Of all trainings that are done."""
        return _read_lines(self.results, RunResult)

    def add_result(self, result: RunResult) -> None:
        _add_line(self.results, result)

    def read_ensembles(self) -> list[EnsembleResult]:
        """Of all ensembles that were scored."""
        return _read_lines(self.ensembles, EnsembleResult)

    def add_ensemble(self, result: EnsembleResult) -> None:
        _add_line(self.ensembles, result)

    def read_counts(self, results: Sequence[RunResult | EnsembleResult]) -> dict[ScoreKey, dict[str, NDArray[Any]]]:
        """What the test examples counted, of each training and ensemble that has such counts."""
        found: dict[ScoreKey, dict[str, NDArray[Any]]] = {}
        for result in results:
            if not (path := self.counts(*result.key)).is_file():
                continue
            with np.load(path) as arrays:
                found[result.key] = {name: arrays[name] for name in arrays.files}
        return found


def _read_lines(path: Path, kind: type[R]) -> list[R]:
    """A record of each line; a line that was cut short is removed, and what it was about counts as not done."""
    if not path.is_file():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with atomic_write(path) as unfinished:
            unfinished.write_bytes(whole)
    found = []
    for number, line in enumerate(whole.decode().split("\n")[:-1], start=1):
        with error_context(f"{path}, line {number}"):
            try:
                values = json.loads(line)
            except ValueError as error:
                raise FormatError(f"cannot be read ({error}); remove the line, and it is made again") from None
            found.append(read_fields(kind, values, error=FormatError))
    return found


def _add_line(path: Path, record: RunResult | EnsembleResult) -> None:
    """Append a line, which is on disk when this returns."""
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
        raise FormatError("is not a table of values; compare in another folder")
    return values


def _difference(before: Any, now: Any, name: str = "") -> str:
    """The first field that differs, where there are fields."""
    if isinstance(before, dict) and isinstance(now, dict):
        for field in sorted(before.keys() | now.keys()):
            if before.get(field) != now.get(field):
                return _difference(before.get(field), now.get(field), f"{name}.{field}".lstrip("."))
    return f" ({name} was {before}, and is {now})" if name else ""
