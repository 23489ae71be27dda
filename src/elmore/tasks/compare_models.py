"""With ELMo and without: the same model trained from several seeds each way, and what ELMo is worth.

The door to comparisons, for the command line and for Python alike; `comparison/` has its parts.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from elmore.errors import InputError
from elmore.files.text_files import PACKED_SUFFIXES
from elmore.nn.devices import choose_device
from elmore.tasks.comparison.cell_run import CellJob, remove_weights
from elmore.tasks.comparison.ensemble_run import EnsembleJob
from elmore.tasks.comparison.events import (
    CellFailed,
    CellFinished,
    EnsembleScored,
    Event,
    Interrupted,
    Planned,
    Told,
)
from elmore.tasks.comparison.fitted_methods import refuse_fitted
from elmore.tasks.comparison.folder import ComparisonFolder, digest_of_files
from elmore.tasks.comparison.preparation import BilmRead, FillCache, read_data
from elmore.tasks.comparison.processes import JobEnded, JobFailed, JobWarned, run_jobs
from elmore.tasks.comparison.report import write_report
from elmore.tasks.comparison.result import CellResult, EnsembleResult
from elmore.tasks.comparison.variants import Cell, Plan, Variant, make_plan, paper_variants
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.model_folder import is_task_model
from elmore.tasks.core.registry import TASKS, find_task
from elmore.tasks.core.task import Task
from elmore.tasks.core.training_run import Paths, resolve_recipe
from elmore.training.graceful_stop import StoppableEvents

Files = Sequence[str | Path]


def compare(
    task: str | Task[Any, Any],
    folder: str | Path,
    *,
    train: Paths,
    dev: Paths,
    test: Paths | Mapping[str, Paths],
    recipe: TaskRecipe | Mapping[str, Any] | str | Path | None = None,
    variants: Sequence[Variant] | None = None,
    seeds: int | Sequence[int] = 3,
    jobs: int = 1,
    keep_models: bool = False,
    ensembles: bool = False,
    cache: str | Path | None = None,
    device: str | torch.device | None = None,
) -> StoppableEvents[Event]:
    """Train variants of a recipe with several seeds, and compare their scores; go through the events and it is done.

    Every file of `test` is a test set of its own; a mapping names them. `recipe` is as for `train`. `variants` are by
    default those with and without ELMo; `paper_variants` makes more. `seeds` is their number, or they themselves.
    So many `jobs` are trained at once, each in a process of its own; with 0, one after another in this one. Called
    again with the same folder, it goes on where it was: what is done is not done again, and variants and seeds may be
    added. With `ensembles` the models of all seeds of a variant are scored together too, for which they are kept.
    `cache` is a folder for ELMo's layers; by default it lies in the comparison's and goes when all is done.

    Nothing happens before the first event is asked for. `stop()` has all trainings save and end soon.
    """
    found = find_task(task) if isinstance(task, str) else task
    if jobs < 0:
        raise InputError(f"jobs is {jobs}; it must be a number of processes, or 0 for none")
    if jobs and TASKS.get(found.name) is not found:
        raise InputError(f"{found.name} is a task of your own, which other processes do not know; give jobs=0")
    base = resolve_recipe(found, recipe)
    plan = make_plan(base, paper_variants() if variants is None else variants, seeds=seeds)
    if ensembles and len(plan.seeds) < 2:
        raise InputError(f"an ensemble has two members or more, and seeds is {seeds}")
    request = _Request(
        task=found,
        folder=ComparisonFolder(Path(folder)),
        train=_files(train),
        dev=_files(dev),
        tests=_test_sets(test),
        plan=plan,
        jobs=jobs,
        keep_models=keep_models or ensembles,
        ensembles=ensembles,
        cache=None if cache is None else Path(cache),
    )
    return StoppableEvents(lambda stop_asked: _Comparing(request, choose_device(device), stop_asked).events())


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What the caller of `compare` wants."""

    task: Task[Any, Any]
    folder: ComparisonFolder
    train: Files
    dev: Files
    tests: Mapping[str, Files]
    plan: Plan
    jobs: int
    keep_models: bool
    ensembles: bool
    cache: Path | None


