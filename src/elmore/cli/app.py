"""The program `elmore`: its verbs, its global flags, and how it ends."""

import io
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn, TextIO

import click

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
    _show_any_character(sys.stdout)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        sys.exit(_exit_code(arguments))


def _exit_code(arguments: list[str]) -> int:
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except ElmoreError as error:
        if not {"-v", "--verbose"}.isdisjoint(arguments):
            traceback.print_exc()
        print(f"elmore: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read our output has had enough, `head` for instance; nothing is wrong.
        _discard(sys.stdout)
        _discard(sys.stderr)
        return 141
    except OSError as error:
        where = "standard output" if error.filename is None else error.filename
        print(f"elmore: {where}: {error.strerror}", file=sys.stderr)
        _discard(sys.stdout)
        return 1
    return code


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
        print("elmore: stopped", file=sys.stderr)
        return 130
    return 0


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"elmore: warning: {message}", file=sys.stderr)


def _show_any_character(stream: TextIO) -> None:
    """What a console has no character for is shown as its code, as stderr does anyway."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _discard(stream: TextIO) -> None:
    """Let what is still to be written go nowhere, or Python would complain of it when it ends."""
    with suppress(OSError):  # a stream that stands for no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
