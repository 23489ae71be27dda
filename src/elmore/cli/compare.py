"""`elmore compare`: what ELMo is worth to a task, by the paper's tables."""

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from elmore.cli.command import COMPUTING, FILE, OUTPUT, option, threads_option, verb
from elmore.cli.model_options import chosen_device, device_option
from elmore.cli.task_options import (
    DATA,
    bilm_option,
    cache_option,
    dev_option,
    task_argument,
    task_recipe_option,
    train_option,
)
from elmore.cli.training_options import recipe_changes
from elmore.cli.verbosity import Verbosity

VARIANTS = "Variants"


class ListOf(click.ParamType[list[Any]]):
    """Values with commas between them."""

    def __init__(self, kind: type, name: str) -> None:
        self._kind, self.name = kind, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        try:
            return [self._kind(part) for part in str(value).split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a list such as 0.001,1", param, ctx)


# Fields of a recipe may follow, as --training.epochs 30; the verb checks them itself.
@verb(allow_extra_args=True, ignore_unknown_options=True)
@task_argument
@train_option
@dev_option
@option(
    "--test",
    type=FILE,
    multiple=True,
    required=True,
    metavar="FILE",
    panel=DATA,
    help="A test set; several may be named.",
)
@option(
    "--output",
    "-o",
    type=FILE,
    required=True,
    metavar="FOLDER",
    panel=OUTPUT,
    help="A new folder, or one to go on with.",
)
@option("--keep-models", is_flag=True, panel=OUTPUT, help="Keep the trained models too, not their scores alone.")
@task_recipe_option
@bilm_option
@option(
    "--seeds", type=click.IntRange(min=1), default=3, metavar="N", panel=VARIANTS, help="Trainings of each variant."
)
@option(
    "--ensemble",
    is_flag=True,
    panel=VARIANTS,
    help="Score the models of all seeds of a variant together too, and keep them.",
)
@option(
    "--layers",
    type=ListOf(str, "layers"),
    metavar="LIST",
    panel=VARIANTS,
    help="As in all,last,average,0 (table 2 of the paper).",
)
@option(
    "--lambda",
    "penalties",
    type=ListOf(float, "numbers"),
    metavar="LIST",
    panel=VARIANTS,
    help="Penalties on the mix of all layers, as in 1,0.001.",
)
@option(
    "--where", type=ListOf(str, "places"), metavar="LIST", panel=VARIANTS, help="As in input,output,both (table 3)."
)
@option(
    "--fractions",
    type=ListOf(float, "numbers"),
    metavar="LIST",
    panel=VARIANTS,
    help="Of the training examples, as in 0.01,0.1 (figure 1).",
)
@option(
    "--jobs",
    type=click.IntRange(min=0),
    default=1,
    metavar="N",
    panel=COMPUTING,
    help="Trainings at once, in processes of their own; 0: in this one.",
)
@cache_option
@device_option
@threads_option
@click.pass_context
def compare(
    context: click.Context,
    verbosity: Verbosity,
    *,
    task: str,
    train: tuple[Path, ...],
    dev: tuple[Path, ...],
    test: tuple[Path, ...],
    output: Path,
    keep_models: bool,
    recipe: str | None,
    elmo: str | None,
    seeds: int,
    ensemble: bool,
    layers: list[str] | None,
    penalties: list[float] | None,
    where: list[str] | None,
    fractions: list[float] | None,
    jobs: int,
    cache: Path | None,
    device: str | None,
) -> None:
    """Train TASK's model with ELMo and without, and tell what ELMo is worth.

    The same command again goes on where it was stopped. Any field of the recipe can be set for all variants, as by
    --words.vectors glove.txt --training.epochs 30.
    """
    changes = recipe_changes(context)
    if elmo:
        changes["elmo.model"] = elmo
    from elmore.sources.urls import without_credentials
    from elmore.tasks.compare_models import compare as events_of
    from elmore.tasks.comparison.display import comparison_display
    from elmore.tasks.comparison.events import Interrupted, Reported
    from elmore.tasks.comparison.variants import paper_variants
    from elmore.training.graceful_stop import graceful_stop

    go_on = shlex.join(["elmore", *map(without_credentials, sys.argv[1:])])
    variants = paper_variants(
        layers=[int(one) if one.isdecimal() else one for one in layers or ()],
        penalties=penalties or (),
        where=where or (),
        fractions=fractions or (),
    )
    events = events_of(
        task,
        output,
        train=train,
        dev=dev,
        test=test,
        recipe={"base": recipe, **changes},
        variants=variants,
        seeds=seeds,
        jobs=jobs,
        keep_models=keep_models,
        ensembles=ensemble,
        cache=cache,
        device=chosen_device(device, verbosity),
    )
    code = 130
    try:
        with (
            comparison_display(quiet=verbosity.quiet, verbose=verbosity.verbose) as display,
            graceful_stop(events, display.say),
        ):
            for event in events:
                display.show(event)
                if isinstance(event, Interrupted):
                    display.say(f"go on with: {go_on}")
                if isinstance(event, Reported):
                    table, code = event.comparison.to_text(), 1 if event.failed else 0
    except KeyboardInterrupt:
        verbosity.info(f"stopped at once; go on with: {go_on}")
    if code != 130:
        print(table, end="")
    if code:
        raise click.exceptions.Exit(code)