class _Comparing:
    """A comparison at work."""

    def __init__(self, request: _Request, device: torch.device, stop_asked: Callable[[], bool]) -> None:
        self._request, self._folder, self._plan = request, request.folder, request.plan
        self._device, self._stop_asked = device, stop_asked
        self._cache = request.cache or self._folder.cache
        self._task: str | Task[Any, Any] = request.task.name if request.jobs else request.task
        self._done: dict[tuple[str, float, int], CellResult] = {}
        self._failed = 0
        self._warned: set[str] = set()

    def events(self) -> Iterator[Event]:
        with self._folder.locked():
            yield self._open()
            waiting = [cell for cell in self._plan.cells if cell.key not in self._done]
            if waiting:
                yield from self._fill_cache(waiting)
                yield from self._train(waiting)
            if self._stop_asked() and len(self._done) + self._failed < len(self._plan.cells):
                yield Interrupted(len(self._done), len(self._plan.cells))
                return
            if self._request.ensembles and not self._stop_asked():
                yield from self._score_ensembles()
            if self._request.cache is None and not self._failed:
                shutil.rmtree(self._folder.cache, ignore_errors=True)
            yield write_report(
                self._folder.path, self._request.task, self._plan, kept=self._folder, failed=self._failed
            )

    def _open(self) -> Planned:
        """See that all is as it was when this comparison began, if it has, and what is done of it."""
        request, plan = self._request, self._plan
        data = read_data(request.task, plan.base, train=request.train, dev=request.dev, tests=request.tests)
        refuse_fitted(request.task, (cell.recipe for cell in plan.cells), data.labels)
        # Seeds and fractions are what a comparison may get more of.
        recipe = replace(plan.base, training=replace(plan.base.training, seed=0, fraction=1.0))
        about = {
            "task": request.task.name,
            "train": digest_of_files(request.train),
            "dev": digest_of_files(request.dev),
            "test": {name: digest_of_files(files) for name, files in request.tests.items()},
            "recipe": asdict(recipe),
        }
        given = [*request.train, *request.dev, *chain.from_iterable(request.tests.values())]
        for file in (recipe.words.vectors, *request.task.files_beside(given, recipe.task)):
            if Path(file).is_file():
                about[f"content of {file}"] = digest_of_files([file])
        self._folder.check_same(about, recipe_type=type(recipe))
        wanted = {cell.key: cell for cell in plan.cells}
        for result in self._folder.read_results():
            if (cell := wanted.get(result.key)) is None:
                continue
            if json.dumps(dict(result.changes)) != json.dumps(dict(cell.changes)):
                raise InputError(
                    f"{self._folder.results}: {result.variant} was another variant there, with {dict(result.changes)}; "
                    "give it another name, or compare in another folder"
                )
            self._done[result.key] = result
            self._clean(cell)
        done = len(self._done)
        return Planned(
            request.task.name, len(plan.variants), len(plan.seeds), len(wanted), done, request.jobs, data.notices
        )

    def _fill_cache(self, cells: Sequence[Cell]) -> Iterator[Event]:
        request = self._request
        recipes = FillCache.recipes_of(cells)
        if not recipes:
            return
        job = FillCache(
            task=self._task,
            recipes=recipes,
            train=request.train,
            dev=request.dev,
            tests=request.tests,
            cache=self._cache,
            device=self._device,
        )
        for _, event in run_jobs([job], at_once=min(request.jobs, 1), stop_asked=self._stop_asked):
            if isinstance(event, BilmRead):
                self._folder.check_same({f"biLM {event.name}": event.fingerprint})
            elif isinstance(event, JobFailed):
                raise InputError(f"ELMo's layers of the text could not be made: {event.error}")
            elif isinstance(event, JobWarned):
                yield from self._told_once(event.text)
            elif not isinstance(event, JobEnded):
                yield event

    def _train(self, cells: Sequence[Cell]) -> Iterator[Event]:
        jobs = [self._job(cell) for cell in cells]
        began, done_before = time.monotonic(), len(self._done)
        for number, event in run_jobs(jobs, at_once=self._request.jobs, stop_asked=self._stop_asked):
            cell = cells[number]
            if isinstance(event, CellResult):
                self._keep(cell, event)
                done, left = len(self._done) - done_before, len(cells) - len(self._done) + done_before - self._failed
                pace = (time.monotonic() - began) / done
                yield CellFinished(cell, event, len(self._done), len(self._plan.cells), pace * left if left else None)
            elif isinstance(event, JobFailed):
                self._failed += 1
                yield self._failure(cell, event)
            elif isinstance(event, JobWarned):
                yield from self._told_once(event.text)
            elif not isinstance(event, JobEnded):
                yield event

    def _score_ensembles(self) -> Iterator[Event]:
        """Of every variant and share of the data of which all seeds are trained, and their models kept."""
        seeds = self._plan.seeds
        known = {result.key for result in self._folder.read_ensembles()}
        jobs = []
        for cell in self._plan.cells:
            key = (cell.variant, cell.fraction, seeds)
            if cell.seed != seeds[0] or key in known:
                continue
            members = [one for one in self._plan.cells if (one.variant, one.fraction) == key[:2]]
            if any(one.key not in self._done for one in members):
                continue
            folders = tuple(self._folder.run(one) for one in members)
            job = EnsembleJob(
                variant=cell.variant,
                fraction=cell.fraction,
                seeds=seeds,
                members=folders,
                counts=self._folder.counts(*key),
                tests=self._request.tests,
                cache=self._cache if cell.recipe.elmo.training == "frozen" else None,
                device=self._device,
            )
            if all(map(is_task_model, folders)):
                jobs.append(job)
            else:
                yield Told(
                    f"{job}: left out, for not all of its models were kept; compare in another folder to have it"
                )
        for number, event in run_jobs(jobs, at_once=min(self._request.jobs, 1), stop_asked=self._stop_asked):
            if isinstance(event, EnsembleResult):
                self._folder.add_ensemble(event)
                yield EnsembleScored(str(jobs[number]), event)
            elif isinstance(event, JobFailed):
                self._failed += 1
                yield Told(f"{jobs[number]}: failed: {event.error}")
            elif isinstance(event, JobWarned):
                yield from self._told_once(event.text)

    def _job(self, cell: Cell) -> CellJob:
        request = self._request
        return CellJob(
            cell=cell,
            task=self._task,
            folder=self._folder.run(cell),
            counts=self._folder.counts(*cell.key),
            train=request.train,
            dev=request.dev,
            tests=request.tests,
            cache=self._cache,
            device=self._device,
        )

    def _keep(self, cell: Cell, result: CellResult) -> None:
        self._folder.add_result(result)
        self._error_file(cell).unlink(missing_ok=True)  # of an earlier try
        self._done[result.key] = result
        self._clean(cell)

    def _clean(self, cell: Cell) -> None:
        if not self._request.keep_models:
            remove_weights(self._folder.run(cell))

    def _failure(self, cell: Cell, failed: JobFailed) -> CellFailed:
        details = self._error_file(cell)
        details.parent.mkdir(parents=True, exist_ok=True)
        details.write_text(failed.traceback or failed.error, encoding="utf-8")
        return CellFailed(cell, failed.error, details)

    def _error_file(self, cell: Cell) -> Path:
        return self._folder.run(cell) / "error.txt"

    def _told_once(self, text: str) -> Iterator[Told]:
        if text not in self._warned:
            self._warned.add(text)
            yield Told(text)


def _files(paths: Paths) -> list[str | Path]:
    found = [paths] if isinstance(paths, str | Path) else list(paths)
    if not found:
        raise InputError("no files were given")
    return found


def _test_sets(test: Paths | Mapping[str, Paths]) -> dict[str, Files]:
    """The files of each test set by its name: the one given, or that of the file."""
    if isinstance(test, Mapping):
        return {name: _files(paths) for name, paths in test.items()}
    sets: dict[str, Files] = {}
    for path in map(Path, _files(test)):
        unpacked = path.with_suffix("") if path.suffix.lower() in PACKED_SUFFIXES else path
        if unpacked.stem in sets:
            raise InputError(f"two test sets would be called {unpacked.stem}: {sets[unpacked.stem][0]} and {path}")
        sets[unpacked.stem] = [path]
    return sets
