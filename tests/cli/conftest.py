"""The program, run inside the test's own process."""

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from elmore.cli import main


class Ended(NamedTuple):
    """How a run of the program ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def elmore(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Ended]]:
    """`elmore("info", "tiny-random")` gives the exit code and what was printed."""

    def run(*arguments: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return Ended(end.value.code or 0, *capsys.readouterr())

    level = logging.getLogger("elmore").level
    yield run
    logging.getLogger("elmore").setLevel(level)  # -q raises it
