"""`elmore train`: train a task model on labeled examples."""

from pathlib import Path

import click

from elmore.cli.command import FILE, command, option, threads_option
from elmore.cli.options import chosen_device, device_option
from elmore.cli.output import Verbosity
from elmore.cli.training_options import (
    bilm_option,
    cache_option,
    dev_option,
    interruption_reported,
    resume_command,
    show_training,
    task_argument,
    task_recipe_option,
    train_option,
)
from elmore.display import pluralize
from elmore.errors import InputError


@command(recipe_fields=True)
@task_argument
@train_option
@dev_option
@option("--output", "-o", type=FILE, required=True, metavar="FOLDER", help="A new folder for the run and the model.")
@option("--resume", is_flag=True, help="Resume the run in FOLDER.")
@option("--seeds", type=click.IntRange(min=2), metavar="N", help="Train an ensemble of N models with different seeds.")
@task_recipe_option
@bilm_option
@option("--no-elmo", is_flag=True, help="Train the same model without ELMo.")
@option("--with-elmo", is_flag=True, help="Store the biLM in the model's folder.")
@cache_option
@device_option
@threads_option
@click.pass_context
def train(
    context: click.Context,
    verbosity: Verbosity,
    *,
    changes: dict[str, str],
    task: str,
    train: tuple[Path, ...],
    dev: tuple[Path, ...],
    output: Path,
    resume: bool,
    seeds: int | None,
    recipe: str | None,
    elmo: str | None,
    no_elmo: bool,
    with_elmo: bool,
    cache: Path | None,
    device: str | None,
) -> None:
    """Train a model for TASK, with ELMo or without.

    Any field of the recipe can be set: --training.seed 3 --elmo.layers last --words.vectors glove.txt.
    """
    if elmo and no_elmo:
        raise InputError("--elmo and --no-elmo contradict each other; give one of them")
    if elmo:
        changes["elmo.model"] = elmo
    if no_elmo:
        changes["elmo.where"] = "none"
    if with_elmo:
        changes["elmo.inside"] = "true"
    to_keep = ("task", "train", "dev", "output", "cache", "device", "threads")
    to_resume = resume_command(context, keep=to_keep, more=("--resume",))
    with interruption_reported(verbosity, output, to_resume):
        from elmore.tasks.core.ensemble_run import train_ensemble
        from elmore.tasks.core.model_folder import ensemble_members
        from elmore.tasks.core.training_run import train as train_one

        # A resumed run has its recipe. Options that are given again are compared with it.
        named_recipe = {"base": recipe, **changes} if recipe or changes or not resume else None
        resolved_device = chosen_device(device, verbosity)
        members = ensemble_members(output) if resume else []
        if resume and seeds and seeds != len(members):
            raise InputError(f"{output}: this run has {pluralize(len(members), 'member')}, not {seeds}; omit --seeds")
        if seeds or members:
            run = train_ensemble(
                task,
                output,
                train=train,
                dev=dev,
                seeds=None if resume else seeds,
                recipe=named_recipe,
                cache=cache,
                device=resolved_device,
            )
        else:
            run = train_one(
                task,
                output,
                train=train,
                dev=dev,
                recipe=named_recipe,
                resume=resume,
                cache=cache,
                device=resolved_device,
            )
        show_training(run, to_resume, quiet=verbosity.quiet)
