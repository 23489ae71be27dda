"""Programs that wait for their turn, so that several can be compared while a machine does other things too.

A program says `{"ready": true}` once it is up, after whatever else it has to tell. Then each line on its standard input
is a turn, answered by a JSON line on its standard output.
"""

import json
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any, Self


class WaitingProgram:
    """A program that is up and waits between its turns."""

    def __init__(self, command: Sequence[str]) -> None:
        # What it says besides its answers is of use only if it fails.
        self._said: Any = tempfile.TemporaryFile("w+")  # noqa: SIM115  # open as long as the program is up
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True
        )
        self.versions: dict[str, Any] = {}

    def __enter__(self) -> Self:
        answer = self._answer()
        while "ready" not in answer:
            self.versions |= answer
            answer = self._answer()
        return self

    def take(self, turn: object) -> dict[str, Any]:
        """Have it do something, and wait for what it says of that."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{turn}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._said.seek(0)
            raise SystemExit(f"{self._process.args!r} ended early:\n{self._said.read()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        self._said.close()
