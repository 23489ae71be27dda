"""The options by which verbs about tasks are told what to train on, with which biLM."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

import click
from click.shell_completion import CompletionItem

from elmore.cli.command import COMPUTING, FILE, argument, option
from elmore.cli.model_options import complete_model

DATA = "Data"
F = TypeVar("F", str, Path)


def complete_task(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tasks whose names begin so."""
    from elmore.tasks.core.registry import TASKS

    return [CompletionItem(name, help=task.summary) for name, task in TASKS.items() if name.startswith(incomplete)]


task_argument = argument(
    "task",
    metavar="TASK",
    shell_complete=complete_task,
    help="ner, pos, sentiment, classify, wsd, wic, entailment, squad, srl or coref.",
)
train_option = option(
    "--train", type=FILE, multiple=True, required=True, metavar="FILE", panel=DATA, help="Examples to learn from."
)
dev_option = option(
    "--dev", type=FILE, multiple=True, required=True, metavar="FILE", panel=DATA, help="Examples to choose by."
)
task_recipe_option = option(
    "--recipe", type=click.Path(), metavar="NAME|FILE", help="A TOML file instead of the task's own recipe."
)
bilm_option = option("--elmo", metavar="MODEL", shell_complete=complete_model, help="The biLM; without one, elmore-en.")
cache_option = option(
    "--cache", type=FILE, metavar="FOLDER", panel=COMPUTING, help="Keep ELMo's vectors here, for other trainings."
)


def complete_task_model(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The task models inside whose names begin so; where there is none, folders."""
    from elmore.tasks.core.model_folder import shipped_names

    names = [name for name in shipped_names() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="dir")]


# Of a trained model: `elmore predict MODEL --elmo BILM`.
trained_model_argument = argument(
    "model",
    metavar="MODEL...",
    shell_complete=complete_task_model,
    help="A folder that `elmore train` wrote, or pos, the tagger inside; several decide together.",
)


def models_and_files(model: str, others: Sequence[F]) -> tuple[list[str | Path], tuple[F, ...]]:
    """The first argument of a verb, and of those that follow all up to the first that is no task model; the rest.

    Data never is a folder with a task model in it.
    """
    from elmore.tasks.core.model_folder import is_task_model

    further: list[F] = list(takewhile(lambda other: is_task_model(Path(other)), others))
    return [model, *further], tuple(others[len(further) :])


trained_bilm_option = option(
    "--elmo", metavar="MODEL", shell_complete=complete_model, help="Its biLM, if it lies elsewhere now."
)
