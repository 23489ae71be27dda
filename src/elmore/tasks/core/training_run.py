"""Train a task model. Entry point for Python and the command line."""

import hashlib
import shutil
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch

from elmore.errors import FormatError, InputError, MissingExtra, error_context
from elmore.fields import read_fields
from elmore.model import Model, load
from elmore.nn.devices import process_device
from elmore.recipe import apply_overrides, read_recipe
from elmore.tasks.core.assembly import AssembledModel, find_token_style, new_model
from elmore.tasks.core.batching import Collator
from elmore.tasks.core.config import TaskRecipe, changed_fields
from elmore.tasks.core.events import Event, Fitted, Fitting, TaskConfigured, TaskFinished
from elmore.tasks.core.mix_plot import draw_mixes
from elmore.tasks.core.model_folder import ELMO, TaskModelCard, write_task_model
from elmore.tasks.core.registry import TASKS, find_task
from elmore.tasks.core.task import NO_ENSEMBLE, Batch, Dataset, Fit, FittedModel, Task, fine_tuning_sentences
from elmore.tasks.core.trained_model import stored_model
from elmore.tasks.core.trainer import TaskTraining, epoch_steps
from elmore.tasks.inputs.bilm import bilm_reference, fine_tune, has_unfinished_fine_tuning
from elmore.tasks.metrics.metric import Score
from elmore.text.style import TokenStyle
from elmore.training.events import Message, Stopped
from elmore.training.loop import SECONDS_BETWEEN_OUTPUTS, TrainingLoop
from elmore.training.loss_curve import plot_log
from elmore.training.run import Run
from elmore.training.run_folder import RunFolder, RunSettings, StoredRun

CACHE, FINE_TUNING, MIX = "cache", "fine-tuning", "mix.png"  # in the run's folder
# A checkpoint contains all word vectors: writing it can take as long as a short epoch on a GPU.
SECONDS_BETWEEN_CHECKPOINTS = 15.0

Paths = str | Path | Sequence[str | Path]


def train(
    task: str | Task[Any, Any],
    folder: str | Path,
    *,
    train: Paths,
    dev: Paths,
    recipe: TaskRecipe | Mapping[str, Any] | str | Path | None = None,
    resume: bool = False,
    cache: str | Path | None = None,
    device: str | torch.device | None = None,
) -> Run[Event]:
    """Train a task model in a folder. Iterate over the events to run the training.

    `recipe` is a recipe object, the name of a recipe or a TOML file; the default is the task's recipe. A mapping
    changes single fields: {"elmo.where": "none", "training.seed": 3}. `resume` continues the run in the folder with
    its recipe; a recipe that is given again must be equal. `cache` is a folder for the layers of a frozen biLM, which
    several runs may share; the default is a part of the run's folder and is removed at the end.

    The training starts when the first event is requested. `stop()` saves the run and ends it soon.
    """
    request = TrainingRequest.of(task, folder, train=train, dev=dev, recipe=recipe, resume=resume, cache=cache)
    return Run(lambda stop_requested: training_events(request, process_device(device), stop_requested))


@dataclass(frozen=True, kw_only=True)
class TrainingRequest:
    """The arguments of `train`."""

    task: Task[Any, Any]
    folder: RunFolder
    train: Sequence[str | Path]
    dev: Sequence[str | Path]
    recipe: TaskRecipe | Mapping[str, Any] | str | Path | None
    resume: bool
    cache: Path | None
    is_member: bool = False  # of an ensemble

    @classmethod
    def of(
        cls,
        task: str | Task[Any, Any],
        folder: str | Path,
        *,
        train: Paths,
        dev: Paths,
        recipe: TaskRecipe | Mapping[str, Any] | str | Path | None,
        resume: bool,
        cache: str | Path | None,
    ) -> "TrainingRequest":
        """A request from the arguments of `train`, with tasks as objects and paths as lists."""
        return cls(
            task=find_task(task) if isinstance(task, str) else task,
            folder=RunFolder(Path(folder)),
            train=_paths(train),
            dev=_paths(dev),
            recipe=recipe,
            resume=resume,
            cache=None if cache is None else Path(cache),
        )


def resolve_recipe(task: Task[Any, Any], recipe: TaskRecipe | Mapping[str, Any] | str | Path | None) -> TaskRecipe:
    """The complete recipe. The key "base" of a mapping is the recipe that it changes."""
    if isinstance(recipe, TaskRecipe):
        return recipe
    changes = dict(recipe) if isinstance(recipe, Mapping) else {}
    base = changes.pop("base", None) if isinstance(recipe, Mapping) else recipe
    if isinstance(base, TaskRecipe):
        return apply_overrides(base, changes)
    if base is None and task.name not in TASKS:
        return apply_overrides(task.recipe(), changes)  # a task outside of Elmore: the defaults of its options
    return apply_overrides(read_recipe(base or task.name, task.recipe), changes)


