"""The program, run inside the test's own process."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from elmore.cli import main


class Ended(NamedTuple):
    """How a run of the program ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def elmore(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """`elmore("info", "tiny-random")` gives the exit code and what was printed."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return Ended(end.value.code or 0, *capsys.readouterr())

    return run
