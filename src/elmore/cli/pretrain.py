"""`elmore pretrain`: from a prepared corpus to a biLM."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.speaking import Quiet, Speech, Verbose
from elmore.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from elmore.pretraining.events import Event, Started
    from elmore.recipe import Recipe

RECIPE_FILE = "recipe.json"


def pretrain(
    context: typer.Context,
    prepared: Annotated[Path, typer.Argument(metavar="PREPARED", help="A folder that `elmore prepare` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="RUN", help="A new folder for the run.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")] = None,
    size: Annotated[str | None, typer.Option(help="tiny, small, medium or original.")] = None,
    config: Annotated[str | None, typer.Option(metavar="RECIPE", help="A TOML file, or a recipe's name.")] = None,
    steps: Annotated[int | None, typer.Option(help="Updates to make, instead of epochs.")] = None,
    epochs: Annotated[float | None, typer.Option(help="How often to read the corpus.")] = None,
    seed: Annotated[int | None, typer.Option(help="For all that is random.")] = None,
    log_every: Annotated[int, typer.Option(help="Updates between two lines of the log.")] = 50,
    checkpoint_every: Annotated[int, typer.Option(help="Updates between two checkpoints.")] = 1000,
    evaluate_every: Annotated[int, typer.Option(help="Updates between evaluations; 0: each epoch.")] = 0,
    keep: Annotated[int, typer.Option(help="Checkpoints to keep.")] = 2,
    hdf5: Annotated[bool, typer.Option("--hdf5", help="Also write options.json and weights.hdf5.")] = False,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …; by default a GPU if there is one.")] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Train a biLM on PREPARED. Any field of a recipe can be set: --training.learning_rate 0.001 --model.cell_dim 512."""
    speech = Speech.of(context, quiet=quiet, verbose=verbose)
    folder = _run_folder(output, resume)
    changes = _changes(context.args)
    for name, value in (("training.updates", steps), ("training.epochs", epochs), ("training.seed", seed)):
        if value is not None:
            changes[name] = str(value)
    recipe = _recipe(size, config, changes, resume=resume)

    from elmore.pretraining.corpus import Corpus
    from elmore.pretraining.run import Habits, Run
    from elmore.training.distributed import joined_team, own_device
    from elmore.training.log import plot_log

    habits = Habits(
        log_every=log_every, checkpoint_every=checkpoint_every, evaluate_every=evaluate_every, keep=keep, hdf5=hdf5
    )
    chosen = own_device(device)
    with joined_team(chosen) as team:
        corpus = Corpus.open(prepared)
        if team.leads:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / RECIPE_FILE).write_text(json.dumps(recipe.to_dict(), indent=2) + "\n")
        command = shlex.join(["elmore", *sys.argv[1:]])
        run = Run(corpus, folder, recipe, habits=habits, device=chosen, team=team, command=command)
        for event in run.events():
            if team.leads:
                _tell(event, speech)
        if team.leads:
            try:
                plot_log(folder / "log.jsonl", folder / "loss.png")
            except MissingExtra as error:
                speech.say(str(error))


def _run_folder(output: Path | None, resume: Path | None) -> Path:
    if (output is None) == (resume is None):
        raise InputError("give either -o RUN for a new run, or --resume RUN for one that was stopped")
    if resume is not None:
        if not (resume / RECIPE_FILE).is_file():
            raise InputError(f"{resume}: no run to go on with; start one with -o {resume}")
        return resume
    assert output is not None
    if (output / RECIPE_FILE).exists():
        raise InputError(f"{output}: holds a run already; go on with it by --resume {output}, or choose another folder")
    return output


def _changes(arguments: list[str]) -> dict[str, str]:
    """`--training.rows 64 --model.cell_dim=512` as a dictionary."""
    changes: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, joined, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or "." not in name:
            raise InputError(f"{word!r} is no option of pretrain; fields of a recipe look like --training.rows 64")
        if not joined:
            value = next(words, "")
        if not value:
            raise InputError(f"--{name} needs a value")
        changes[name] = value
    return changes


def _recipe(size: str | None, config: str | None, changes: dict[str, str], *, resume: Path | None) -> "Recipe":
    from elmore.recipe import Recipe, overridden, read_recipe

    if resume is not None:
        if size or config:
            raise InputError("a run that goes on keeps its recipe; leave out --size and --config")
        return overridden(Recipe.from_dict(json.loads((resume / RECIPE_FILE).read_text())), changes)
    if size and config:
        recipe = overridden(read_recipe(config), {"size": size})
    else:
        recipe = read_recipe(config or size or "small")
    return overridden(recipe, changes)


def _tell(event: "Event", speech: Speech) -> None:
    from elmore.pretraining import events

    match event:
        case events.Started():
            speech.say(_beginning(event))
        case events.Logged(update, updates, epoch, speed, left):
            perplexities = " ".join(f"{2.718281828459045**loss:.1f}" for loss in update.losses)
            speech.say(
                f"update {update.number:,}/{updates:,}  epoch {epoch:.2f}  loss {update.loss:.4f}  "
                f"sampled perplexities {perplexities}  {speed:,.0f} tokens/s  {_duration(left)} left"
            )
        case events.Evaluated(number, held_out):
            each = " ".join(f"{perplexity:.2f}" for perplexity in held_out.perplexities)
            speech.say(f"update {number:,}  held-out perplexity (full softmax) {held_out.mean:.2f}  ({each})")
        case events.RolledBack(number, to):
            speech.say(f"update {number:,}: the loss is not finite; back to update {to:,}, leaving that window out")
        case events.Finished(model, _):
            speech.say(f"wrote {model}")


def _beginning(start: "Started") -> str:
    lines = [
        f"{start.tokens:,} tokens, {start.types:,} distinct words, {start.unknown_share:.1%} of tokens are <UNK>",
        f"{start.parameters:,} parameters, and {start.softmax_parameters:,} in the softmax",
        f"{start.updates:,} updates, {start.epochs:.2f} epochs; about {_duration(start.seconds)} on this machine",
    ]
    if start.done:
        lines.append(f"going on after update {start.done:,}")
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    """In words a person plans with.

    >>> _duration(75), _duration(7300)
    ('1 min 15 s', '2 h 1 min')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
