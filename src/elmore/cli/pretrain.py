"""`elmore pretrain`: train a biLM on a prepared corpus."""

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmore.cli.command import FILE, argument, command, option, threads_option
from elmore.cli.options import chosen_device, complete_model, device_option
from elmore.cli.output import Verbosity
from elmore.cli.training_options import (
    SHAPE,
    SettingsOptions,
    interruption_reported,
    recipe_option,
    resume_command,
    settings_options,
    show_training,
)
from elmore.defaults import DEFAULT_RECIPE
from elmore.errors import InputError

if TYPE_CHECKING:
    from elmore.corpus.corpus import Corpus


@command(recipe_fields=True)
@argument("prepared", type=FILE, metavar="PREPARED", help="A folder that `elmore prepare` wrote.")
@option("--output", "-o", type=FILE, metavar="RUN", help="A new folder for the run.")
@option("--resume", type=FILE, metavar="RUN", help="Resume an interrupted run.")
@recipe_option("tiny, small, medium, original; or a TOML file.", default=DEFAULT_RECIPE)
@option("--init", metavar="MODEL", shell_complete=complete_model, panel=SHAPE, help="Fine-tune this model.")
@option("--words", is_flag=True, panel=SHAPE, help="Use a table of words instead of characters.")
@option("--steps", type=click.IntRange(min=1), metavar="N", panel=SHAPE, help="Number of steps, instead of epochs.")
@option("--epochs", type=float, metavar="N", panel=SHAPE, help="Passes over the corpus.")
@option("--seed", type=int, metavar="N", panel=SHAPE, help="Seed of all random numbers.")
@settings_options
@option("--hdf5", is_flag=True, help="Also write options.json and weights.hdf5.")
@device_option
@threads_option
@click.pass_context
def pretrain(
    context: click.Context,
    verbosity: Verbosity,
    settings: SettingsOptions,
    *,
    changes: dict[str, str],
    prepared: Path,
    output: Path | None,
    resume: Path | None,
    recipe: str | None,
    init: str | None,
    words: bool,
    steps: int | None,
    epochs: float | None,
    seed: int | None,
    hdf5: bool,
    device: str | None,
) -> None:
    """Train a biLM on PREPARED.

    Any field of the recipe can be set: --training.batch_size 64 --model.cell_dim 512.
    """
    if (output is None) == (resume is None):
        raise InputError("give either -o RUN for a new run, or --resume RUN for an interrupted run")
    for name, value in (("training.steps", steps), ("training.epochs", epochs), ("training.seed", seed)):
        if value is not None:
            changes[name] = str(value)
    options = _RunOptions(recipe=recipe, init=init, words=words, changes=changes, resumes=resume is not None)
    options.check()

    folder = output or resume or Path()
    to_resume = resume_command(context, keep=("prepared", "device", "threads"), more=("--resume", folder))
    with interruption_reported(verbosity, folder, to_resume):
        from elmore.corpus.corpus import Corpus
        from elmore.pretraining.distributed import world_from_environment
        from elmore.pretraining.pretrain import pretrain as start_run
        from elmore.sources.urls import without_credentials

        quiet = verbosity.quiet or not world_from_environment().is_rank_zero
        corpus = Corpus.open(prepared)
        run = start_run(
            corpus,
            folder,
            options.changes if resume is not None else options.recipe_fields(corpus),
            init=init,
            resume=resume is not None,
            settings=settings.named() | ({"hdf5": True} if hdf5 else {}),
            device=chosen_device(device, replace(verbosity, quiet=quiet)),
            command=shlex.join(["elmore", *map(without_credentials, sys.argv[1:])]),
        )
        show_training(run, to_resume, quiet=quiet)


@dataclass(frozen=True, kw_only=True)
class _RunOptions:
    """The options of the model and its training."""

    recipe: str | None
    init: str | None
    words: bool
    changes: Mapping[str, str]
    resumes: bool

    def check(self) -> None:
        if self.resumes and (self.recipe or self.init or self.words):
            raise InputError("a resumed run has its recipe; omit --recipe, --init and --words")
        if self.init and (self.words or any(name.startswith("model.") for name in self.changes)):
            raise InputError("the model of --init determines the shape; omit --words and --model.…")

    def recipe_fields(self, corpus: "Corpus") -> "Mapping[str, object]":
        """The base recipe, and the fields that the user named."""
        if not self.words:
            return {"base": self.recipe, **self.changes}
        from elmore.pretraining.initial_model import with_word_table
        from elmore.pretraining.recipe import Recipe
        from elmore.recipe import apply_overrides, read_recipe

        recipe = apply_overrides(read_recipe(self.recipe or DEFAULT_RECIPE, Recipe), self.changes)
        # The shape is complete. Of the other fields, the trainer receives only those that the user named.
        named = {name: value for name, value in self.changes.items() if not name.startswith("model.")}
        return {"base": with_word_table(recipe, corpus), **named}
