"""Train a biLM on a prepared corpus. Entry point for Python and the command line."""

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
from elmore.nn.devices import process_device
from elmore.pretraining.distributed import is_restarted, joined_process_group
from elmore.pretraining.export import Provenance, check_same_corpus, corpus_identity, export_checkpoint
from elmore.pretraining.initial_model import InitialModel, from_model, new_model
from elmore.pretraining.language_model_training import LanguageModelTraining
from elmore.pretraining.recipe import FittedRecipe, PretrainingSettings, Recipe, fit_to_corpus
from elmore.pretraining.tensorboard import TensorBoardLog
from elmore.recipe import apply_overrides, current_names, read_recipe, read_stored_recipe
from elmore.training.events import Configured, Finished, RunEvent
from elmore.training.loop import TrainingLoop
from elmore.training.loss_curve import plot_log
from elmore.training.run import Run
from elmore.training.run_folder import RunFolder, StoredRun
from elmore.training.trainable import Evaluation, World

# In the run folder, in addition to the files of every run.
HDF5, TENSORBOARD = "hdf5", "tensorboard"

# Fields that can change in a resumed run. Others would change its text or the shape of its tensors.
CHANGEABLE = (
    "steps",
    "epochs",
    "learning_rate",
    "warmup_steps",
    "final_rate",
    "weight_decay",
    "max_grad_norm",
    "dropout",
    "precision",
)


