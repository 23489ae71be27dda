"""The program `elmore`: its verbs, its global flags, and how it ends."""

import io
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, TextIO

import click

from elmore.cli.standard_streams import OutputError, discard, say, standard_streams
from elmore.cli.threads import prepare_threads
from elmore.cli.verbosity import Verbosity
from elmore.errors import ElmoreError
from elmore.version import __version__

COMPLETION_VARIABLE = "_ELMORE_COMPLETE"

# The first line of each verb's help, so that `elmore --help` needs to import none of them.
VERBS = {
    "embed": "Embed every word of FILE into a file that `elmore.open_vectors` reads.",
    "info": "Tell what a model is: sizes, format, checksum, tokeniser, where it came from.",
    "convert": "Write MODEL in another format, or with another card.",
    "export": "Write MODEL as an ONNX file, for Java, C# or a browser.",
    "prepare": "Split, tokenise and number TEXT, for `elmore pretrain`.",
    "pretrain": "Train a biLM on PREPARED.",
    "perplexity": "Tell how well a model predicts TEXT, by the full softmax.",
    "surprisal": "Write how surprising every word of TEXT is, in bits.",
    "substitutes": "Tell which words a model would put in a place of a sentence.",
    "train": "Train a model for TASK, with ELMo or without.",
    "evaluate": "Score MODEL on FILE, as its task is scored.",
    "predict": "Label the text of FILE, line by line.",
    "compare": "Train TASK's model with ELMo and without, and tell what ELMo is worth.",
    "completion": "Print the script by which a shell completes verbs, options and names.",
}


class Program(click.Group):
    """Verbs that are imported when they are called for, each from the file of its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, as the help lists them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, or None where there is none of that name."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(import_module(f"elmore.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error for an unknown name suggests a similar one."""
        if args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            similar = get_close_matches(args[0], VERBS, n=3)
            advice = f" Did you mean {' or '.join(similar)}?" if similar else ""
            ctx.fail(f"No such command {args[0]!r}.{advice}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each verb, importing none."""
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", "-V", message="elmore %(version)s", help="Print the version.")
@click.option("--quiet", "-q", is_flag=True, help="Say nothing but errors.")
@click.option("--verbose", "-v", is_flag=True, help="Say more, and show tracebacks.")
@click.pass_context
def program(context: click.Context, *, quiet: bool, verbose: bool) -> None:
    """ELMo: deep contextualized word vectors, from any model, the same every time."""
    context.obj = Verbosity(quiet=quiet, verbose=verbose)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program and exit.

    The code is 0 when done, 1 after an error told in one line, 2 for wrong usage, 130 when stopped by Ctrl-C, and 141
    when whoever read the output had enough.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    prepare_threads()
    _encode_any_character(sys.stdout)
    with warnings.catch_warnings(), standard_streams():
        warnings.showwarning = _show_warning
        sys.exit(_exit_code(arguments))


def _exit_code(arguments: list[str]) -> int:
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except OutputError as error:
        say(f"elmore: {error}")
        discard(sys.stdout)
        return 1
    except BrokenPipeError:
        # The reader of the output has stopped, `head` for instance; this is no error.
        discard(sys.stdout)
        discard(sys.stderr)
        return 141
    except KeyboardInterrupt:
        # While output waited for its reader.
        discard(sys.stdout)
        say("elmore: stopped")
        return 130
    except (ElmoreError, OSError) as error:
        if not {"-v", "--verbose"}.isdisjoint(arguments):
            traceback.print_exc()
        say(f"elmore: {_message(error)}")
        return 1
    return code


def _message(error: Exception) -> str:
    """The error's own sentence; for an OSError that no other module has translated, its file if it names one."""
    if isinstance(error, ElmoreError) or not isinstance(error, OSError):
        return str(error)
    from elmore.files.os_errors import reason

    return f"{error.filename}: {reason(error)}" if error.filename else f"{reason(error)}; --verbose shows where"


def _run(arguments: list[str]) -> int:
    if asked := os.environ.get(COMPLETION_VARIABLE):  # by the script that `elmore completion` prints
        from click.shell_completion import shell_complete

        return shell_complete(program, {}, "elmore", COMPLETION_VARIABLE, asked)
    try:
        # What click's own `main` does, which has other codes and words for how a program ends.
        with program.make_context("elmore", list(arguments)) as context:
            program.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("elmore: stopped")
        return 130
    return 0


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    say(f"elmore: warning: {message}")


def _encode_any_character(stream: TextIO) -> None:
    """Write UTF-8 to files and pipes. A terminal has its own encoding; it shows other characters as escapes."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding=stream.encoding if stream.isatty() else "utf-8", errors="backslashreplace")
