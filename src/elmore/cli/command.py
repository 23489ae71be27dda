"""How a command is declared: options in panels, arguments with a line of help, and the flags of all commands.

    @command()
    @argument("source", metavar="FILE", help="Text to read.")
    @option("--tokenized", is_flag=True, panel=INPUT, help="Words are separated by spaces.")
    def count(verbosity: Verbosity, source: str, tokenized: bool) -> None: ...

Options that belong together become one record: see `options_record`. A command with `recipe_fields=True` also accepts
`--training.batch_size 64` anywhere among its arguments, and receives these fields as `changes`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from elmore.cli.output import Verbosity
from elmore.cli.threads import set_command_threads
from elmore.errors import requires_torch

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]

# Types of values. They decide where a shell completes file names.
FILE = click.Path(path_type=Path)
SOURCE = click.Path(allow_dash=True)  # a file to read, or - for standard input
ADDRESS = click.Path()  # of a file here or on the web

ARGUMENTS = "elmore.arguments"  # the words of a command in the `meta` of its context, for `resume_command`

# Panels that several commands have.
INPUT = "Input"
OUTPUT = "Output"
COMPUTING = "Computing"
MODEL_FILES = "Model files"


class Command(click.Command):
    """A command whose help has a section for each panel, and which passes `verbosity` to its function."""

    def __init__(self, *arguments: Any, recipe_fields: bool = False, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.recipe_fields = recipe_fields
        self.params += [
            Option(["--quiet", "-q"], is_flag=True, help="Print errors only."),
            Option(["--verbose", "-v"], is_flag=True, help="Print more, and tracebacks of errors."),
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse recipe fields first, then the declared options and arguments."""
        ctx.meta[ARGUMENTS] = list(args)
        args, changes = split_recipe_fields(args) if self.recipe_fields else (args, {})
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._unknown_option(error.option_name, ctx) from None
        if self.recipe_fields:
            ctx.params["changes"] = changes
        return rest

    def _unknown_option(self, name: str, ctx: click.Context) -> click.UsageError:
        """An error with the most similar option. click suggests all that are somewhat similar, by alphabet."""
        from difflib import get_close_matches

        options = [each for parameter in self.get_params(ctx) for each in (*parameter.opts, *parameter.secondary_opts)]
        similar = get_close_matches(name, options, n=1)
        parts = [f"No such option {name!r}.", *(f"Did you mean {option!r}?" for option in similar)]
        if self.recipe_fields:
            parts.append("Fields of the recipe have two names: --training.batch_size 64.")
        return click.UsageError(" ".join(parts), ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, description, and the parameters panel by panel."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments and options, panel by panel."""
        panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                panels.setdefault(getattr(parameter, "panel", "Options"), []).append(record)
        for title, records in panels.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: click.Context) -> Any:
        """Join the flags from before and after the command's name, and run the command."""
        before: Verbosity = ctx.obj or Verbosity()
        verbosity = before.joined(quiet=ctx.params.pop("quiet"), verbose=ctx.params.pop("verbose"))
        verbosity.configure()
        ctx.params["verbosity"] = verbosity
        with requires_torch(f"elmore {ctx.command.name}"):
            return super().invoke(ctx)


_RECIPE_FIELD = re.compile(r"--([\w-]+(?:\.[\w-]+)+)(?:=(.*))?", re.DOTALL)


def split_recipe_fields(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Separate fields of a recipe, wherever they are, from the other arguments.

    >>> split_recipe_fields(["--training.seed", "3", "ner", "--elmo.layers=last", "--dev", "dev.txt"])
    (['ner', '--dev', 'dev.txt'], {'training.seed': '3', 'elmo.layers': 'last'})
    """
    others: list[str] = []
    changes: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if word == "--":
            others += [word, *words]
        elif (field := _RECIPE_FIELD.fullmatch(word)) is None:
            others.append(word)
        else:
            value = next(words, "") if field[2] is None else field[2]
            if not value or (field[2] is None and value.startswith("--")):
                raise click.BadOptionUsage(f"--{field[1]}", f"Option '--{field[1]}' requires an argument.")
            changes[field[1]] = value
    return others, changes


class Option(click.Option):
    """An option that belongs to a panel of its command's help."""

    def __init__(self, *arguments: Any, panel: str = "Options", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.panel = panel


class Argument(click.Argument):
    """An argument with a line of help; click before version 8.5 has none."""

    panel = "Arguments"

    def __init__(self, *arguments: Any, help: str, **settings: Any) -> None:  # noqa: A002  # as options have it
        super().__init__(*arguments, **settings)
        self.help = help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.metavar or self.human_readable_name, self.help or ""


def command(*, recipe_fields: bool = False) -> Callable[[Function], click.Command]:
    """Make a function a command of the program."""
    return click.command(cls=Command, recipe_fields=recipe_fields, context_settings={"show_default": True})


def option(*declarations: str, panel: str = "Options", **settings: Any) -> Decorator:
    """As `click.option`, with the panel that lists it."""
    return click.option(*declarations, cls=Option, panel=panel, **settings)


def argument(*declarations: str, metavar: str, help: str, **settings: Any) -> Decorator:  # noqa: A002  # as above
    """As `click.argument`, with a line of help."""
    return click.argument(*declarations, cls=Argument, metavar=metavar, help=help, **settings)


def _set_threads(context: click.Context, parameter: click.Parameter, threads: int | None) -> None:
    if threads is not None and not context.resilient_parsing:
        set_command_threads(threads)


threads_option = option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    show_default="the CPUs that the process may use",
    panel=COMPUTING,
    expose_value=False,
    callback=_set_threads,
    help="Number of threads.",
)
force_option = option("--force", is_flag=True, panel=OUTPUT, help="Replace an existing file or folder.")


def options_record(name: str, record: type, options: Sequence[Decorator]) -> Decorator:
    """Declare several options at once. The function receives them as one `record`, under `name`.

    Each option has the name of a field of the record.
    """
    names = [field.name for field in fields(record)]

    def decorate(function: Function) -> Function:
        @wraps(function)
        def gather(*arguments: Any, **values: Any) -> Any:
            chosen = {field: values.pop(field) for field in names if field in values}
            return function(*arguments, **values, **{name: record(**chosen)})

        declared: Function = gather
        for add in reversed(options):
            declared = add(declared)
        return declared

    return decorate
