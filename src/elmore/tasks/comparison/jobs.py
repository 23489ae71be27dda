"""The jobs of a comparison: read the data, fill the layer cache, train and score a run, score an ensemble.

A job can be sent to another process: it holds plain values. `start` returns the job's events.
"""

import json
import shlex
import shutil
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.embedding.embedder import Embedder
from elmore.errors import InputError, error_context
from elmore.fields import read_fields
from elmore.files.atomic_files import atomic_write, make_folder
from elmore.model import load as load_bilm
from elmore.sources.urls import without_credentials
from elmore.tasks.comparison.events import RunEvaluated, RunProgressed, RunStarted, TextEncoded
from elmore.tasks.comparison.plan import ComparisonRun
from elmore.tasks.comparison.store import EnsembleResult, RunResult, TestScore
from elmore.tasks.core.assembly import find_token_style
from elmore.tasks.core.batching import predict_together
from elmore.tasks.core.config import ElmoOptions, TaskOptions, TaskRecipe, WordOptions, changed_fields
from elmore.tasks.core.events import TaskFinished
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.task import FittedModel, Labels, Task, token_sequences
from elmore.tasks.core.trained_model import TrainedModel, load
from elmore.tasks.core.training_run import FINE_TUNING, resolve_recipe, train
from elmore.tasks.inputs.embedder import BilmShape, TokenEmbedder
from elmore.tasks.inputs.layer_cache import LayerCache, LayerReader
from elmore.tasks.inputs.vocabulary import TokenVocabulary
from elmore.training.checkpoints import TrainingCheckpoints
from elmore.training.events import Evaluated, Message, Progressed, Stopped
from elmore.training.log import read_log
from elmore.training.run import Run
from elmore.training.run_folder import RunFolder

Files = Sequence[str | Path]
AnyTask = str | Task[Any, Any]
SECONDS_TO_END = 60  # the time limit for a process whose parent has ended

RunJobEvent = RunStarted | RunProgressed | RunEvaluated | Message | RunResult


class ComparisonData(NamedTuple):
    """The examples of a comparison."""

    train: list[Any]
    dev: list[Any]
    tests: Mapping[str, list[Any]]
    labels: Labels
    notices: tuple[str, ...]


def read_data(
    task: Task[Any, Any], recipe: TaskRecipe, *, train: Files, dev: Files, tests: Mapping[str, Files]
) -> ComparisonData:
    """Read all examples. Data that cannot be scored raises an error before any training."""
    notices: list[str] = []

    def read(name: str, files: Files, *, to_train: bool = False) -> list[Any]:
        data = task.read(files, recipe.task, to_train=to_train)
        if not data.examples:
            raise InputError(f"{', '.join(map(str, files))}: no examples")
        notices.extend(f"{name}: {text}" for text in data.notices)
        return data.examples

    examples = read("train", train, to_train=True)
    labels = task.labels(examples, recipe.task)
    # A list of pairs, because a test set may also be named dev.
    scored = [("dev", read("dev", dev)), *((name, read(name, files)) for name, files in tests.items())]
    for name, data in scored:
        with error_context(name):
            task.check(data, labels)
        notices.extend(f"{name}: {text}" for text in task.unseen(data, labels))
    (_, dev_examples), *others = scored
    return ComparisonData(examples, dev_examples, dict(others), labels, tuple(notices))


def reject_fitted(task: Task[Any, Any], recipes: Iterable[TaskRecipe], labels: Labels) -> None:
    """Raise an error if a recipe's model is not trained by gradient descent. The message names methods that are."""
    for options in dict.fromkeys(recipe.task for recipe in recipes):
        if not _is_fitted(task, options, labels):
            continue
        trained = [
            (name, value)
            for name, value in _other_choices(options)
            if not _is_fitted(task, replace(options, **{name: value}), labels)
        ]
        chosen = "".join(f" with task.{name} {getattr(options, name)}" for name in dict.fromkeys(n for n, _ in trained))
        advice = "".join(f"compare --task.{name} {value}, or " for name, value in trained)
        raise InputError(
            f"{task.name}{chosen} is not trained by gradient descent; compare supports only methods that are; {advice}"
            "measure the method with elmore train and elmore evaluate"
        )


def _is_fitted(task: Task[Any, Any], options: TaskOptions, labels: Labels) -> bool:
    # Only the model's class shows the kind of a method. A small model is built, with a biLM of size 1.
    with torch.random.fork_rng(devices=[]):
        embedder = TokenEmbedder(WordOptions(vectors="none"), ElmoOptions(), TokenVocabulary(), bilm=BilmShape(2, 1))
        return isinstance(task.build(options, labels, embedder), FittedModel)


