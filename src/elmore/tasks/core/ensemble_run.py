"""Train an ensemble: several models of one recipe with different seeds, one after another.

ensemble.json     the names of the members' folders
seed-1/ …         a run for each member
cache/            the layers of a frozen biLM, for all members; removed at the end
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from elmore.errors import InputError
from elmore.nn.devices import process_device
from elmore.recipe import LARGEST_SEED
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.events import EnsembleFinished, Event
from elmore.tasks.core.model_folder import ensemble_members, is_task_model, write_ensemble
from elmore.tasks.core.task import Task
from elmore.tasks.core.trained_model import load
from elmore.tasks.core.training_run import (
    CACHE,
    Paths,
    TrainingRequest,
    check_same_recipe,
    resolve_recipe,
    stored_recipe,
    training_events,
)
from elmore.training.events import Message, Stopped
from elmore.training.run import Run
from elmore.training.run_folder import RunFolder


def train_ensemble(
    task: str | Task[Any, Any],
    folder: str | Path,
    *,
    train: Paths,
    dev: Paths,
    seeds: int | None,
    recipe: TaskRecipe | Mapping[str, Any] | str | Path | None = None,
    cache: str | Path | None = None,
    device: str | torch.device | None = None,
) -> Run[Event]:
    """Train `seeds` models, in subfolders of a folder that `load` loads as an ensemble.

    The first model has the recipe's seed, the others the following seeds; other arguments are as for `train`. With
    None for `seeds`, the ensemble in the folder is resumed with its members and its recipe.
    """
    # Folder and recipe are replaced for each member.
    request = TrainingRequest.of(task, folder, train=train, dev=dev, recipe=recipe, resume=seeds is None, cache=cache)
    return Run(lambda stop_requested: _locked_events(request, seeds, process_device(device), stop_requested))


def _locked_events(
    request: TrainingRequest, seeds: int | None, device: torch.device, stop_requested: Callable[[], bool]
) -> Iterator[Event]:
    with request.folder.locked():
        yield from _events(request, seeds, device, stop_requested)


def _events(
    request: TrainingRequest, seeds: int | None, device: torch.device, stop_requested: Callable[[], bool]
) -> Iterator[Event]:
    folder = request.folder.path
    members, recipe = _stored_members(request) if seeds is None else _new_members(request, seeds)
    cache = request.cache or folder / CACHE
    for number, member in enumerate(members):
        if is_task_model(member):
            yield Message(f"{member.name} is already trained")
            continue
        yield Message(f"{member.name}, {number + 1} of {len(members)}")
        run = RunFolder(member)
        member_recipe = replace(recipe, training=replace(recipe.training, seed=recipe.training.seed + number))
        member_request = replace(
            request,
            folder=run,
            recipe=None if run.exists else member_recipe,
            resume=run.exists,
            cache=cache,
            is_member=True,
        )
        for event in training_events(member_request, device, stop_requested):
            # Written after the first event, so that unusable data leaves no files.
            if run.exists and not ensemble_members(folder):
                write_ensemble(folder, [path.name for path in members])
            if run.exists:
                _check_same_data(run, RunFolder(members[0]))
            yield event
            if isinstance(event, Stopped):
                return
    if request.cache is None:
        shutil.rmtree(cache, ignore_errors=True)
    yield EnsembleFinished(folder, len(members), load(folder, task=request.task, device=device).evaluate(request.dev))


def _new_members(request: TrainingRequest, seeds: int) -> tuple[list[Path], TaskRecipe]:
    """The members of a new ensemble, and the recipe of the first."""
    folder = request.folder.path
    if seeds < 2:
        raise InputError(f"seeds is {seeds}; an ensemble requires at least 2")
    if ensemble_members(folder) or request.folder.exists:
        raise InputError(f"{folder}: already contains a run; resume it with --resume, or choose another folder")
    request.folder.check_free(CACHE)
    recipe = resolve_recipe(request.task, request.recipe)
    first = recipe.training.seed
    if first + seeds - 1 > LARGEST_SEED:
        raise InputError(
            f"{seeds} seeds from {first} on exceed {LARGEST_SEED}, the largest seed; set a smaller training.seed"
        )
    members = [folder / f"seed-{seed}" for seed in range(first, first + seeds)]
    for member in members:
        # That run may have other data or another recipe.
        if RunFolder(member).exists or is_task_model(member):
            raise InputError(f"{member}: already contains another training run; choose another folder")
    return members, recipe


def _stored_members(request: TrainingRequest) -> tuple[list[Path], TaskRecipe]:
    """The members of the ensemble in the folder, and the recipe of the first."""
    folder = request.folder.path
    members = ensemble_members(folder)
    if not members:
        raise InputError(f"{folder}: no ensemble to resume; start one without --resume")
    recipe = stored_recipe(request.task, RunFolder(members[0]))
    check_same_recipe(request, recipe)
    return members, recipe


def _check_same_data(run: RunFolder, first: RunFolder) -> None:
    if run.read().provenance != first.read().provenance:
        raise InputError(
            f"{run.path}: the data differs from the data of {first.path.name}; give the same files, or choose another "
            "folder"
        )
