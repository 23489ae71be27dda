"""`elmore train`: from labelled examples to a tagger or a classifier."""

import shlex
from pathlib import Path

import click

from elmore.cli.command import FILE, option, threads_option, verb
from elmore.cli.model_options import chosen_device, device_option
from elmore.cli.task_options import (
    bilm_option,
    cache_option,
    dev_option,
    task_argument,
    task_recipe_option,
    train_option,
)
from elmore.cli.training_options import interruption_told, recipe_changes, show_training
from elmore.cli.verbosity import Verbosity
from elmore.display import pluralize
from elmore.errors import InputError


# Fields of a recipe may follow, as --training.seed 3; the verb checks them itself.
@verb(allow_extra_args=True, ignore_unknown_options=True)
@task_argument
@train_option
@dev_option
@option("--output", "-o", type=FILE, required=True, metavar="FOLDER", help="A new folder for run and model.")
@option("--resume", is_flag=True, help="Go on with the run in FOLDER.")
@option("--seeds", type=click.IntRange(min=2), metavar="N", help="An ensemble: N models, from one seed each.")
@task_recipe_option
@bilm_option
@option("--no-elmo", is_flag=True, help="The same model without ELMo.")
@option("--with-elmo", is_flag=True, help="Put the biLM inside the model's folder.")
@cache_option
@device_option
@threads_option
@click.pass_context
def train(
    context: click.Context,
    verbosity: Verbosity,
    *,
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

    Any field of its recipe can be set: --training.seed 3 --elmo.layers last --words.vectors glove.txt.
    """
    if elmo and no_elmo:
        raise InputError("--elmo and --no-elmo were both given; take one")
    changes = recipe_changes(context)
    if elmo:
        changes["elmo.model"] = elmo
    if no_elmo:
        changes["elmo.where"] = "none"
    if with_elmo:
        changes["elmo.inside"] = "true"
    files = " ".join(
        f"--{name} {shlex.quote(str(path))}" for name, paths in (("train", train), ("dev", dev)) for path in paths
    )
    go_on = f"elmore train {task} {files} -o {shlex.quote(str(output))} --resume"
    with interruption_told(verbosity, output, go_on):
        from elmore.tasks.core.ensemble_run import train_ensemble
        from elmore.tasks.core.model_folder import ensemble_members
        from elmore.tasks.core.training_run import train as train_one

        # A run that goes on has its recipe; what is said of it again is compared.
        whole = {"base": recipe, **changes} if recipe or changes or not resume else None
        on = chosen_device(device, verbosity)
        begun = ensemble_members(output) if resume else []
        if resume and seeds and seeds != len(begun):
            raise InputError(
                f"{output}: the run there has {pluralize(len(begun), 'member')}, not {seeds}; leave out --seeds"
            )
        if seeds or begun:
            events = train_ensemble(
                task,
                output,
                train=train,
                dev=dev,
                seeds=None if resume else seeds,
                recipe=whole,
                cache=cache,
                device=on,
            )
        else:
            events = train_one(task, output, train=train, dev=dev, recipe=whole, resume=resume, cache=cache, device=on)
        show_training(events, go_on, quiet=verbosity.quiet)
