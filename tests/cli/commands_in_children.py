"""Run commands of `elmore`, each in a child of one process that has imported everything.

    python tests/cli/commands_in_children.py FOLDER < cases.json > results.json

A case is {"arguments": [...], "stdout": WHERE, "interrupt": true or false}. WHERE is "pipe", "full" (a device that is
always full), "unread" (a pipe whose reader has gone) or "file". With `interrupt`, the child sends itself SIGINT when
the command starts. A result has the exit code, stdout and stderr, also of the last flush.
"""

import json
import os
import signal
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from elmore.cli import main
from elmore.cli.output import Verbosity

for module in ("cli.evaluate", "cli.predict", "scoring.surprisal", "scoring.substitutes", "tasks.comparison.compare"):
    import_module(f"elmore.{module}")  # once for all children

SECONDS = 60  # after which a child is killed


def run(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The result of one case."""
    out, errors = folder / "out", folder / "errors"
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(stdout_of(case["stdout"], out), 1)
        if case.get("interrupt"):
            interrupt_at_start()
        # As Python decodes the bytes of a command line in this locale.
        sys.argv = ["elmore", *(os.fsdecode(word.encode()) for word in case["arguments"])]
        os._exit(code_of_main())
    _, status = os.waitpid(child, 0)
    is_stored = case["stdout"] in ("pipe", "file")
    return {
        "code": os.waitstatus_to_exitcode(status),
        "out": out.read_bytes().decode(errors="replace") if is_stored else "",
        "err": errors.read_bytes().decode(errors="replace"),
    }


def code_of_main() -> int:
    """The exit code of Python after `main`; what Python does in addition takes long where torch is imported."""
    code = 1
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:  # noqa: BLE001  # as Python does
        traceback.print_exc()
    try:
        sys.stdout.flush()
    except OSError as error:
        print(f"Exception ignored in: {sys.stdout!r}\n{error!r}", file=sys.stderr)
        code = 120
    return code


def stdout_of(where: str, file: Path) -> int:
    """The file descriptor that a case writes to."""
    if where == "full":
        return os.open("/dev/full", os.O_WRONLY)
    if where == "unread":
        reader, writer = os.pipe()
        os.close(reader)
        return writer
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def interrupt_at_start() -> None:
    """Send SIGINT when a command has read its options."""
    configure = Verbosity.configure

    def interrupted(self: Verbosity) -> None:
        configure(self)
        os.kill(os.getpid(), signal.SIGINT)

    Verbosity.configure = interrupted


if __name__ == "__main__":
    results = [run(case, Path(sys.argv[1])) for case in json.load(sys.stdin)]
    print(json.dumps(results))
