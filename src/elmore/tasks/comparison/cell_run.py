"""One training of a comparison, from its recipe to its scores on all test sets; what a process of its own does."""

import json
import shlex
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmore.errors import InputError
from elmore.fields import read_fields
from elmore.files.atomic_files import atomic_write, make_folder
from elmore.tasks.comparison.events import CellEvaluated, CellProgressed, CellStarted, Told
from elmore.tasks.comparison.result import CellResult, TestScore
from elmore.tasks.comparison.variants import Cell
from elmore.tasks.core.batching import predict_together
from elmore.tasks.core.config import TaskRecipe, changed_fields
from elmore.tasks.core.events import Finished
from elmore.tasks.core.events import Told as TrainingTold
from elmore.tasks.core.registry import find_task
from elmore.tasks.core.task import Task
from elmore.tasks.core.trained_model import TrainedModel, load
from elmore.tasks.core.training_run import FINE_TUNING, resolve_recipe, train
from elmore.tasks.inputs.layer_cache import LayerCache, LayerReader
from elmore.training.checkpoints import TrainingCheckpoints
from elmore.training.events import Evaluated, Progressed, Stopped
from elmore.training.log import read_log
from elmore.training.run_folder import RunFolder

Files = Sequence[str | Path]
SECONDS_TO_END = 60  # the time limit for a process whose parent has ended

CellEvent = CellStarted | CellProgressed | CellEvaluated | Told | CellResult


@dataclass(frozen=True, kw_only=True)
class CellJob:
    """All that a process needs to train and score one cell."""

    cell: Cell
    task: str | Task[Any, Any]  # a task itself cannot be sent to another process
    folder: Path  # of the run
    counts: Path  # file for what each test example counted
    train: Files
    dev: Files
    tests: Mapping[str, Files]
    cache: Path
    device: torch.device

    def start(self) -> "CellRun":
        return CellRun(self)


class CellRun:
    """The events of a cell's training, with its result as the last; without one it was stopped, and is saved."""

    def __init__(self, job: CellJob) -> None:
        self._job = job
        self._task = find_task(job.task) if isinstance(job.task, str) else job.task
        self._run = RunFolder(job.folder)
        self._resumes = self._run.is_begun
        # Nobody else could use the layers of a biLM that this training fine-tunes.
        self._cache = job.cache if job.cell.recipe.elmo.training == "frozen" else None
        self._training = train(
            self._task,
            job.folder,
            train=job.train,
            dev=job.dev,
            recipe=None if self._resumes else job.cell.recipe,
            resume=self._resumes,
            cache=self._cache,
            device=job.device,
        )

    def stop(self) -> None:
        """Have the training save and end soon."""
        self._training.stop()

    def __iter__(self) -> Iterator[CellEvent]:
        cell = self._job.cell
        # A comparison that was killed may have left this run in a process that has not ended yet.
        with self._run.locked(timeout=SECONDS_TO_END):
            if self._resumes:
                self._check_recipe()
        yield CellStarted(cell, self._resumes)
        for event in self._training:
            if isinstance(event, Evaluated):
                yield CellEvaluated(cell, len(self._dev_scores()), *event.evaluation[:2])
            elif isinstance(event, Progressed):
                yield CellProgressed(cell, event)
            elif isinstance(event, TrainingTold):
                yield Told(f"{cell}: {event}")
            elif isinstance(event, Stopped):
                return
            elif isinstance(event, Finished):
                yield self._result(event)

    def _check_recipe(self) -> None:
        stored = read_fields(self._task.recipe, self._run.read().recipe)
        if stored != self._job.cell.recipe:
            raise InputError(f"{self._job.folder}: holds a run of another recipe; remove it, or compare elsewhere")

    def _dev_scores(self) -> tuple[float, ...]:
        return tuple(entry["heldout"] for entry in read_log(self._run.log) if "heldout" in entry)

    def _result(self, finished: Finished) -> CellResult:
        job, scores = self._job, self._dev_scores()
        model = load(job.folder, device=job.device)
        tests = score_tests(model, job.tests, counts=job.counts, cache=self._cache)
        return CellResult(
            variant=job.cell.variant,
            changes=job.cell.changes,
            fraction=job.cell.fraction,
            seed=job.cell.seed,
            examples=model.card.training["examples"],
            metric=finished.score.metric,
            dev=finished.score.value,
            best_epoch=finished.epoch,
            epochs=len(scores),
            dev_scores=scores,
            tests=tests,
            mixes=finished.mixes,
            seconds=TrainingCheckpoints(self._run.checkpoints).newest().progress["seconds"],
            command=command_of(self._task, job),
        )


def score_tests(
    model: TrainedModel[Any, Any], tests: Mapping[str, Files], *, counts: Path, cache: Path | None
) -> dict[str, TestScore]:
    """The score on each test set; what each of its examples counted goes to the file `counts`."""
    task, members = model.task, model.members
    # Members with one biLM share what reads with it, and so what is kept of that.
    readers = {id(one.maker.layers): one.maker.layers for one in members}
    kept = {number: LayerCache(own, cache) for number, own in readers.items() if cache and isinstance(own, LayerReader)}
    makers = [replace(one.maker, layers=kept.get(id(one.maker.layers), one.maker.layers)) for one in members]
    scores: dict[str, TestScore] = {}
    arrays: dict[str, Any] = {}
    for name, files in tests.items():
        examples = task.read(files, model.assembled.recipe.task, to_train=False).examples
        for maker in makers:
            maker.fill_cache(examples)
        models = zip(makers, (one.model for one in members), strict=True)
        predictions = predict_together(list(models), examples)
        score, pairs = task.score(examples, predictions), task.scored_pairs(examples, predictions)
        scores[name] = TestScore(value=score.value, parts=dict(score.parts), examples=len(pairs))
        if task.counts is not None:
            arrays[name] = np.array([task.counts(*pair) for pair in pairs])
    make_folder(counts.parent)
    with atomic_write(counts) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, **arrays)
    return scores


def remove_weights(folder: Path) -> None:
    """Leave of a run that is scored the recipe, the log and the curve."""
    run = RunFolder(folder)
    for unneeded in (run.checkpoints, run.model, folder / FINE_TUNING):
        shutil.rmtree(unneeded, ignore_errors=True)


def command_of(task: Task[Any, Any], job: CellJob) -> str:
    """The command that trains the same model, whatever recipe the comparison was given."""
    output = f"{job.folder.parent.name}-seed-{job.cell.seed}"
    return train_command(task, job.cell.recipe, train=job.train, dev=job.dev, output=output)


def train_command(task: Task[Any, Any], recipe: TaskRecipe, *, train: Files, dev: Files, output: str) -> str:
    """The command that trains a model by this recipe, with every field in which it differs from the task's own."""
    words = ["elmore", "train", task.name]
    for name, files in (("--train", train), ("--dev", dev)):
        words += [word for file in files for word in (name, str(file))]
    for name, value in changed_fields(resolve_recipe(task, None), recipe).items():
        words += [f"--{name}", _as_word(value)]
    return shlex.join([*words, "-o", output])


def _as_word(value: Any) -> str:
    """A value as the command line takes it, which reads it as TOML where it can."""
    if not isinstance(value, str):
        return "false" if value is None else json.dumps(value)
    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return value
    return json.dumps(value)
