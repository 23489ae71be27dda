"""`elmore pretrain`: from a prepared corpus to a biLM."""

import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmore.cli.command import argument, option, verb
from elmore.cli.model_options import device_option
from elmore.cli.training_display import training_display
from elmore.cli.verbosity import Verbosity
from elmore.defaults import DEFAULT_FINE_TUNING_RECIPE, DEFAULT_RECIPE
from elmore.errors import ElmoreError, InputError, MissingExtra

if TYPE_CHECKING:
    import torch

    from elmore.corpus.corpus import Corpus
    from elmore.pretraining.beginning import Beginning
    from elmore.pretraining.recipe import Recipe
    from elmore.pretraining.run import Habits, Run
    from elmore.pretraining.run_folder import Origins, RunFolder
    from elmore.training.distributed import Team

OFTEN, SHAPE = "How often", "What is trained"
_FOLDER = click.Path(path_type=Path)
_AT_LEAST_1 = click.IntRange(min=1)


# Fields of a recipe may follow, as --training.rows 64; the verb checks them itself.
@verb(allow_extra_args=True, ignore_unknown_options=True)
@argument("prepared", type=_FOLDER, metavar="PREPARED", help="A folder that `elmore prepare` wrote.")
@option("--output", "-o", type=_FOLDER, metavar="RUN", help="A new folder for the run.")
@option("--resume", type=_FOLDER, metavar="RUN", help="Go on with a run that was stopped.")
@option(
    "--recipe",
    metavar="NAME|FILE",
    show_default=DEFAULT_RECIPE,
    panel=SHAPE,
    help="tiny, small, medium, original; or a TOML file.",
)
@option("--init", metavar="MODEL", panel=SHAPE, help="Fine-tune this model.")
@option("--words", is_flag=True, panel=SHAPE, help="Read words by a table, not their characters.")
@option("--steps", type=int, metavar="N", panel=SHAPE, help="Steps to make, instead of epochs.")
@option("--epochs", type=float, metavar="N", panel=SHAPE, help="How often to read the corpus.")
@option("--seed", type=int, metavar="N", panel=SHAPE, help="For all that is random.")
@option(
    "--log-every", type=_AT_LEAST_1, default=50, metavar="N", panel=OFTEN, help="Steps between two lines of the log."
)
@option(
    "--checkpoint-every",
    type=_AT_LEAST_1,
    default=1000,
    metavar="N",
    panel=OFTEN,
    help="Steps between two checkpoints.",
)
@option(
    "--evaluate-every",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    panel=OFTEN,
    help="Steps between evaluations; 0: each epoch.",
)
@option("--keep", type=_AT_LEAST_1, default=2, metavar="N", panel=OFTEN, help="Checkpoints to keep.")
@option("--tensorboard", is_flag=True, help="Also log for TensorBoard.")
@option("--hdf5", is_flag=True, help="Also write options.json and weights.hdf5.")
@device_option
@click.pass_context
def pretrain(
    context: click.Context,
    verbosity: Verbosity,
    *,
    prepared: Path,
    output: Path | None,
    resume: Path | None,
    recipe: str | None,
    init: str | None,
    words: bool,
    steps: int | None,
    epochs: float | None,
    seed: int | None,
    log_every: int,
    checkpoint_every: int,
    evaluate_every: int,
    keep: int,
    tensorboard: bool,
    hdf5: bool,
    device: str | None,
) -> None:
    """Train a biLM on PREPARED.

    Any field of a recipe can be set: --training.rows 64 --model.cell_dim 512.
    """
    if (output is None) == (resume is None):
        raise InputError("give either -o RUN for a new run, or --resume RUN for one that was stopped")
    changes = _changes(context.args)
    for name, value in (("training.steps", steps), ("training.epochs", epochs), ("training.seed", seed)):
        if value is not None:
            changes[name] = str(value)
    wishes = _Wishes(recipe_name=recipe, init=init, words=words, changes=changes, resumes=resume is not None)
    wishes.check()

    from elmore.pretraining.run import Habits
    from elmore.pretraining.run_folder import RunFolder
    from elmore.training.distributed import joined_team, own_device

    habits = Habits(
        log_every=log_every,
        checkpoint_every=checkpoint_every,
        evaluate_every=evaluate_every,
        keep=keep,
        hdf5=hdf5,
        tensorboard=tensorboard,
    )
    folder = RunFolder(output or resume or Path())
    chosen = own_device(device)
    with joined_team(chosen) as team:
        if not team.leads:
            verbosity = Verbosity(quiet=True)
            verbosity.configure()
        finished = _train(prepared, folder, wishes, habits, device=chosen, team=team, verbosity=verbosity)
    if not finished:
        raise click.exceptions.Exit(130)


