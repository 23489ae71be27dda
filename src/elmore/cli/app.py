"""The program `elmore`: its verbs, its global flags, and how it ends."""

import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated

import typer

from elmore.cli.convert import convert
from elmore.cli.embed import embed
from elmore.cli.info import info
from elmore.cli.perplexity import perplexity
from elmore.cli.prepare import prepare
from elmore.cli.pretrain import pretrain
from elmore.cli.speaking import Quiet, Speech, Verbose
from elmore.cli.substitutes import substitutes
from elmore.cli.surprisal import surprisal
from elmore.errors import ElmoreError
from elmore.version import __version__

app = typer.Typer(
    name="elmore",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (embed, info, convert, prepare, perplexity, surprisal, substitutes):
    app.command()(verb)
# Fields of a recipe may follow, as --training.rows 64; the verb checks them itself.
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(pretrain)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"elmore {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", "-V", help="Print the version.", metavar="", callback=_print_version, is_eager=True)
]


@app.callback()
def elmore(context: typer.Context, version: Version = False, quiet: Quiet = False, verbose: Verbose = False) -> None:
    """ELMo: deep contextualized word vectors, from any model, the same every time."""
    context.obj = Speech(quiet=quiet, verbose=verbose)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit: 0 when done, 1 after an error told in one line, 2 for wrong usage, 130 when stopped."""
    arguments = sys.argv[1:] if arguments is None else arguments
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app(args=list(arguments), prog_name="elmore")
        except ElmoreError as error:
            if not {"-v", "--verbose"}.isdisjoint(arguments):
                traceback.print_exc()
            print(f"elmore: {error}", file=sys.stderr)
            sys.exit(1)
        except BrokenPipeError:
            # Whoever read our output has had enough, `head` for instance; nothing is wrong.
            sys.stderr.close()
            sys.exit(141)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"elmore: warning: {message}", file=sys.stderr)
