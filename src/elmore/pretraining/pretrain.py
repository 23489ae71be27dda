"""From a prepared corpus to a biLM: the door to pre-training, for the command line and for Python alike."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from elmore.corpus.corpus import Corpus
from elmore.defaults import DEFAULT_FINE_TUNING_RECIPE, DEFAULT_RECIPE
from elmore.errors import FormatError, InputError, MissingExtra, error_context
from elmore.fields import read_fields
from elmore.formats import write_checkpoint
from elmore.formats.options_json import options_from_config
from elmore.model import Model, load
from elmore.pretraining.events import Event, Finished, Opened
from elmore.pretraining.export import export_checkpoint
from elmore.pretraining.initial_model import InitialModel, from_model, new_model
from elmore.pretraining.language_model_training import LanguageModelTraining
from elmore.pretraining.provenance import Provenance, changed_recipe, check_same_corpus, corpus_identity
from elmore.pretraining.recipe import FittedRecipe, Recipe, fit_to_corpus
from elmore.pretraining.settings import PretrainingSettings
from elmore.recipe import apply_overrides, read_recipe
from elmore.training.distributed import World, joined_process_group, process_device, started_again
from elmore.training.graceful_stop import StoppableEvents
from elmore.training.loss_curve import plot_log
from elmore.training.run import TrainingRun
from elmore.training.run_folder import RunFolder, StoredRun

HDF5 = "hdf5"  # of a run's folder: the model as options.json and weights.hdf5, if asked for


def pretrain(
    corpus: Corpus | str | Path,
    folder: str | Path,
    recipe: Recipe | Mapping[str, Any] | str | Path | None = None,
    *,
    init: Model | str | Path | None = None,
    resume: bool = False,
    settings: PretrainingSettings | Mapping[str, Any] | None = None,
    device: str | torch.device | None = None,
    command: str = "",
) -> StoppableEvents[Event]:
    r"""Train a biLM on a prepared corpus, in a folder of its own; go through the events and it is done.

    >>> import tempfile
    >>> from elmore import load, prepare, pretrain
    >>> folder = Path(tempfile.mkdtemp())
    >>> text = folder / "text.txt"
    >>> _ = text.write_text("The cat sat on the mat.\n\nThe dog sat on the cat.\n" * 20)
    >>> corpus = prepare([text], folder / "corpus", heldout=0.2, workers=1)
    >>> tiny = {"model.cell_dim": 16, "model.vector_dim": 8, "model.characters.filters": [[1, 4], [2, 8]],
    ...         "training.batch_size": 4, "training.steps": 3}
    >>> for event in pretrain(corpus, folder / "run", tiny, settings={"log_every": 1}, device="cpu"):
    ...     print(event)  # doctest: +ELLIPSIS
    210 tokens, 8 distinct words, 0.0% of tokens are <UNK>
    9,788 parameters, and 99 in the softmax
    a vocabulary of 11 words is too small to draw 8,192 negatives from; the full softmax is trained
    3 steps, 1.00 epochs
    step 1/3  epoch 0.33  loss 2.4...  perplexities ... tokens/s  ... left
    step 2/3  epoch 0.67 ...
    step 3/3  epoch 1.00 ...
    step 3  held-out perplexity by the full softmax: ... (forward ..., backward ...)
    wrote .../run/model...
    >>> load(folder / "run" / "model").config.cell_dim
    16

    `recipe` is a `Recipe`, the name of one or a TOML file; without it a new model is `small`, and one that begins from
    `init`, a model or its name, is trained by `fine-tuning`. A run that goes on (`resume`) keeps its recipe and its
    settings. A mapping changes single fields of either, as in {"training.learning_rate": 0.001} and {"log_every": 10},
    and leaves the others as the run, the default or the recipe named "base" has them. `command` is how the run was
    asked for, for the model's card.

    Nothing happens before the first event is asked for. `stop()` has the run save and end soon. Several processes that
    torchrun has started train one model together; each gets all events, and rank 0 writes.
    """
    request = _Request(
        corpus=corpus,
        folder=RunFolder(Path(folder)),
        recipe=recipe,
        init=init,
        resume=resume,
        settings=settings,
        command=command,
    )
    return StoppableEvents(lambda stop_asked: _pretrained(request, device, stop_asked))


@dataclass(frozen=True, kw_only=True)
class _Request:
    """What the caller of `pretrain` wants."""

    corpus: Corpus | str | Path
    folder: RunFolder
    recipe: Recipe | Mapping[str, Any] | str | Path | None
    init: Model | str | Path | None
    resume: bool
    settings: PretrainingSettings | Mapping[str, Any] | None
    command: str


def _pretrained(
    request: _Request, device: str | torch.device | None, stop_asked: Callable[[], bool]
) -> Iterator[Event]:
    chosen = process_device(device)
    with joined_process_group(chosen) as world, ExitStack() as lock:
        world.on_rank_zero(lambda: lock.enter_context(request.folder.locked()))
        # A generator of its own: when it has ended, nothing holds on to the group of processes any more.
        yield from _events(request, chosen, world, stop_asked)


def _events(request: _Request, device: torch.device, world: World, stop_asked: Callable[[], bool]) -> Iterator[Event]:
    corpus = request.corpus if isinstance(request.corpus, Corpus) else Corpus.open(request.corpus)
    setup = _set_up(request, corpus, world)
    if setup.settings.hdf5:
        # Told now rather than after the training, if it cannot be.
        options_from_config(setup.initial.recipe.model)
    training = LanguageModelTraining(corpus, setup.initial, device=device, world=world)
    run = TrainingRun(training, request.folder, setup.settings, world=world)
    stored = StoredRun(asdict(setup.initial.recipe), asdict(setup.settings), asdict(setup.provenance))
    world.on_rank_zero(lambda: request.folder.write(stored))
    yield _opened(training, setup.notices)
    yield from run.events(stop_asked)
    if run.is_finished:
        yield world.on_rank_zero(lambda: _finish(training, run, request.folder, setup))


@dataclass(frozen=True, kw_only=True)
class _Setup:
    """All that a run begins with: what it began with before, if it goes on."""

    initial: InitialModel
    settings: PretrainingSettings
    provenance: Provenance
    notices: tuple[str, ...]  # what was changed so that the corpus can be trained


def _set_up(request: _Request, corpus: Corpus, world: World) -> _Setup:
    stored = world.on_rank_zero(lambda: _stored_run(request))
    notices: tuple[str, ...] = ()
    if stored is None:
        (recipe, notices), settings = _new_recipe(request, corpus, world), PretrainingSettings()
        if request.init is None:
            initial = new_model(recipe, corpus)
        else:
            model = request.init if isinstance(request.init, Model) else load(request.init)
            initial = from_model(model, recipe, corpus)
        provenance = Provenance(
            corpus=corpus_identity(corpus), init=initial.init, character_vocabulary=initial.character_vocabulary
        )
    else:
        with error_context(request.folder.recipe):
            recipe = read_fields(Recipe, stored.recipe, error=FormatError)
        with error_context(request.folder.settings):
            settings = read_fields(PretrainingSettings, stored.settings, error=FormatError)
        with error_context(request.folder.provenance):
            provenance = read_fields(Provenance, stored.provenance, error=FormatError)
        check_same_corpus(provenance.corpus, corpus)
        if request.resume:
            recipe = changed_recipe(recipe, _recipe_changes(request))
        initial = new_model(recipe, corpus, character_vocabulary=provenance.character_vocabulary, init=provenance.init)
    if request.settings is not None:
        given = request.settings
        if not isinstance(given, PretrainingSettings):
            given = read_fields(PretrainingSettings, given, base=settings)
        settings = given
    if request.command:
        provenance = replace(provenance, commands=(*provenance.commands, request.command))
    return _Setup(initial=initial, settings=settings, provenance=provenance, notices=notices)


def _stored_run(request: _Request) -> StoredRun | None:
    """The run that lies in the folder and is to go on, or None for a new one."""
    folder = request.folder
    if request.resume and not folder.is_begun:
        raise InputError(f"{folder.path}: no run to go on with; start one with -o {folder.path}")
    if not request.resume and folder.is_begun and not started_again():
        raise InputError(
            f"{folder.path}: holds a run already; go on with it by --resume {folder.path}, or choose another folder"
        )
    if folder.is_begun:
        return folder.read()
    # What a run that is started again left is its own, even if it was stopped before it had begun.
    if not started_again():
        folder.check_free(HDF5)
    return None


def _new_recipe(request: _Request, corpus: Corpus, world: World) -> FittedRecipe:
    """What was asked for, as the corpus can be trained by it."""
    changes = dict(request.recipe) if isinstance(request.recipe, Mapping) else {}
    base = changes.pop("base", None) if isinstance(request.recipe, Mapping) else request.recipe
    usual = DEFAULT_RECIPE if request.init is None else DEFAULT_FINE_TUNING_RECIPE
    recipe = base if isinstance(base, Recipe) else read_recipe(base or usual, Recipe)
    return fit_to_corpus(
        apply_overrides(recipe, changes),
        tokens=len(corpus.train),
        vocabulary_size=len(corpus.vocabulary),
        processes=world.size,
        given=changes,
    )


def _recipe_changes(request: _Request) -> Mapping[str, Any]:
    if request.init is not None or not isinstance(request.recipe, Mapping | None):
        raise InputError("a run that goes on keeps its model and its recipe; give only the single fields to change")
    return request.recipe or {}


def _opened(training: LanguageModelTraining, notices: tuple[str, ...]) -> Opened:
    corpus, model = training.corpus, training.model
    part = corpus.manifest.parts["train"]
    return Opened(
        tokens=part.tokens,
        types=len(corpus.types) - 2,
        unknown_share=part.unknown_share,
        parameters=training.initial.recipe.model.num_parameters,
        softmax_parameters=model.softmax_weight.numel() + model.softmax_bias.numel(),
        is_sampled=training.sampler is not None,
        frozen_steps=training.training.frozen_steps,
        notices=notices,
    )


def _finish(training: LanguageModelTraining, run: TrainingRun, folder: RunFolder, setup: _Setup) -> Finished:
    """Write the model, and draw the curve where that can be done."""
    name = folder.path.resolve().name
    checkpoint = export_checkpoint(training, run, name=name, commands=setup.provenance.commands)
    write_checkpoint(checkpoint, folder.model)
    hdf5 = folder.path / HDF5 if setup.settings.hdf5 else None
    if hdf5 is not None:
        # That format has no place for a softmax, as nobody needs to be told who has both.
        write_checkpoint(replace(checkpoint, softmax=None), hdf5, format="hdf5")
    curve: Path | None = folder.curve
    try:
        sampled = " (sampled)" if training.sampler else ""
        plot_log(folder.log, folder.curve, loss_name=f"training loss{sampled}", score_scale="log")
    except MissingExtra:
        curve = None
    return Finished(folder.model, hdf5, curve, run.evaluations.latest, run.evaluations.baseline)
