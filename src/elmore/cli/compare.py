"""`elmore compare`: task models with and without ELMo, in the variants of the paper's tables."""

import shlex
from pathlib import Path
from typing import Any

import click

from elmore.cli.command import ARGUMENTS, COMPUTING, FILE, OUTPUT, command, option, threads_option
from elmore.cli.options import chosen_device, device_option
from elmore.cli.output import Verbosity
from elmore.cli.training_options import (
    DATA,
    bilm_option,
    cache_option,
    dev_option,
    task_argument,
    task_recipe_option,
    train_option,
)

VARIANTS = "Variants"


class ListOf(click.ParamType[list[Any]]):
    """Values separated by commas."""

    def __init__(self, kind: type, name: str) -> None:
        self._kind, self.name = kind, name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[Any]:
        try:
            return [self._kind(part) for part in str(value).split(",")]
        except ValueError:
            self.fail(f"{value!r} is not a list such as 0.001,1", param, ctx)


@command(recipe_fields=True)
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
    help="A test set; several are possible.",
)
@option(
    "--output",
    "-o",
    type=FILE,
    required=True,
    metavar="FOLDER",
    panel=OUTPUT,
    help="A new folder, or one to resume.",
)
@option("--keep-models", is_flag=True, panel=OUTPUT, help="Also store the trained models.")
@task_recipe_option
@bilm_option
@option(
    "--seeds", type=click.IntRange(min=1), default=3, metavar="N", panel=VARIANTS, help="Training runs per variant."
)
@option(
    "--ensemble",
    is_flag=True,
    panel=VARIANTS,
    help="Also score the ensemble of each variant's models, and store it.",
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
    "--where", type=ListOf(str, "positions"), metavar="LIST", panel=VARIANTS, help="As in input,output,both (table 3)."
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
    help="Training runs at once, each in a process; 0: in this process.",
)
@cache_option
@device_option
@threads_option
@click.pass_context
def compare(
    context: click.Context,
    verbosity: Verbosity,
    *,
    changes: dict[str, str],
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
    """Compare models for TASK with and without ELMo.

    To resume an interrupted comparison, run the same command again. Any field of the recipe can be set for all
    variants, as in --words.vectors glove.txt --training.epochs 30.
    """
    if elmo:
        changes["elmo.model"] = elmo
    from elmore.cli.comparison_display import comparison_display
    from elmore.cli.training_display import graceful_stop
    from elmore.sources.urls import without_credentials
    from elmore.tasks.comparison.compare import compare as events_of
    from elmore.tasks.comparison.events import Interrupted, Reported
    from elmore.tasks.comparison.plan import paper_variants

    resume_command = shlex.join(["elmore", "compare", *map(without_credentials, context.meta[ARGUMENTS])])
    variants = paper_variants(
        layers=[int(layer) if layer.isdecimal() else layer for layer in layers or ()],
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
            graceful_stop(events, display.print_line),
        ):
            for event in events:
                display.show(event)
                if isinstance(event, Interrupted):
                    display.print_line(f"to resume it: {resume_command}")
                if isinstance(event, Reported):
                    table, code = event.comparison.to_text(), 1 if event.failed else 0
    except KeyboardInterrupt:
        verbosity.info(f"stopped at once; to resume it: {resume_command}")
    if code != 130:
        print(table, end="")
    if code:
        raise click.exceptions.Exit(code)
