"""`elmore pretrain`: from a prepared corpus to a biLM."""

import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.speaking import Quiet, Speech, Verbose
from elmore.cli.training_display import training_display
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


def pretrain(
    context: typer.Context,
    prepared: Annotated[Path, typer.Argument(metavar="PREPARED", help="A folder that `elmore prepare` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="RUN", help="A new folder for the run.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="tiny, small, medium or original; or a TOML file.",
            show_default=DEFAULT_RECIPE,
            rich_help_panel=SHAPE,
        ),
    ] = None,
    init: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Fine-tune this model.", rich_help_panel=SHAPE)
    ] = None,
    words: Annotated[
        bool, typer.Option("--words", help="Read words by a table, not their characters.", rich_help_panel=SHAPE)
    ] = False,
    steps: Annotated[
        int | None, typer.Option(help="Updates to make, instead of epochs.", rich_help_panel=SHAPE)
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="How often to read the corpus.", rich_help_panel=SHAPE)] = None,
    seed: Annotated[int | None, typer.Option(help="For all that is random.", rich_help_panel=SHAPE)] = None,
    log_every: Annotated[
        int, typer.Option(min=1, help="Updates between two lines of the log.", rich_help_panel=OFTEN)
    ] = 50,
    checkpoint_every: Annotated[
        int, typer.Option(min=1, help="Updates between two checkpoints.", rich_help_panel=OFTEN)
    ] = 1000,
    evaluate_every: Annotated[
        int, typer.Option(min=0, help="Updates between evaluations; 0: each epoch.", rich_help_panel=OFTEN)
    ] = 0,
    keep: Annotated[int, typer.Option(min=1, help="Checkpoints to keep.", rich_help_panel=OFTEN)] = 2,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also log for TensorBoard.")] = False,
    hdf5: Annotated[bool, typer.Option("--hdf5", help="Also write options.json and weights.hdf5.")] = False,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …; by default a GPU if there is one.")] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a biLM on PREPARED. Any field of a recipe can be set: --training.rows 64 --model.cell_dim 512."""
    speech = Speech.of(context, quiet=quiet, verbose=verbose)
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
            speech = Speech.of(context, quiet=True, verbose=False)
        finished = _train(prepared, folder, wishes, habits, device=chosen, team=team, speech=speech)
    if not finished:
        raise typer.Exit(130)


def _train(
    prepared: Path,
    folder: "RunFolder",
    wishes: "_Wishes",
    habits: "Habits",
    *,
    device: "torch.device",
    team: "Team",
    speech: Speech,
) -> bool:
    """Train, and say whether that came to its end; False if the user stopped it."""
    from elmore.corpus.corpus import Corpus
    from elmore.pretraining.run import Run

    go_on = f"elmore pretrain {shlex.quote(str(prepared))} --resume {shlex.quote(str(folder.path))}"
    with _interruption_told(speech, folder, go_on), training_display(speech) as display:
        corpus = Corpus.open(prepared)
        beginning, origins = _begun(wishes, corpus, folder, team)
        run = Run(corpus, folder, beginning, habits=habits, device=device, team=team, commands=origins.commands)
        team.led(lambda: folder.write(beginning.recipe, origins))
        with _gentle_stop(run, speech), _failure_told(speech, go_on):
            for event in run.events():
                display.show(event)
    finished = run.done == run.updates
    if not finished:
        speech.say(f"stopped after update {run.done:,}, and saved; go on with: {go_on}")
    elif team.leads:
        _plot(folder, speech)
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
def _gentle_stop(run: "Run", speech: Speech) -> Iterator[None]:
    """At the first Ctrl-C have the run save and end; at the second it ends as it is."""

    def ask(*_: object) -> None:
        signal.signal(signal.SIGINT, usual)
        run.stop()
        speech.say("stopping, after saving; Ctrl-C again stops at once")

    usual = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def _failure_told(speech: Speech, go_on: str) -> Iterator[None]:
    """What ends a run that has begun leaves its checkpoints, so say how to go on."""
    try:
        yield
    except ElmoreError:
        speech.say(f"the last checkpoint is kept; when this is mended, go on with: {go_on}")
        raise


@contextmanager
def _interruption_told(speech: Speech, folder: "RunFolder", go_on: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        speech.say(f"stopped; go on with: {go_on}" if folder.is_begun else "stopped; nothing was written")
        raise typer.Exit(130) from None


def _plot(folder: "RunFolder", speech: Speech) -> None:
    from elmore.training.log import plot_log

    try:
        plot_log(folder.log, folder.picture)
    except MissingExtra as error:
        speech.say(str(error))
