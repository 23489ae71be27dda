"""`elmore completion`: the script that lets a shell complete the program's verbs, options and names."""

import click
from click.shell_completion import get_completion_class

from elmore.cli.command import argument, verb
from elmore.cli.verbosity import Verbosity

SHELLS = ("bash", "zsh", "fish")


@verb()
@argument("shell", type=click.Choice(SHELLS), metavar="SHELL", help="bash, zsh or fish.")
def completion(verbosity: Verbosity, shell: str) -> None:
    """Print the script by which a shell completes verbs, options and names.

    \b
    In bash:  eval "$(elmore completion bash)"
    In zsh:   eval "$(elmore completion zsh)"
    In fish:  elmore completion fish | source

    In the shell's start-up file, it works in every new shell.
    """  # noqa: D301 (click wants the character itself, to keep lines apart)
    # Imported here, not above: the program imports its verbs.
    from elmore.cli.app import COMPLETION_VARIABLE, program

    script = get_completion_class(shell)
    assert script is not None
    print(script(program, {}, "elmore", COMPLETION_VARIABLE).source())
