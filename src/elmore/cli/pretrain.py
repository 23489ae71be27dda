"""`elmore pretrain`: from a prepared corpus to a biLM."""

import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from elmore.cli.command import FILE, argument, option, verb
from elmore.cli.model_options import chosen_device, complete_model, device_option
from elmore.cli.verbosity import Verbosity
from elmore.defaults import DEFAULT_RECIPE
from elmore.errors import ElmoreError, InputError

if TYPE_CHECKING:
    from elmore.corpus.corpus import Corpus
    from elmore.pretraining.events import Event
    from elmore.training.graceful_stop import StoppableEvents

OFTEN, SHAPE = "How often", "What is trained"
_AT_LEAST_1 = click.IntRange(min=1)


def complete_recipe(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The recipes inside whose names begin so; where there is none, files."""
    from elmore.recipe import recipe_names

    names = [name for name in recipe_names() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


# Fields of a recipe may follow, as --training.batch_size 64; the verb checks them itself.
@verb(allow_extra_args=True, ignore_unknown_options=True)
@argument("prepared", type=FILE, metavar="PREPARED", help="A folder that `elmore prepare` wrote.")
@option("--output", "-o", type=FILE, metavar="RUN", help="A new folder for the run.")
@option("--resume", type=FILE, metavar="RUN", help="Go on with a run that was stopped.")
@option(
    "--recipe",
    metavar="NAME|FILE",
    shell_complete=complete_recipe,
    show_default=DEFAULT_RECIPE,
    panel=SHAPE,
    help="tiny, small, medium, original; or a TOML file.",
)
@option("--init", metavar="MODEL", shell_complete=complete_model, panel=SHAPE, help="Fine-tune this model.")
@option("--words", is_flag=True, panel=SHAPE, help="Read words by a table, not their characters.")
@option("--steps", type=int, metavar="N", panel=SHAPE, help="Steps to make, instead of epochs.")
@option("--epochs", type=float, metavar="N", panel=SHAPE, help="How often to read the corpus.")
@option("--seed", type=int, metavar="N", panel=SHAPE, help="For all that is random.")
# No defaults here: a run that goes on keeps what it had, and a new one has those of RunSettings.
@option("--log-every", type=_AT_LEAST_1, metavar="N", panel=OFTEN, help="Steps between two lines of the log [50].")
@option("--checkpoint-every", type=_AT_LEAST_1, metavar="N", panel=OFTEN, help="Steps between two checkpoints [1000].")
@option(
    "--evaluate-every",
    type=click.IntRange(min=0),
    metavar="N",
    panel=OFTEN,
    help="Steps between evaluations; 0: each epoch [0].",
)
@option("--keep", type=_AT_LEAST_1, metavar="N", panel=OFTEN, help="Checkpoints to keep [2].")
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
    log_every: int | None,
    checkpoint_every: int | None,
    evaluate_every: int | None,
    keep: int | None,
    tensorboard: bool,
    hdf5: bool,
    device: str | None,
) -> None:
    """Train a biLM on PREPARED.

    Any field of a recipe can be set: --training.batch_size 64 --model.cell_dim 512.
    """
    if (output is None) == (resume is None):
        raise InputError("give either -o RUN for a new run, or --resume RUN for one that was stopped")
    changes = _changes(context.args)
    for name, value in (("training.steps", steps), ("training.epochs", epochs), ("training.seed", seed)):
        if value is not None:
            changes[name] = str(value)
    options = _RunOptions(recipe=recipe, init=init, words=words, changes=changes, resumes=resume is not None)
    options.check()

    folder = output or resume or Path()
    go_on = f"elmore pretrain {shlex.quote(str(prepared))} --resume {shlex.quote(str(folder))}"
    with _interruption_told(verbosity, folder, go_on):
        from elmore.corpus.corpus import Corpus
        from elmore.pretraining.pretrain import pretrain as events_of
        from elmore.training.distributed import world_from_environment

        quiet = verbosity.quiet or not world_from_environment().is_rank_zero
        settings = {
            "log_every": log_every,
            "checkpoint_every": checkpoint_every,
            "evaluate_every": evaluate_every,
            "keep": keep,
            "hdf5": hdf5 or None,
            "tensorboard": tensorboard or None,
        }
        corpus = Corpus.open(prepared)
        events = events_of(
            corpus,
            folder,
            options.changes if resume is not None else options.asked(corpus),
            init=init,
            resume=resume is not None,
            settings={name: value for name, value in settings.items() if value is not None},
            device=chosen_device(device, replace(verbosity, quiet=quiet)),
            command=shlex.join(["elmore", *sys.argv[1:]]),
        )
        _show(events, go_on, quiet=quiet)


def _show(events: "StoppableEvents[Event]", go_on: str, *, quiet: bool) -> None:
    """Train, and leave with 130 if the user stopped it."""
    from elmore.training.display import training_display
    from elmore.training.events import Started, Stopped
    from elmore.training.graceful_stop import graceful_stop

    begun = stopped = False
    with training_display(quiet=quiet) as display:
        try:
            with graceful_stop(events, display.say):
                for event in events:
                    begun, stopped = begun or isinstance(event, Started), isinstance(event, Stopped)
                    display.show(f"{event}; go on with: {go_on}" if stopped else event)
        except ElmoreError:
            if begun:
                display.say(f"the last checkpoint is kept; when this is mended, go on with: {go_on}")
            raise
    if stopped:
        raise click.exceptions.Exit(130)


@dataclass(frozen=True, kw_only=True)
class _RunOptions:
    """What the command line says of the model and its training."""

    recipe: str | None
    init: str | None
    words: bool
    changes: Mapping[str, str]
    resumes: bool

    def check(self) -> None:
        if self.resumes and (self.recipe or self.init or self.words):
            raise InputError("a run that goes on keeps its recipe; leave out --recipe, --init and --words")
        if self.init and (self.words or any(name.startswith("model.") for name in self.changes)):
            raise InputError("the shape comes with the model of --init; leave out --words and --model.…")

    def asked(self, corpus: "Corpus") -> "Mapping[str, object]":
        """The recipe to begin from, and the fields that the user named."""
        if not self.words:
            return {"base": self.recipe, **self.changes}
        from elmore.pretraining.initial_model import with_word_table
        from elmore.pretraining.recipe import Recipe
        from elmore.recipe import override, read_recipe

        recipe = override(read_recipe(self.recipe or DEFAULT_RECIPE, Recipe), self.changes)
        # The shape is what it is now; of all else the trainer is to know what was asked for by name.
        named = {name: value for name, value in self.changes.items() if not name.startswith("model.")}
        return {"base": with_word_table(recipe, corpus), **named}


def _changes(arguments: list[str]) -> dict[str, str]:
    """`--training.batch_size 64 --model.cell_dim=512` as a dictionary."""
    changes: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, joined, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or "." not in name:
            raise InputError(
                f"{word!r} is no option of pretrain; fields of a recipe look like --training.batch_size 64"
            )
        if not joined:
            value = next(words, "")
        if not value:
            raise InputError(f"--{name} needs a value")
        changes[name] = value
    return changes


@contextmanager
def _interruption_told(verbosity: Verbosity, folder: Path, go_on: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        verbosity.info(
            f"stopped; go on with: {go_on}" if (folder / "recipe.json").exists() else "stopped; nothing was written"
        )
        raise click.exceptions.Exit(130) from None