def training_events(
    request: TrainingRequest, device: torch.device, stop_requested: Callable[[], bool]
) -> Iterator[Event]:
    """Train in the run's folder, with the folder's lock."""
    with request.folder.locked():
        yield from _training_events(request, device, stop_requested)


def _training_events(
    request: TrainingRequest, device: torch.device, stop_requested: Callable[[], bool]
) -> Iterator[Event]:
    task, recipe = request.task, _recipe(request)
    train, dev = _read(task, request.train, recipe, to_train=True), _read(task, request.dev, recipe, to_train=False)
    examples = sampled(train.examples, recipe.training.fraction, seed=recipe.training.seed)
    provenance = {"task": task.name}
    for part, paths in (("train", request.train), ("dev", request.dev)):
        # By content: the same files may have other paths when a run resumes.
        provenance[part] = digest_of_files([*paths, *task.files_beside(paths, recipe.task)])
    if request.folder.exists:
        _check_same(request.folder, provenance)
    # From the sample only: a model trained on a fraction of the data must not contain labels of the rest.
    labels = task.labels(examples, recipe.task)
    task.check(dev.examples, labels)
    dev = dev._replace(notices=(*dev.notices, *task.unseen(dev.examples, labels)))
    token_style = find_token_style(task, recipe, train.examples)
    batches = -(-len(examples) // recipe.training.batch_size)
    settings = RunSettings(
        checkpoint_every=epoch_steps(batches, recipe.training), checkpoint_seconds=SECONDS_BETWEEN_CHECKPOINTS
    )
    stored = StoredRun(asdict(recipe), asdict(settings), provenance)
    bilm = yield from _bilm(request, recipe, examples, token_style, device, stop_requested)
    if isinstance(bilm, Stopped):
        request.folder.write(stored)
        yield bilm
        return
    cache = request.cache or request.folder.path / CACHE
    assembled = new_model(
        task, recipe, labels, examples, bilm=bilm, token_style=token_style, cache=cache, device=device
    )
    if request.is_member and isinstance(assembled.model, FittedModel):
        raise InputError(f"the model of {task.name} with this task.method {NO_ENSEMBLE}")
    # Written after all checks: unusable data or a missing file leaves no run.
    request.folder.write(stored)
    yield _configured(assembled, train, dev, examples=len(examples))
    outcome: _Outcome | None
    if isinstance(assembled.model, FittedModel):
        outcome = yield from _fit(assembled, request, examples, dev.examples, stop_requested)
    else:
        if assembled.maker.requires_encoding(every := [*examples, *dev.examples]):
            yield Message("the biLM encodes all sentences once; their layers are cached for training")
            if not assembled.maker.fill_cache(every, stop_requested):
                yield Stopped(0)
                return
        training = TaskTraining(assembled, train=examples, dev=dev.examples)
        outcome = yield from _train(training, TrainingLoop(training, request.folder, settings), stop_requested)
    if outcome is not None:
        yield _finish(outcome, assembled, request, bilm)


class _Outcome(NamedTuple):
    """The outcome of a training run. The weights are in the model."""

    score: Score
    facts: dict[str, Any]  # for the card
    epoch: int = 0  # the best epoch; 0 for a fitted model
    epochs: int = 0
    is_flat: bool = False


def _train(
    training: TaskTraining[Any, Any], run: TrainingLoop, stop_requested: Callable[[], bool]
) -> Generator[Event, None, _Outcome | None]:
    """Train by gradient descent."""
    yield from run.events(stop_requested)
    if not run.is_finished:
        return None
    epoch, epochs = training.stopping.best_evaluation, training.stopping.evaluations
    facts = {"best_epoch": epoch, "epochs": epochs, "examples": training.examples}
    return _Outcome(training.score_best(), facts, epoch, epochs, training.should_stop)


def _fit(
    assembled: AssembledModel[Any, Any],
    request: TrainingRequest,
    train: Sequence[Any],
    dev: Sequence[Any],
    stop_requested: Callable[[], bool],
) -> Generator[Event, None, _Outcome | None]:
    """Fit in one pass."""
    # Fitting uses the layers once, so they are stored only in a cache that the caller gives.
    fit = yield from fit_model(assembled, train, dev, stop_requested, keep_layers=request.cache is not None)
    if fit is None:
        return None
    scores = {choice: score.value for choice, score in fit.scores.items()}
    return _Outcome(fit.scores[fit.chosen], {"examples": len(train), "dev_scores": scores, "chosen": fit.chosen})


def _bilm(
    request: TrainingRequest,
    recipe: TaskRecipe,
    examples: Sequence[Any],
    token_style: TokenStyle,
    device: torch.device,
    stop_requested: Callable[[], bool],
) -> Generator[Event, None, Model | Stopped | None]:
    """The biLM of the recipe, fine-tuned on the task's text if the recipe requires it; None without ELMo."""
    options = recipe.elmo
    if not options.is_used:
        return None
    inside = request.folder.model / ELMO
    if options.training == "fine-tuned" and inside.is_dir():
        # The run is finished, and its model contains the fine-tuned biLM.
        return load(inside)
    bilm = load(options.model)
    if options.training != "fine-tuned":
        return bilm
    folder, sentences = request.folder.path / FINE_TUNING, fine_tuning_sentences(request.task, examples)
    return (
        yield from fine_tune(
            bilm,
            sentences,
            folder,
            options,
            token_style=token_style,
            device=device,
            seed=recipe.training.seed,
            stop_requested=stop_requested,
        )
    )


def _configured(
    assembled: AssembledModel[Any, Any], train: Dataset[Any], dev: Dataset[Any], *, examples: int
) -> TaskConfigured:
    options, required, joint = assembled.recipe.elmo, assembled.required, assembled.maker.joint
    trained = {parameter for parameter in assembled.model.parameters() if parameter.requires_grad}
    # Joint training unfreezes all layers of the biLM.
    trained |= set(joint.parameters()) if joint is not None else set()
    where = "input and output" if options.where == "both" else options.where
    return TaskConfigured(
        task=assembled.task.name,
        train=examples,
        dev=len(dev.examples),
        parameters=sum(parameter.numel() for parameter in trained),
        elmo="without ELMo" if required is None else f"with {required.name}, {options.training}, at the {where}",
        token_style=assembled.token_style,
        notices=tuple(f"{part}: {text}" for part, data in (("train", train), ("dev", dev)) for text in data.notices),
    )


def _recipe(request: TrainingRequest) -> TaskRecipe:
    folder = request.folder
    if not folder.exists:
        if request.resume:
            raise InputError(f"{folder.path}: no run to resume; start one without --resume")
        tuning = folder.path / FINE_TUNING
        # Interrupted fine-tuning without a written run is resumed.
        folder.check_free(CACHE, MIX, *([] if has_unfinished_fine_tuning(tuning) else [FINE_TUNING]))
        return resolve_recipe(request.task, request.recipe)
    if not request.resume:
        raise InputError(f"{folder.path}: already contains a run; resume it with --resume, or choose another folder")
    stored = stored_recipe(request.task, folder)
    check_same_recipe(request, stored)
    return stored


def stored_recipe(task: Task[Any, Any], folder: RunFolder) -> TaskRecipe:
    """The recipe of a stored run. A run of another task is rejected."""
    run = folder.read()
    # Checked first: another task's recipe would have misleading errors.
    if (stored := run.provenance.get("task")) != task.name:
        raise InputError(f"{folder.path}: contains a run of the task {stored}, not {task.name}")
    with error_context(folder.recipe):
        return read_fields(task.recipe, run.recipe, error=FormatError)


def check_same_recipe(request: TrainingRequest, stored: TaskRecipe) -> None:
    """Reject a recipe that differs from the recipe of the resumed run."""
    recipe = request.recipe
    if recipe is None:
        return
    # A mapping without a base changes the stored recipe.
    if isinstance(recipe, Mapping) and not recipe.get("base"):
        recipe = {**recipe, "base": stored}
    for name, value in changed_fields(stored, resolve_recipe(request.task, recipe)).items():
        section, field = name.split(".")
        raise InputError(
            f"{request.folder.path}: {name} is {value!r}, but the recipe of the resumed run has "
            f"{asdict(stored)[section][field]!r}; remove the option, or start a new run in another folder"
        )


def _read(task: Task[Any, Any], paths: Sequence[str | Path], recipe: TaskRecipe, *, to_train: bool) -> Dataset[Any]:
    data = task.read(paths, recipe.task, to_train=to_train)
    if not data.examples:
        raise InputError("; ".join([f"{', '.join(map(str, paths))}: no examples", *data.notices]))
    return data


def sampled(examples: Sequence[Any], fraction: float, *, seed: int) -> list[Any]:
    """A random sample of at least one example, in the given order. Samples of larger fractions contain the smaller."""
    count = max(round(len(examples) * fraction), 1)
    order = np.random.default_rng([seed, len(examples)]).permutation(len(examples))
    return [examples[index] for index in sorted(order[:count].tolist())]


def digest_of_files(paths: Sequence[str | Path]) -> str:
    """A digest of the contents of some files. It does not depend on their paths."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        with Path(path).open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def _check_same(folder: RunFolder, provenance: Mapping[str, Any]) -> None:
    stored = folder.read().provenance
    for part in ("train", "dev"):
        if stored.get(part) != provenance[part]:
            raise InputError(
                f"{folder.path}: the --{part} data differs from the data of this run; give the same files, or start "
                "a new run in another folder"
            )


def _finish(
    outcome: _Outcome, assembled: AssembledModel[Any, Any], request: TrainingRequest, bilm: Model | None
) -> TaskFinished:
    """Write the best model and the plots of its training."""
    folder, score = request.folder, outcome.score
    if assembled.maker.joint is not None:
        # Training has changed the biLM's weights.
        bilm = assembled.maker.joint.model
        assembled = replace(assembled, required=bilm_reference(bilm, assembled.recipe.elmo.model))
    scores = {f"dev {score.metric}": score.value, **score.parts}
    stored = stored_model(assembled, scores=scores, training=outcome.facts)
    # A biLM that this run has trained exists only here.
    is_new = bilm is not None and assembled.recipe.elmo.training != "frozen"
    write_task_model(stored, folder.model, bilm=bilm if is_new or assembled.recipe.elmo.inside else None)
    if request.cache is None:
        shutil.rmtree(folder.path / CACHE, ignore_errors=True)
    shutil.rmtree(folder.path / FINE_TUNING, ignore_errors=True)
    pictures = _plots(folder, stored.card) if outcome.epoch else ()
    return TaskFinished(
        model=folder.model,
        score=score,
        epoch=outcome.epoch,
        epochs=outcome.epochs,
        is_flat=outcome.is_flat,
        mixes=stored.card.mixes,
        pictures=pictures,
    )


def _plots(folder: RunFolder, card: TaskModelCard) -> tuple[Path, ...]:
    """Plot the loss curve, and the mix of layers if its weights are trained. Without matplotlib there are no plots."""
    plots = []
    with suppress(MissingExtra):
        plot_log(folder.log, folder.curve)
        plots.append(folder.curve)
        if card.mixes and card.recipe["elmo"]["layers"] == "all":
            plots.append(folder.path / MIX)
            draw_mixes({f"at the {position}": [mix.weights] for position, mix in card.mixes.items()}, plots[-1])
    return tuple(plots)


def _paths(paths: Paths) -> list[str | Path]:
    return [paths] if isinstance(paths, str | Path) else list(paths)


E = TypeVar("E")
P = TypeVar("P")


def fit_model(
    assembled: AssembledModel[E, P],
    train: Sequence[E],
    dev: Sequence[E],
    stop_requested: Callable[[], bool],
    *,
    keep_layers: bool = False,
) -> Generator[Fitting | Fitted | Stopped, None, Fit | None]:
    """Fit a model. The result is None if stopped; a stopped fit has no state to resume.

    With `keep_layers`, the layers are stored in the model's cache.
    """
    model = assembled.model
    assert isinstance(model, FittedModel)
    model.eval()
    if keep_layers and not assembled.maker.fill_cache([*train, *dev], stop_requested):
        yield Stopped(0)
        return None
    batches = _CountedBatches(assembled.maker)
    fitting = model.fit(batches.of(train), batches.of(dev), assembled.task.metric.score)
    shown = monotonic()
    while True:
        try:
            next(fitting)
        except StopIteration as end:
            fit: Fit = end.value
            yield Fitted(fit)
            return fit
        if stop_requested():
            yield Stopped(0)
            return None
        if monotonic() - shown > SECONDS_BETWEEN_OUTPUTS:
            yield batches.progress()
            shown = monotonic()


class _CountedBatches(Generic[E]):
    """Collates batches on request and counts their tokens."""

    def __init__(self, maker: Collator[E]) -> None:
        self._maker = maker
        self._start = monotonic()
        self._done = self._tokens = 0

    def of(self, examples: Sequence[E]) -> Iterator[Batch[E]]:
        lengths = [sum(map(len, self._maker.task.sentences(example))) for example in examples]
        # Counted on the first request, because a model may not request all examples.
        self._tokens += sum(lengths)
        for indexes in self._maker.groups(examples):
            batch = self._maker.batch([examples[index] for index in indexes])
            self._done += sum(lengths[index] for index in indexes)
            yield batch

    def progress(self) -> Fitting:
        seconds = monotonic() - self._start
        return Fitting(self._done, self._tokens, seconds * (self._tokens - self._done) / max(self._done, 1))
