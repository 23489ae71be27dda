"""Options of the commands that train or use task models, and the display and end of a training run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from elmore.cli.command import COMPUTING, FILE, Decorator, argument, option, options_record
from elmore.cli.options import complete_model, complete_names
from elmore.cli.output import Verbosity
from elmore.errors import ElmoreError
from elmore.training.settings import RunSettings

if TYPE_CHECKING:
    from elmore.training.graceful_stop import StoppableEvents

E = TypeVar("E")
F = TypeVar("F", str, Path)

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
    help="ner, pos, sentiment, classify, wsd, wic, entailment, squad, srl or coref.",
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


def show_training(events: "StoppableEvents[E]", resume_command: str, *, quiet: bool) -> None:
    """Run a training and print its events. Exit with 130 if the user stopped it."""
    from elmore.training.display import training_display
    from elmore.training.events import Started, Stopped
    from elmore.training.graceful_stop import graceful_stop

    is_started = is_stopped = False
    with training_display(quiet=quiet) as display:
        try:
            with graceful_stop(events, display.say):
                for event in events:
                    is_started, is_stopped = is_started or isinstance(event, Started), isinstance(event, Stopped)
                    display.show(f"{event}; to resume it: {resume_command}" if is_stopped else event)
        except ElmoreError:
            if is_started:
                display.say(f"the last checkpoint is saved; to resume the run after a correction: {resume_command}")
            raise
    if is_stopped:
        raise click.exceptions.Exit(130)


@contextmanager
def interruption_reported(verbosity: Verbosity, folder: Path, resume_command: str) -> Iterator[None]:
    """Report Ctrl-C before or after the steps of a training run. During the steps, `show_training` handles it."""
    try:
        yield
    except KeyboardInterrupt:
        is_saved = (folder / "recipe.json").exists()
        verbosity.info(f"stopped; to resume it: {resume_command}" if is_saved else "stopped; nothing was written")
        raise click.exceptions.Exit(130) from None
