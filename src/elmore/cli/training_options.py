"""What every verb that trains shares: recipes and their fields, settings of the run, how it is shown and stopped."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from elmore.cli.command import Decorator, option, options_record
from elmore.cli.verbosity import Verbosity
from elmore.errors import ElmoreError, InputError
from elmore.training.settings import RunSettings

if TYPE_CHECKING:
    from elmore.training.graceful_stop import StoppableEvents

E = TypeVar("E")

OFTEN, SHAPE = "How often", "What is trained"


def recipe_option(help: str, *, default: str) -> Decorator:  # noqa: A002 (as options have it)
    """Which recipe a training begins from."""
    return option(
        "--recipe", metavar="NAME|FILE", shell_complete=complete_recipe, show_default=default, panel=SHAPE, help=help
    )


def complete_recipe(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The recipes inside whose names begin so; where there is none, files."""
    from elmore.pretraining.recipe import Recipe
    from elmore.recipe import recipe_names

    names = [name for name in recipe_names(Recipe) if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


@dataclass(frozen=True, kw_only=True)
class SettingsChoice:
    """The settings of a run that the command line names."""

    log_every: int | None
    checkpoint_every: int | None
    evaluate_every: int | None
    keep: int | None
    tensorboard: bool

    def given(self) -> dict[str, Any]:
        """Those that were given; a run that goes on keeps the others."""
        return {name: value for name, value in asdict(self).items() if value is not None and value is not False}


def _setting(name: str, help: str) -> Decorator:  # noqa: A002 (as options have it)
    # The default is only shown: a run that goes on keeps what it had.
    default = getattr(RunSettings, name.removeprefix("--").replace("-", "_"))
    least = click.IntRange(min=min(default, 1))
    return option(name, type=least, metavar="N", show_default=str(default), panel=OFTEN, help=help)


settings_options = options_record(
    "settings",
    SettingsChoice,
    [
        _setting("--log-every", "Steps between two lines of the log."),
        _setting("--checkpoint-every", "Steps between two checkpoints."),
        _setting("--evaluate-every", "Steps between evaluations; 0: each epoch."),
        _setting("--keep", "Checkpoints to keep."),
        option("--tensorboard", is_flag=True, help="Also log for TensorBoard."),
    ],
)


def recipe_changes(context: click.Context) -> dict[str, str]:
    """What follows a verb's own options, as in `--training.batch_size 64 --model.cell_dim=512`, for `override`."""
    changes: dict[str, str] = {}
    words = iter(context.args)
    for word in words:
        name, joined, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or "." not in name:
            raise InputError(
                f"{word!r} is no option of {context.command.name}; "
                "fields of a recipe look like --training.batch_size 64"
            )
        if not joined:
            value = next(words, "")
        if not value:
            raise InputError(f"--{name} needs a value")
        changes[name] = value
    return changes


def show_training(events: "StoppableEvents[E]", go_on: str, *, quiet: bool) -> None:
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


@contextmanager
def interruption_told(verbosity: Verbosity, folder: Path, go_on: str) -> Iterator[None]:
    """Say how to go on where Ctrl-C stops a training before or after its steps, which `show_training` ends gently."""
    try:
        yield
    except KeyboardInterrupt:
        verbosity.info(
            f"stopped; go on with: {go_on}" if (folder / "recipe.json").exists() else "stopped; nothing was written"
        )
        raise click.exceptions.Exit(130) from None
