"""Options of the commands that train or use task models, and the display and end of a training run."""

import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from elmore.cli.command import (
    ARGUMENTS,
    COMPUTING,
    FILE,
    Decorator,
    argument,
    option,
    options_record,
    split_recipe_fields,
)
from elmore.cli.options import complete_model, complete_names
from elmore.cli.output import Verbosity
from elmore.errors import ElmoreError
from elmore.training.run_folder import RunSettings

if TYPE_CHECKING:
    from elmore.training.run import Run

E = TypeVar("E")
F = TypeVar("F", str, Path)

RUN_FILES = ("recipe.json", "ensemble.json")  # a run and an ensemble contain one of them
SCHEDULE, SHAPE, DATA = "Logging and checkpoints", "Model and schedule", "Data"


def _complete_task(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from elmore.tasks.core.registry import TASKS

    return [CompletionItem(name, help=task.summary) for name, task in TASKS.items() if name.startswith(incomplete)]


def _complete_task_model(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from elmore.tasks.core.model_folder import shipped_names

    return complete_names(list(shipped_names()), incomplete, otherwise="dir")


task_argument = argument(
    "task",
    metavar="TASK",
    shell_complete=_complete_task,
    help="ner, pos, sentiment, classify, wsd, wic, entailment, squad, srl, coref, or module:OBJECT of your task.",
)
train_option = option(
    "--train", type=FILE, multiple=True, required=True, metavar="FILE", panel=DATA, help="Training examples."
)
dev_option = option(
    "--dev", type=FILE, multiple=True, required=True, metavar="FILE", panel=DATA, help="Examples for model selection."
)
task_recipe_option = option(
    "--recipe", type=click.Path(), metavar="NAME|FILE", help="A TOML file instead of the task's own recipe."
)
bilm_option = option("--elmo", metavar="MODEL", shell_complete=complete_model, help="The biLM. Default: elmore-en.")
cache_option = option(
    "--cache",
    type=FILE,
    metavar="FOLDER",
    panel=COMPUTING,
    help="Store ELMo's layers here, for other training runs.",
)
# Of a trained model: `elmore predict MODEL --elmo BILM`.
trained_model_argument = argument(
    "model",
    metavar="MODEL...",
    shell_complete=_complete_task_model,
    help="A folder that `elmore train` wrote, or pos, the shipped tagger; several models form an ensemble.",
)
trained_task_option = option(
    "--task", metavar="MODULE:OBJECT", help="The Task of a model whose task is not one of Elmore's."
)
trained_bilm_option = option(
    "--elmo", metavar="MODEL", shell_complete=complete_model, help="Its biLM, if that has moved."
)


def models_and_files(model: str, others: Sequence[F]) -> tuple[list[str | Path], tuple[F, ...]]:
    """Separate task models from files: the first argument is a model, and so are those after it up to the first file.

    A folder with a task model is never data.
    """
    from elmore.tasks.core.model_folder import is_task_model

    further: list[F] = list(takewhile(lambda other: is_task_model(Path(other)), others))
    return [model, *further], tuple(others[len(further) :])


def recipe_option(help: str, *, default: str) -> Decorator:  # noqa: A002  # as options have it
    """The recipe from which a training run starts."""
    return option(
        "--recipe", metavar="NAME|FILE", shell_complete=_complete_recipe, show_default=default, panel=SHAPE, help=help
    )


def _complete_recipe(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from elmore.pretraining.recipe import Recipe
    from elmore.recipe import recipe_names

    return complete_names(recipe_names(Recipe), incomplete)


@dataclass(frozen=True, kw_only=True)
class SettingsOptions:
    """The settings of a run that the command line names."""

    log_every: int | None
    checkpoint_every: int | None
    evaluate_every: int | None
    keep: int | None
    tensorboard: bool

    def named(self) -> dict[str, Any]:
        """The settings that the user named; a resumed run has its own values of the others."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}


def _setting(name: str, help: str) -> Decorator:  # noqa: A002  # as options have it
    # The default is only shown, because a resumed run has its own values.
    default = getattr(RunSettings, name.removeprefix("--").replace("-", "_"))
    least = click.IntRange(min=min(default, 1))
    return option(name, type=least, metavar="N", show_default=str(default), panel=SCHEDULE, help=help)


settings_options = options_record(
    "settings",
    SettingsOptions,
    [
        _setting("--log-every", "Steps between two lines of the log."),
        _setting("--checkpoint-every", "Steps between two checkpoints."),
        _setting("--evaluate-every", "Steps between evaluations; 0: each epoch."),
        _setting("--keep", "Number of checkpoints to store."),
        option("--tensorboard", is_flag=True, panel=SCHEDULE, help="Also log for TensorBoard."),
    ],
)


def resume_command(context: click.Context, *, keep: Collection[str], more: Sequence[object]) -> str:
    """The command that resumes a run: this command with the parameters named in `keep`, and with `more` words.

    >>> @click.command()
    ... @click.option("--device")
    ... @click.option("--seed")
    ... def train(**options): ...
    >>> context = click.Context(train, info_name="train")
    >>> context.meta[ARGUMENTS] = ["--seed", "3", "--device", "cpu", "--training.epochs", "5"]
    >>> resume_command(context, keep=["device"], more=["--resume"])
    'elmore train --device cpu --resume'
    """
    from elmore.sources.urls import without_credentials

    arguments, _ = split_recipe_fields(list(context.meta[ARGUMENTS]))
    values, _, order = context.command.make_parser(context).parse_args(arguments)
    words = ["elmore", str(context.info_name)]
    # Arguments first, in the order of the help.
    for parameter in sorted(dict.fromkeys(order), key=lambda parameter: isinstance(parameter, click.Option)):
        if parameter.name not in keep:
            continue
        value = values[parameter.name]
        name = [] if isinstance(parameter, click.Argument) else [max(parameter.opts, key=len)]
        for word in value if isinstance(value, list | tuple) else [value]:
            words += [*name, without_credentials(str(word))]
    return shlex.join([*words, *map(str, more)])


def show_training(run: "Run[E]", resume: str, *, quiet: bool) -> None:
    """Train and print the events. Exit with 130 if the user stopped the run; `resume` is the command to continue."""
    from elmore.cli.training_display import graceful_stop, training_display
    from elmore.training.events import Started, Stopped

    is_started = is_stopped = False
    with training_display(quiet=quiet) as display:
        try:
            with graceful_stop(run, display.print_line):
                for event in run:
                    is_started, is_stopped = is_started or isinstance(event, Started), isinstance(event, Stopped)
                    display.show(f"{event}; to resume it: {resume}" if is_stopped else event)
        except ElmoreError:
            if is_started:
                display.print_line(f"the last checkpoint is saved; to resume the run after a correction: {resume}")
            raise
    if is_stopped:
        raise click.exceptions.Exit(130)


@contextmanager
def interruption_reported(verbosity: Verbosity, folder: Path, resume: str) -> Iterator[None]:
    """Report Ctrl-C or SIGTERM before or after the steps of a training run. `show_training` does during the steps."""
    try:
        yield
    except KeyboardInterrupt:
        if any((folder / name).exists() for name in RUN_FILES):
            message = f"stopped; to resume it: {resume}"
        elif folder.is_dir() and any(folder.iterdir()):
            message = "stopped; to resume it, give the same command"
        else:
            message = "stopped; nothing was written"
        verbosity.info(message)
        raise click.exceptions.Exit(130) from None
