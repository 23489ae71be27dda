"""`elmore completion`: a script that lets a shell complete commands, options and names."""

import click
from click.shell_completion import get_completion_class

from elmore.cli.command import argument, command
from elmore.cli.output import Verbosity

SHELLS = ("bash", "zsh", "fish")


@command()
@argument("shell", type=click.Choice(SHELLS), metavar="SHELL", help="bash, zsh or fish.")
def completion(verbosity: Verbosity, shell: str) -> None:
    """Print a shell completion script.

    It completes commands, options and names.

    \b
    In bash:  eval "$(elmore completion bash)"
    In zsh:   eval "$(elmore completion zsh)"
    In fish:  elmore completion fish | source

    To have it in each new shell, add this line to the shell's start-up file.
    """  # noqa: D301  # click keeps the lines apart by this character
    # Imported here, because the program imports its commands.
    from elmore.cli.app import COMPLETION_VARIABLE, program

    script = get_completion_class(shell)
    assert script is not None
    print(script(program, {}, "elmore", COMPLETION_VARIABLE).source())
