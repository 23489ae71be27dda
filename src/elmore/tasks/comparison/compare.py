"""Compare variants of a recipe, such as with and without ELMo. Entry point for Python and the command line."""

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
from elmore.files.text_files import COMPRESSION_SUFFIXES
from elmore.nn.devices import choose_device
from elmore.tasks.comparison.events import EnsembleScored, Event, Interrupted, Planned, RunFailed, RunFinished
from elmore.tasks.comparison.jobs import (
    BilmLoaded,
    CacheJob,
    EnsembleJob,
    RunJob,
    read_data,
    reject_fitted,
    remove_weights,
)
from elmore.tasks.comparison.plan import ComparisonRun, Plan, Variant, make_plan, paper_variants
from elmore.tasks.comparison.plots import write_report
from elmore.tasks.comparison.processes import JobEnded, JobFailed, JobWarned, run_jobs
from elmore.tasks.comparison.store import ComparisonFolder, EnsembleResult, RunResult
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.model_folder import is_task_model
from elmore.tasks.core.registry import TASKS, find_task
from elmore.tasks.core.task import Task
from elmore.tasks.core.training_run import Paths, digest_of_files, resolve_recipe
from elmore.training.events import Message
from elmore.training.run import Run

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
) -> Run[Event]:
    """Train variants of a recipe with several seeds and compare their scores. Iterate over the events to run it.

    Each file of `test` is a test set; a mapping names the test sets. `recipe` is as for `train`. `variants` are by
    default with and without ELMo; `paper_variants` makes more. `seeds` is a list of seeds, or a number of seeds from
    the recipe's seed on. `jobs` runs are trained in parallel, each in a process; with 0, one after another in this
    process. To resume a comparison, call it again with the same folder: finished runs are not repeated, and variants
    and seeds may be added. With `keep_models`, the weights of each run are saved. With `ensembles`, the models of all
    seeds of a variant are saved and also scored as an ensemble. `cache` is a folder for ELMo's layers; by default it is
    a part of the comparison's folder and is removed at the end.

    The comparison starts when the first event is requested. `stop()` saves all runs and ends it soon.
    """
    reference, task = task, find_task(task) if isinstance(task, str) else task
    if jobs < 0:
        raise InputError(f"jobs is {jobs}; give a number of processes, or 0 to run in this process")
    if jobs and not isinstance(reference, str):
        if TASKS.get(task.name) is not task:
            raise InputError(
                f"{task.name} is not a task of Elmore, and its object cannot be sent to other processes; set jobs=0, "
                "or give the task as module:OBJECT"
            )
        reference = task.name
    base = resolve_recipe(task, recipe)
    plan = make_plan(base, paper_variants() if variants is None else variants, seeds=seeds)
    if ensembles and len(plan.seeds) < 2:
        raise InputError(f"seeds is {seeds}; an ensemble requires at least 2")
    request = _Request(
        task=task,
        reference=reference,
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
    return Run(lambda stop_requested: _Comparison(request, choose_device(device), stop_requested).events())


@dataclass(frozen=True, kw_only=True)
class _Request:
    """The arguments of `compare`."""

    task: Task[Any, Any]
    reference: str | Task[Any, Any]  # a name, if other processes need the task
    folder: ComparisonFolder
    train: Files
    dev: Files
    tests: Mapping[str, Files]
    plan: Plan
    jobs: int
    keep_models: bool
    ensembles: bool
    cache: Path | None


class _Comparison:
    """A comparison while it runs."""

    def __init__(self, request: _Request, device: torch.device, stop_requested: Callable[[], bool]) -> None:
        self._request, self._folder, self._plan = request, request.folder, request.plan
        self._device, self._stop_requested = device, stop_requested
        self._cache = request.cache or self._folder.cache
        self._task = request.reference
        self._done: dict[tuple[str, float, int], RunResult] = {}
        self._failed = 0
        self._warnings: set[str] = set()

    def events(self) -> Iterator[Event]:
        with self._folder.locked():
            yield self._open()
            remaining = [run for run in self._plan.runs if run.key not in self._done]
            if remaining:
                yield from self._fill_cache(remaining)
                yield from self._train(remaining)
            if self._stop_requested() and len(self._done) + self._failed < len(self._plan.runs):
                yield Interrupted(len(self._done), len(self._plan.runs))
                return
            if self._request.ensembles and not self._stop_requested():
                yield from self._score_ensembles()
            if self._request.cache is None and not self._failed:
                shutil.rmtree(self._folder.cache, ignore_errors=True)
            yield write_report(
                self._folder.path, self._request.task, self._plan, results_folder=self._folder, failed=self._failed
            )

    def _open(self) -> Planned:
        """Check that task, data and recipe are equal to earlier calls, and read the finished results."""
        request, plan = self._request, self._plan
        data = read_data(request.task, plan.base, train=request.train, dev=request.dev, tests=request.tests)
        reject_fitted(request.task, (run.recipe for run in plan.runs), data.labels)
        # Seeds and fractions may be added later, so they are no part of the identity.
        recipe = replace(plan.base, training=replace(plan.base.training, seed=0, fraction=1.0))
        identity = {
            "task": request.task.name,
            "train": digest_of_files(request.train),
            "dev": digest_of_files(request.dev),
            "test": {name: digest_of_files(files) for name, files in request.tests.items()},
            "recipe": asdict(recipe),
        }
        paths = [*request.train, *request.dev, *chain.from_iterable(request.tests.values())]
        for file in (recipe.words.vectors, *request.task.files_beside(paths, recipe.task)):
            if Path(file).is_file():
                identity[f"content of {file}"] = digest_of_files([file])
        self._folder.check_same(identity, recipe_type=type(recipe))
        planned = {run.key: run for run in plan.runs}
        for result in self._folder.read_results():
            if (run := planned.get(result.key)) is None:
                continue
            if json.dumps(dict(result.changes)) != json.dumps(dict(run.changes)):
                raise InputError(
                    f"{self._folder.results}: {result.variant} is a variant with other changes, "
                    f"{dict(result.changes)}; give the variant another name, or compare in another folder"
                )
            self._done[result.key] = result
        done = len(self._done)
        return Planned(
            request.task.name, len(plan.variants), len(plan.seeds), len(planned), done, request.jobs, data.notices
        )

    def _fill_cache(self, runs: Sequence[ComparisonRun]) -> Iterator[Event]:
        request = self._request
        recipes = CacheJob.recipes_of(runs)
        if not recipes:
            return
        job = CacheJob(
            task=self._task,
            recipes=recipes,
            train=request.train,
            dev=request.dev,
            tests=request.tests,
            cache=self._cache,
            device=self._device,
        )
        for _, event in run_jobs([job], at_once=min(request.jobs, 1), stop_requested=self._stop_requested):
            if isinstance(event, BilmLoaded):
                self._folder.check_same({f"biLM {event.name}": event.fingerprint})
            elif isinstance(event, JobFailed):
                raise InputError(f"ELMo could not encode the text: {event.error}")
            elif isinstance(event, JobWarned):
                yield from self._first_time(event.text)
            elif not isinstance(event, JobEnded):
                yield event

    def _train(self, runs: Sequence[ComparisonRun]) -> Iterator[Event]:
        jobs = [self._job(run) for run in runs]
        start, done_before = time.monotonic(), len(self._done)
        for number, event in run_jobs(jobs, at_once=self._request.jobs, stop_requested=self._stop_requested):
            run = runs[number]
            if isinstance(event, RunResult):
                self._store(run, event)
                done = len(self._done) - done_before
                left = len(runs) - done - self._failed
                pace = (time.monotonic() - start) / done
                yield RunFinished(run, event, len(self._done), len(self._plan.runs), pace * left if left else None)
            elif isinstance(event, JobFailed):
                self._failed += 1
                yield self._failure(run, event)
            elif isinstance(event, JobWarned):
                yield from self._first_time(event.text)
            elif not isinstance(event, JobEnded):
                yield event

    def _score_ensembles(self) -> Iterator[Event]:
        """Score the ensemble of each variant and fraction of which all models are trained and stored."""
        seeds = self._plan.seeds
        scored = {result.key for result in self._folder.read_ensembles()}
        jobs = []
        for run in self._plan.runs:
            key = (run.variant, run.fraction, seeds)
            if run.seed != seeds[0] or key in scored:
                continue
            members = [other for other in self._plan.runs if (other.variant, other.fraction) == key[:2]]
            if any(member.key not in self._done for member in members):
                continue
            folders = tuple(self._folder.run(member) for member in members)
            job = EnsembleJob(
                task=self._task,
                variant=run.variant,
                fraction=run.fraction,
                seeds=seeds,
                members=folders,
                counts=self._folder.counts(*key),
                tests=self._request.tests,
                cache=self._cache if run.recipe.elmo.training == "frozen" else None,
                device=self._device,
            )
            if all(map(is_task_model, folders)):
                jobs.append(job)
            else:
                yield Message(f"{job}: not scored, because some of its models were removed; compare in another folder")
        for number, event in run_jobs(jobs, at_once=min(self._request.jobs, 1), stop_requested=self._stop_requested):
            if isinstance(event, EnsembleResult):
                self._folder.add_ensemble(event)
                yield EnsembleScored(str(jobs[number]), event)
            elif isinstance(event, JobFailed):
                self._failed += 1
                yield Message(f"{jobs[number]}: failed: {event.error}")
            elif isinstance(event, JobWarned):
                yield from self._first_time(event.text)

    def _job(self, run: ComparisonRun) -> RunJob:
        request = self._request
        return RunJob(
            run=run,
            task=self._task,
            folder=self._folder.run(run),
            counts=self._folder.counts(*run.key),
            train=request.train,
            dev=request.dev,
            tests=request.tests,
            cache=self._cache,
            device=self._device,
        )

    def _store(self, run: ComparisonRun, result: RunResult) -> None:
        self._folder.add_result(result)
        self._error_file(run).unlink(missing_ok=True)  # of an earlier call
        self._done[result.key] = result
        # The weights of earlier calls are not removed: they may have had keep_models.
        if not self._request.keep_models:
            remove_weights(self._folder.run(run))

    def _failure(self, run: ComparisonRun, failed: JobFailed) -> RunFailed:
        details = self._error_file(run)
        details.parent.mkdir(parents=True, exist_ok=True)
        details.write_text(failed.traceback or failed.error, encoding="utf-8")
        return RunFailed(run, failed.error, details)

    def _error_file(self, run: ComparisonRun) -> Path:
        return self._folder.run(run) / "error.txt"

    def _first_time(self, warning: str) -> Iterator[Message]:
        """The warning, unless another run has already raised it."""
        if warning not in self._warnings:
            self._warnings.add(warning)
            yield Message(warning)


def _files(paths: Paths) -> list[str | Path]:
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    if not files:
        raise InputError("no files given; a comparison requires training, development and test files")
    return files


def _test_sets(test: Paths | Mapping[str, Paths]) -> dict[str, Files]:
    """The files of each test set, by the name in the mapping or the name of the file."""
    if isinstance(test, Mapping):
        return {name: _files(paths) for name, paths in test.items()}
    sets: dict[str, Files] = {}
    for path in map(Path, _files(test)):
        unpacked = path.with_suffix("") if path.suffix.lower() in COMPRESSION_SUFFIXES else path
        if unpacked.stem in sets:
            raise InputError(
                f"two test sets would have the name {unpacked.stem}: {sets[unpacked.stem][0]} and {path}; "
                "in Python, pass a mapping from names to files"
            )
        sets[unpacked.stem] = [path]
    return sets