@dataclass(frozen=True, kw_only=True)
class PretrainingConfigured(Configured):
    """Before the first step: the corpus, and the size of the model."""

    tokens: int
    types: int  # distinct words
    unknown_share: float
    softmax_parameters: int
    is_sampled: bool  # whether training losses are of a sampled softmax
    frozen_steps: int  # the first steps, which train only the softmax

    def __str__(self) -> str:
        lines = [
            f"{self.tokens:,} tokens, {self.types:,} distinct words, {self.unknown_share:.1%} of tokens are <UNK>",
            f"{self.parameters:,} parameters, and {self.softmax_parameters:,} in the softmax",
            *self.notices,
        ]
        if self.frozen_steps:
            lines.append(f"the first {self.frozen_steps:,} steps train only the softmax")
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class PretrainingFinished(Finished):
    """The written files, and the perplexity of the model."""

    hdf5: Path | None
    curve: Path | None  # None without matplotlib
    heldout: Evaluation | None
    baseline: Evaluation | None  # of the initial model, in fine-tuning

    def __str__(self) -> str:
        lines = []
        if self.baseline is not None and self.heldout is not None:
            lines.append(
                f"held-out perplexity: {self.baseline.score:.2f} before fine-tuning, {self.heldout.score:.2f} after"
            )
        lines.append(f"wrote {self.model}" + (f" and {self.hdf5}" if self.hdf5 else ""))
        if self.curve is None:
            lines.append("for a plot of the loss: pip install 'elmore[plots]'")
        return "\n".join(lines)


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
) -> Run[RunEvent]:
    r"""Train a biLM on a prepared corpus. Returns a run: iterate over its events, or call `run()`.

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
    the vocabulary of 11 words is too small for 8,192 negatives; the full softmax is trained
    3 steps, 1.00 epochs
    step 1/3  epoch 0.33  loss 2.4...  perplexities ... tokens/s  ... left
    step 2/3  epoch 0.67 ...
    step 3/3  epoch 1.00 ...
    step 3  held-out perplexity by the full softmax: ... (forward ..., backward ...)
    wrote .../run/model...
    >>> pretrain(corpus, folder / "longer", {**tiny, "training.steps": 5}, device="cpu").run().model.name
    'model'
    >>> load(folder / "run" / "model").config.cell_dim
    16

    `folder` is the run folder. `recipe` is a `Recipe`, the name of a recipe or a TOML file. The default is `small`, or
    `fine-tuning` with `init`, the model (or its name) to start from. A mapping changes single fields, as in
    {"training.learning_rate": 0.001}, of the default or of the recipe named "base". `settings` may also be a mapping,
    as in {"log_every": 10}.

    With `resume`, a run that was stopped continues with its recipe and settings, except for the fields in the mappings.
    `command` is stored in the card of the model.

    No work starts before the first event. `stop()` makes the run save and end soon. Several processes that torchrun has
    started train one model together; each gets all events, and rank 0 writes.
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
    return Run(lambda stop_requested: _locked_events(request, device, stop_requested))


@dataclass(frozen=True, kw_only=True)
class _Request:
    """The arguments of `pretrain`."""

    corpus: Corpus | str | Path
    folder: RunFolder
    recipe: Recipe | Mapping[str, Any] | str | Path | None
    init: Model | str | Path | None
    resume: bool
    settings: PretrainingSettings | Mapping[str, Any] | None
    command: str


def _locked_events(
    request: _Request, device: str | torch.device | None, stop_requested: Callable[[], bool]
) -> Iterator[RunEvent]:
    torch_device = process_device(device)
    with joined_process_group(torch_device) as world, ExitStack() as lock:
        world.on_rank_zero(lambda: lock.enter_context(request.folder.locked()))
        # A separate generator: when it ends, no object refers to the process group any more.
        yield from _events(request, torch_device, world, stop_requested)


def _events(
    request: _Request, device: torch.device, world: World, stop_requested: Callable[[], bool]
) -> Iterator[RunEvent]:
    corpus = request.corpus if isinstance(request.corpus, Corpus) else Corpus.open(request.corpus)
    setup = _set_up(request, corpus, world)
    if setup.settings.hdf5:
        # Raises an error now instead of after the training, if the format cannot express the model.
        options_from_config(setup.initial.recipe.model)
    training = LanguageModelTraining(corpus, setup.initial, device=device, world=world)
    logs = [TensorBoardLog(request.folder.path / TENSORBOARD)] if setup.settings.tensorboard else []
    loop = TrainingLoop(training, request.folder, setup.settings, world=world, logs=logs)
    stored = StoredRun(asdict(setup.initial.recipe), asdict(setup.settings), asdict(setup.provenance))
    world.on_rank_zero(lambda: request.folder.write(stored))
    yield _configured(training, setup.notices)
    yield from loop.events(stop_requested)
    if loop.is_finished:
        yield world.on_rank_zero(lambda: _finish(training, loop, request.folder, setup))


@dataclass(frozen=True, kw_only=True)
class _Setup:
    """The initial model of a run, its settings and provenance; of a resumed run, as stored."""

    initial: InitialModel
    settings: PretrainingSettings
    provenance: Provenance
    notices: tuple[str, ...]  # changes of the recipe for a small corpus


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
        recipe = read_stored_recipe(stored.recipe, Recipe, source=request.folder.recipe)
        with error_context(request.folder.settings):
            settings = read_fields(PretrainingSettings, stored.settings, error=FormatError)
        with error_context(request.folder.provenance):
            provenance = read_fields(Provenance, stored.provenance, error=FormatError)
        check_same_corpus(provenance.corpus, corpus)
        if request.resume:
            recipe = _changed_recipe(recipe, request)
        initial = new_model(recipe, corpus, character_vocabulary=provenance.character_vocabulary, init=provenance.init)
    if isinstance(request.settings, PretrainingSettings):
        settings = request.settings
    elif request.settings is not None:
        settings = read_fields(PretrainingSettings, request.settings, base=settings)
    if request.command:
        provenance = replace(provenance, commands=(*provenance.commands, request.command))
    return _Setup(initial=initial, settings=settings, provenance=provenance, notices=notices)


def _stored_run(request: _Request) -> StoredRun | None:
    """The run in the folder, to be resumed; None for a new run."""
    folder = request.folder
    if request.resume and not folder.exists:
        raise InputError(f"{folder.path}: contains no run to resume; start one with -o {folder.path}")
    if not request.resume and folder.exists and not is_restarted():
        raise InputError(
            f"{folder.path}: contains a run; resume it with --resume {folder.path}, or choose another folder"
        )
    if folder.exists:
        return folder.read()
    # Files of a restarted command are its own, even if it was stopped before the recipe was written.
    if not is_restarted():
        folder.check_free(HDF5, TENSORBOARD)
    return None


def _new_recipe(request: _Request, corpus: Corpus, world: World) -> FittedRecipe:
    """The requested recipe, adapted to the corpus."""
    changes = dict(request.recipe) if isinstance(request.recipe, Mapping) else {}
    base = changes.pop("base", None) if isinstance(request.recipe, Mapping) else request.recipe
    default = DEFAULT_RECIPE if request.init is None else DEFAULT_FINE_TUNING_RECIPE
    recipe = base if isinstance(base, Recipe) else read_recipe(base or default, Recipe)
    return fit_to_corpus(
        apply_overrides(recipe, changes),
        tokens=len(corpus.train),
        vocabulary_size=len(corpus.vocabulary),
        processes=world.size,
        fixed=changes,
    )


def _changed_recipe(recipe: Recipe, request: _Request) -> Recipe:
    """The stored recipe of a resumed run with the requested changes."""
    if request.init is not None or not isinstance(request.recipe, Mapping | None):
        raise InputError("a resumed run keeps its model and its recipe; give only single fields to change")
    changes = current_names(Recipe, request.recipe or {})
    for name in changes:
        section, _, field = name.partition(".")
        if section != "training" or field not in CHANGEABLE:
            raise InputError(
                f"{name} cannot be changed in a resumed run; allowed are training.{', training.'.join(CHANGEABLE)}"
            )
    return apply_overrides(recipe, changes)


def _configured(training: LanguageModelTraining, notices: tuple[str, ...]) -> PretrainingConfigured:
    corpus, model = training.corpus, training.model
    part = corpus.manifest.parts["train"]
    return PretrainingConfigured(
        tokens=part.tokens,
        types=len(corpus.types) - 2,
        unknown_share=part.unknown_share,
        parameters=training.initial.recipe.model.num_parameters,
        softmax_parameters=model.softmax_weight.numel() + model.softmax_bias.numel(),
        is_sampled=training.sampler is not None,
        frozen_steps=training.training.frozen_steps,
        notices=notices,
    )


def _finish(
    training: LanguageModelTraining, loop: TrainingLoop, folder: RunFolder, setup: _Setup
) -> PretrainingFinished:
    """Write the model, and plot the loss curve if matplotlib is installed."""
    name = folder.path.resolve().name
    checkpoint = export_checkpoint(training, loop, name=name, commands=setup.provenance.commands)
    write_checkpoint(checkpoint, folder.model)
    hdf5 = folder.path / HDF5 if setup.settings.hdf5 else None
    if hdf5 is not None:
        # The format has no softmax. Without one, no warning is printed; the other folder has the softmax.
        write_checkpoint(replace(checkpoint, softmax=None), hdf5, format="hdf5")
    curve: Path | None = folder.curve
    try:
        sampled = " (sampled)" if training.sampler else ""
        plot_log(folder.log, folder.curve, loss_name=f"training loss{sampled}", score_scale="log")
    except MissingExtra:
        curve = None
    evaluations = loop.evaluations
    return PretrainingFinished(
        model=folder.model, hdf5=hdf5, curve=curve, heldout=evaluations.latest, baseline=evaluations.baseline
    )