def _other_choices(options: TaskOptions) -> Iterator[tuple[str, Any]]:
    """The other values of all [task] fields that are choices."""
    types = get_type_hints(type(options))
    for field in fields(options):
        if get_origin(types[field.name]) is Literal:
            current = getattr(options, field.name)
            yield from ((field.name, value) for value in get_args(types[field.name]) if value != current)


class BilmLoaded(NamedTuple):
    """A biLM is loaded, and will encode the text next."""

    name: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class CacheJob:
    """Encodes all text once with each frozen biLM, before the runs that share the layers."""

    task: AnyTask  # a Task cannot be sent to another process; its name can
    recipes: tuple[TaskRecipe, ...]
    train: Files
    dev: Files
    tests: Mapping[str, Files]
    cache: Path
    device: torch.device

    @staticmethod
    def recipes_of(runs: Sequence[ComparisonRun]) -> tuple[TaskRecipe, ...]:
        """One recipe for each biLM of these runs."""
        used = [run.recipe for run in runs if run.recipe.elmo.is_used]
        return tuple({(recipe.elmo.model, recipe.elmo.training): recipe for recipe in used}.values())

    def start(self) -> Run[BilmLoaded | TextEncoded]:
        return Run(self._events)

    def _events(self, stop_requested: Callable[[], bool]) -> Iterator[BilmLoaded | TextEncoded]:
        task = find_task(self.task) if isinstance(self.task, str) else self.task
        for recipe in self.recipes:
            model = load_bilm(recipe.elmo.model)
            yield BilmLoaded(without_credentials(recipe.elmo.model), model.fingerprint())
            if recipe.elmo.training != "frozen":
                continue
            data = read_data(task, recipe, train=self.train, dev=self.dev, tests=self.tests)
            style = find_token_style(task, recipe, data.train)
            cache = LayerCache(LayerReader(Embedder(model, device=self.device), token_style=style), self.cache)
            # Training and dev text first: each epoch needs them, and the cache may have no room for all text.
            examples = [*data.train, *data.dev, *(example for test in data.tests.values() for example in test)]
            sentences = token_sequences(task, examples)
            done, total = 0, sum(map(len, sentences))
            for part in cache.add_in_parts(sentences):
                done += part.tokens
                yield TextEncoded(done, total)
                if stop_requested():
                    return


@dataclass(frozen=True, kw_only=True)
class RunJob:
    """Trains and scores one run."""

    run: ComparisonRun
    task: AnyTask
    folder: Path
    counts: Path  # file for the counts of each test example
    train: Files
    dev: Files
    tests: Mapping[str, Files]
    cache: Path
    device: torch.device

    def start(self) -> "RunningRun":
        return RunningRun(self)


class RunningRun:
    """The events of a training run. The last one is the result; without it the run was stopped and is saved."""

    def __init__(self, job: RunJob) -> None:
        self._job = job
        self._task = find_task(job.task) if isinstance(job.task, str) else job.task
        self._folder = RunFolder(job.folder)
        self._resumes = self._folder.exists
        # No other run can use the layers of a biLM that this run fine-tunes.
        self._cache = job.cache if job.run.recipe.elmo.training == "frozen" else None
        self._training = train(
            self._task,
            job.folder,
            train=job.train,
            dev=job.dev,
            recipe=None if self._resumes else job.run.recipe,
            resume=self._resumes,
            cache=self._cache,
            device=job.device,
        )

    def stop(self) -> None:
        """Save and end soon."""
        self._training.stop()

    def __iter__(self) -> Iterator[RunJobEvent]:
        run = self._job.run
        # After a comparison was killed, this run's folder may still be in use by a process that has not ended yet.
        with self._folder.locked(timeout=SECONDS_TO_END):
            if self._resumes:
                self._check_recipe()
        yield RunStarted(run, self._resumes)
        for event in self._training:
            if isinstance(event, Evaluated):
                yield RunEvaluated(run, len(self._dev_scores()), *event.evaluation[:2])
            elif isinstance(event, Progressed):
                yield RunProgressed(run, event)
            elif isinstance(event, Message):
                yield Message(f"{run}: {event}")
            elif isinstance(event, Stopped):
                return
            elif isinstance(event, TaskFinished):
                yield self._result(event)

    def _check_recipe(self) -> None:
        stored = read_fields(self._task.recipe, self._folder.read().recipe)
        if stored != self._job.run.recipe:
            raise InputError(
                f"{self._job.folder}: contains a run of another recipe; remove the folder, or compare in another one"
            )

    def _dev_scores(self) -> tuple[float, ...]:
        return tuple(entry["heldout"] for entry in read_log(self._folder.log) if "heldout" in entry)

    def _result(self, finished: TaskFinished) -> RunResult:
        job, scores = self._job, self._dev_scores()
        model = load(job.folder, task=self._task, device=job.device)
        tests = score_tests(model, job.tests, counts=job.counts, cache=self._cache)
        return RunResult(
            variant=job.run.variant,
            changes=job.run.changes,
            fraction=job.run.fraction,
            seed=job.run.seed,
            examples=model.card.training["examples"],
            metric=finished.score.metric,
            dev=finished.score.value,
            best_epoch=finished.epoch,
            epochs=len(scores),
            dev_scores=scores,
            tests=tests,
            mixes=finished.mixes,
            seconds=TrainingCheckpoints(self._folder.checkpoints).newest().progress["seconds"],
            command=command_of(self._task, job),
        )