def _train(
    prepared: Path,
    folder: "RunFolder",
    wishes: "_Wishes",
    habits: "Habits",
    *,
    device: "torch.device",
    team: "Team",
    verbosity: Verbosity,
) -> bool:
    """Train, and say whether that came to its end; False if the user stopped it."""
    from elmore.corpus.corpus import Corpus
    from elmore.pretraining.run import Run

    go_on = f"elmore pretrain {shlex.quote(str(prepared))} --resume {shlex.quote(str(folder.path))}"
    with _interruption_told(verbosity, folder, go_on), training_display(verbosity) as display:
        corpus = Corpus.open(prepared)
        beginning, origins = _begun(wishes, corpus, folder, team)
        run = Run(corpus, folder, beginning, habits=habits, device=device, team=team, commands=origins.commands)
        team.led(lambda: folder.write(beginning.recipe, origins))
        with _gentle_stop(run, verbosity), _failure_told(verbosity, go_on):
            for event in run.events():
                display.show(event)
    finished = run.done == run.updates
    if not finished:
        verbosity.info(f"stopped after update {run.done:,}, and saved; go on with: {go_on}")
    elif team.leads:
        _plot(folder, verbosity)
    return finished


@dataclass(frozen=True, kw_only=True)
class _Wishes:
    """What the command line says of the model and its training."""

    recipe_name: str | None
    init: str | None
    words: bool
    changes: Mapping[str, str]
    resumes: bool

    def check(self) -> None:
        if self.resumes and (self.recipe_name or self.init or self.words):
            raise InputError("a run that goes on keeps its recipe; leave out --recipe, --init and --words")
        if self.init and (self.words or any(name.startswith("model.") for name in self.changes)):
            raise InputError("the shape comes with the model of --init; leave out --words and --model.…")

    def recipe(self) -> "Recipe":
        from elmore.pretraining.recipe import Recipe
        from elmore.recipe import override, read_recipe

        default = DEFAULT_FINE_TUNING_RECIPE if self.init else DEFAULT_RECIPE
        return override(read_recipe(self.recipe_name or default, Recipe), self.changes)


def _changes(arguments: list[str]) -> dict[str, str]:
    """`--training.rows 64 --model.cell_dim=512` as a dictionary."""
    changes: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, joined, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or "." not in name:
            raise InputError(f"{word!r} is no option of pretrain; fields of a recipe look like --training.rows 64")
        if not joined:
            value = next(words, "")
        if not value:
            raise InputError(f"--{name} needs a value")
        changes[name] = value
    return changes


def _begun(wishes: _Wishes, corpus: "Corpus", folder: "RunFolder", team: "Team") -> tuple["Beginning", "Origins"]:
    """What the run begins with: what it began with before, if it goes on."""
    from elmore.model import load
    from elmore.pretraining.beginning import from_model, new_model, reading_words
    from elmore.pretraining.run_folder import Origins, changed, check_same_corpus, identity

    known = team.led(lambda: _known(wishes, folder))
    if known is not None:
        recipe, origins = known
        if origins.corpus:
            check_same_corpus(origins.corpus, corpus)
        if wishes.resumes:
            recipe = changed(recipe, wishes.changes)
        beginning = new_model(recipe, corpus, characters=origins.characters, init=origins.init)
    else:
        recipe = wishes.recipe()
        if wishes.words:
            recipe = reading_words(recipe, corpus)
        beginning = from_model(load(wishes.init), recipe, corpus) if wishes.init else new_model(recipe, corpus)
        origins = Origins(corpus=identity(corpus), init=beginning.init, characters=beginning.characters)
    command = shlex.join(["elmore", *sys.argv[1:]])
    return beginning, replace(origins, commands=(*origins.commands, command))


def _known(wishes: _Wishes, folder: "RunFolder") -> tuple["Recipe", "Origins"] | None:
    """The recipe and the origins of the run that lies in the folder and is to go on, or None for a new one."""
    from elmore.training.distributed import started_again

    if wishes.resumes and not folder.is_begun:
        raise InputError(f"{folder.path}: no run to go on with; start one with -o {folder.path}")
    if not wishes.resumes and folder.is_begun and not started_again():
        raise InputError(
            f"{folder.path}: holds a run already; go on with it by --resume {folder.path}, or choose another folder"
        )
    return folder.read() if folder.is_begun else None


@contextmanager
def _gentle_stop(run: "Run", verbosity: Verbosity) -> Iterator[None]:
    """At the first Ctrl-C have the run save and end; at the second it ends as it is."""

    def ask(*_: object) -> None:
        signal.signal(signal.SIGINT, usual)
        run.stop()
        verbosity.info("stopping, after saving; Ctrl-C again stops at once")

    usual = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def _failure_told(verbosity: Verbosity, go_on: str) -> Iterator[None]:
    """What ends a run that has begun leaves its checkpoints, so say how to go on."""
    try:
        yield
    except ElmoreError:
        verbosity.info(f"the last checkpoint is kept; when this is mended, go on with: {go_on}")
        raise


@contextmanager
def _interruption_told(verbosity: Verbosity, folder: "RunFolder", go_on: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        verbosity.info(f"stopped; go on with: {go_on}" if folder.is_begun else "stopped; nothing was written")
        raise click.exceptions.Exit(130) from None


def _plot(folder: "RunFolder", verbosity: Verbosity) -> None:
    from elmore.training.log import plot_log

    try:
        plot_log(folder.log, folder.picture)
    except MissingExtra as error:
        verbosity.info(str(error))
