"""How a verb is declared: options in panels, arguments with a line of help, and the flags that all verbs have.

    @verb()
    @argument("source", metavar="FILE", help="What to read.")
    @option("--tokenized", is_flag=True, panel=INPUT, help="Words are separated by blanks.")
    def count(verbosity: Verbosity, source: str, tokenized: bool) -> None: ...

Several options that belong together become one record, declared once and shared: see `options_record`.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from elmore.cli.threads import set_command_threads
from elmore.cli.verbosity import Verbosity
from elmore.errors import requires_torch

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]

# Types of values; by them a shell knows where to offer the names of files.
FILE = click.Path(path_type=Path)
SOURCE = click.Path(allow_dash=True)  # a file to read, or - for standard input
ADDRESS = click.Path()  # of a file here or on the web

# The panels that several verbs have.
INPUT = "Input"
OUTPUT = "Output"
COMPUTING = "Computing"
MODEL_IN_PIECES = "A model in pieces"


class VerbCommand(click.Command):
    """A command whose help has a section for each panel, and which hands `verbosity` to its function."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params += [
            Option(["--quiet", "-q"], is_flag=True, help="Say nothing but errors."),
            Option(["--verbose", "-v"], is_flag=True, help="Say more, and show tracebacks."),
        ]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage, what the verb does, and its parameters panel by panel."""
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
        """Join the flags given before the verb with its own, and run it."""
        given: Verbosity = ctx.obj or Verbosity()
        verbosity = given.joined(quiet=ctx.params.pop("quiet"), verbose=ctx.params.pop("verbose"))
        verbosity.configure()
        ctx.params["verbosity"] = verbosity
        with requires_torch(f"elmore {ctx.command.name}"):
            return super().invoke(ctx)


class Option(click.Option):
    """An option that belongs to a panel of its verb's help."""

    def __init__(self, *arguments: Any, panel: str = "Options", **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.panel = panel


class Argument(click.Argument):
    """An argument with a line of help, which click before 8.5 has no place for."""

    panel = "Arguments"

    def __init__(self, *arguments: Any, help: str, **settings: Any) -> None:  # noqa: A002 (as options have it)
        super().__init__(*arguments, **settings)
        self.help = help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.metavar or self.human_readable_name, self.help or ""


def verb(**context_settings: Any) -> Callable[[Function], click.Command]:
    """Make a function a verb of the program."""
    return click.command(cls=VerbCommand, context_settings={"show_default": True, **context_settings})


def option(*declarations: str, panel: str = "Options", **settings: Any) -> Decorator:
    """As `click.option`, with the panel it is listed in."""
    return click.option(*declarations, cls=Option, panel=panel, **settings)


def argument(*declarations: str, metavar: str, help: str, **settings: Any) -> Decorator:  # noqa: A002 (as above)
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
force_option = option("--force", is_flag=True, panel=OUTPUT, help="Replace what is there already.")


def options_record(name: str, record: type, options: Sequence[Decorator]) -> Decorator:
    """Declare several options at once; the function gets them as one `record`, under `name`.

    The names of the options are those of the record's fields.
    """
    names = [field.name for field in fields(record)]

    def decorate(function: Function) -> Function:
        @wraps(function)
        def gather(*arguments: Any, **values: Any) -> Any:
            own = {field: values.pop(field) for field in names if field in values}
            return function(*arguments, **values, **{name: record(**own)})

        declared: Function = gather
        for add in reversed(options):
            declared = add(declared)
        return declared

    return decorate