@dataclass(frozen=True, kw_only=True)
class EnsembleJob:
    """Scores the ensemble of a variant's models of all seeds."""

    task: AnyTask
    variant: str
    fraction: float  # of the training examples
    seeds: tuple[int, ...]
    members: tuple[Path, ...]  # the folders of their runs
    counts: Path  # file for the counts of each test example
    tests: Mapping[str, Files]
    cache: Path | None
    device: torch.device

    def __str__(self) -> str:
        share = f", {self.fraction:.3g} of the data" if self.fraction != 1 else ""
        return f"{self.variant}{share}, ensemble of {len(self.seeds)}"

    def start(self) -> Run[EnsembleResult]:
        return Run(self._events)

    def _events(self, _: Callable[[], bool]) -> Iterator[EnsembleResult]:
        task = find_task(self.task) if isinstance(self.task, str) else self.task
        model = load(self.members, task=task, device=self.device)
        tests = score_tests(model, self.tests, counts=self.counts, cache=self.cache)
        yield EnsembleResult(variant=self.variant, fraction=self.fraction, seeds=self.seeds, tests=tests)


def score_tests(
    model: TrainedModel[Any, Any], tests: Mapping[str, Files], *, counts: Path, cache: Path | None
) -> dict[str, TestScore]:
    """The score on each test set. The counts of each example go to the file `counts`."""
    task, members = model.task, model.members
    # Members with the same biLM share a layer source, and so one cache.
    sources = {id(member.maker.layers): member.maker.layers for member in members}
    caches = {
        number: LayerCache(source, cache)
        for number, source in sources.items()
        if cache and isinstance(source, LayerReader)
    }
    makers = [replace(m.maker, layers=caches.get(id(m.maker.layers), m.maker.layers)) for m in members]
    scores: dict[str, TestScore] = {}
    arrays: dict[str, NDArray[Any]] = {}
    for name, files in tests.items():
        examples = task.read(files, model.assembled.recipe.task, to_train=False).examples
        for maker in makers:
            maker.fill_cache(examples)
        models = zip(makers, (member.model for member in members), strict=True)
        predictions = predict_together(list(models), examples)
        metric = task.metric.of(examples)
        rows = metric.rows(examples, predictions)
        score = metric.score_of(rows)
        scores[name] = TestScore(
            value=score.value, parts=dict(score.parts), examples=len(rows.values), metric=score.metric
        )
        arrays[name] = rows.values
    make_folder(counts.parent)
    with atomic_write(counts) as unfinished:
        _write_npz(unfinished, arrays)
    return scores


def _write_npz(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """As `np.savez_compressed`, which takes no array named `file`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def remove_weights(folder: Path) -> None:
    """Remove the weights of a scored run. Recipe, log and loss curve remain."""
    run = RunFolder(folder)
    for path in (run.checkpoints, run.model, folder / FINE_TUNING):
        shutil.rmtree(path, ignore_errors=True)


def command_of(task: Task[Any, Any], job: RunJob) -> str:
    """The command that trains the same model."""
    output = f"{job.folder.parent.name}-seed-{job.run.seed}"
    return train_command(task, job.run.recipe, train=job.train, dev=job.dev, output=output)


def train_command(task: Task[Any, Any], recipe: TaskRecipe, *, train: Files, dev: Files, output: str) -> str:
    """The `elmore train` command of a recipe, with each field that differs from the task's recipe."""
    words = ["elmore", "train", task.name]
    for name, files in (("--train", train), ("--dev", dev)):
        words += [word for file in files for word in (name, str(file))]
    for name, value in changed_fields(resolve_recipe(task, None), recipe).items():
        words += [f"--{name}", _as_word(value)]
    return shlex.join([*words, "-o", output])


def _as_word(value: Any) -> str:
    """A value in the form of the command line, which parses TOML where possible."""
    if not isinstance(value, str):
        return "false" if value is None else json.dumps(value)
    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return value
    return json.dumps(value)
