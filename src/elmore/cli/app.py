"""The program `elmore`: its commands, its global flags, and its exit codes."""

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import NoReturn

import click

from elmore.cli.output import OutputError, Verbosity, discard, say, standard_streams
from elmore.cli.threads import prepare_threads
from elmore.errors import ElmoreError
from elmore.version import __version__

COMPLETION_VARIABLE = "_ELMORE_COMPLETE"

# The first line of each command's help: `elmore --help` imports no command.
COMMANDS = {
    "embed": "Write a vector for each word of FILE.",
    "info": "Show a model's size, format, checksum, tokenizer and source.",
    "convert": "Write MODEL in another format, or with another card.",
    "export": "Write MODEL as an ONNX file, for Java, C# or a browser.",
    "prepare": "Prepare a corpus for `elmore pretrain`.",
    "pretrain": "Train a biLM on PREPARED.",
    "perplexity": "Compute the perplexity of TEXT.",
    "surprisal": "Write the surprisal of each word, in bits.",
    "substitutes": "Predict the words that fit one position of SENTENCE.",
    "train": "Train a model for TASK, with ELMo or without.",
    "evaluate": "Compute the task's official score of MODEL on FILE.",
    "predict": "Label the text of FILE.",
    "compare": "Compare models for TASK with and without ELMo.",
    "completion": "Print a shell completion script.",
}


class Program(click.Group):
    """Commands that are imported when they are called, each from the file of its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, or None."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"elmore.cli.{cmd_name}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error for an unknown name suggests a similar one."""
        if args[0] not in COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            similar = get_close_matches(args[0], COMMANDS, n=3)
            advice = f" Did you mean {' or '.join(similar)}?" if similar else ""
            ctx.fail(f"No such command {args[0]!r}.{advice}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each command, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", "-V", message="elmore %(version)s", help="Print the version.")
@click.option("--quiet", "-q", is_flag=True, help="Print errors only.")
@click.option("--verbose", "-v", is_flag=True, help="Print more, and tracebacks of errors.")
@click.pass_context
def program(context: click.Context, *, quiet: bool, verbose: bool) -> None:
    """ELMo: deep contextualized word vectors, from any model, the same every time."""
    context.obj = Verbosity(quiet=quiet, verbose=verbose)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program and exit.

    The exit code is 0 after success, 1 after an error, 2 for wrong usage, 130 after Ctrl-C or SIGTERM, and 141 if the
    reader of the output has closed the pipe.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    prepare_threads()
    with warnings.catch_warnings(), standard_streams(), _sigterm_as_interrupt():
        warnings.showwarning = _show_warning
        sys.exit(_exit_code(arguments))


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM, so that long commands save and print how to continue."""
    process = os.getpid()

    def interrupt(*_: object) -> None:
        if os.getpid() == process:
            raise KeyboardInterrupt
        # A forked child ends as usual.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


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
    """The message of an error. An OSError that no other module has translated gets its file name, if it has one."""
    if isinstance(error, ElmoreError) or not isinstance(error, OSError):
        return str(error)
    from elmore.files.os_errors import reason

    return f"{error.filename}: {reason(error)}" if error.filename else f"{reason(error)}; --verbose shows where"


def _run(arguments: list[str]) -> int:
    if instruction := os.environ.get(COMPLETION_VARIABLE):  # set by the script that `elmore completion` prints
        from click.shell_completion import shell_complete

        return shell_complete(program, {}, "elmore", COMPLETION_VARIABLE, instruction)
    try:
        # As click's `main`, which has other exit codes and messages.
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
