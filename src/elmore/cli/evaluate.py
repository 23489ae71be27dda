"""`elmore evaluate`: the official score of a task model on labeled files."""

import json
from pathlib import Path

from elmore.cli.command import FILE, argument, command, option, threads_option
from elmore.cli.options import chosen_device, compute_option, device_option
from elmore.cli.output import Verbosity
from elmore.cli.training_options import (
    models_and_files,
    trained_bilm_option,
    trained_model_argument,
    trained_task_option,
)
from elmore.defaults import ComputeName
from elmore.errors import InputError


@command()
@trained_model_argument
@argument("files", type=FILE, nargs=-1, required=True, metavar="FILE...", help="Labeled examples, as for training.")
@trained_task_option
@trained_bilm_option
@option("--json", "as_json", is_flag=True, help="Print JSON.")
@device_option
@threads_option
@compute_option
def evaluate(
    verbosity: Verbosity,
    *,
    model: str,
    files: tuple[Path, ...],
    task: str | None,
    elmo: str | None,
    as_json: bool,
    device: str | None,
    compute: ComputeName,
) -> None:
    """Compute the task's official score of MODEL on FILE."""
    from elmore.tasks.core.trained_model import load

    models, data = models_and_files(model, files)
    if not data:
        raise InputError("FILE is missing; give labeled examples after the models")
    score = load(models, task=task, elmo=elmo, device=chosen_device(device, verbosity), compute=compute).evaluate(data)
    for notice in score.notices:
        verbosity.info(notice)
    if as_json:
        print(json.dumps({"metric": score.metric, "value": score.value, **score.parts}, ensure_ascii=False))
    else:
        print(score.table)
        print(f"{score.metric} {score.value:.2f}")
