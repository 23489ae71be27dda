"""The progress bar: what it shows, in how many columns, and when it is silent."""

import io
import re
import sys

import pytest
from rich.console import Console

from elmore.progress import Progress, progress_bar

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """A terminal of 80 columns, as far as the bar can tell."""
    out = io.StringIO()
    monkeypatch.setattr(
        "rich.console.Console", lambda **_: Console(file=out, width=80, force_terminal=True, color_system=None)
    )
    return out


def lines(terminal: io.StringIO) -> list[str]:
    return [line for line in re.split(r"[\r\n]+", CONTROL.sub("", terminal.getvalue())) if line.strip()]


@pytest.mark.parametrize("known", [{}, {"total": 4}, {"total_bytes": 400}])
def test_it_fits_80_columns_with_a_billion_tokens_to_go(terminal: io.StringIO, known, monkeypatch) -> None:
    clock = iter(range(0, 10**9, 12_345))
    monkeypatch.setattr("elmore.progress.monotonic", lambda: float(next(clock)))
    with progress_bar("embedding", show=True, **known) as progress:
        for _ in progress.track(range(3)):
            progress.read(100)
            progress.advance(sentences=1, tokens=333_333_333)
    assert max(map(len, lines(terminal))) <= 80
    assert "999,999,999 tokens " in lines(terminal)[-1]
    assert "tokens/s " in lines(terminal)[-1]
    # What does not fit is cut off at the end.
    assert re.search(r"\d:\d\d:\d\d( left)?$", lines(terminal)[-1].rstrip())


def test_of_a_known_number_of_sentences_the_share_is_told(terminal: io.StringIO) -> None:
    with progress_bar("embedding", show=True, total=4) as progress:
        progress.advance(sentences=3, tokens=30)
    assert " 75% " in lines(terminal)[-1]


def test_of_known_bytes_what_is_done_counts_and_not_what_was_read_ahead(terminal: io.StringIO) -> None:
    def reading():
        for number in range(4):
            progress.read(100)
            yield number

    with progress_bar("scoring", show=True, total_bytes=400) as progress:
        assert list(progress.track(reading())) == [0, 1, 2, 3]
        progress.advance(sentences=1, tokens=1)
        progress.advance(sentences=1, tokens=1)
    assert " 50% " in lines(terminal)[-1]


def test_bytes_that_nobody_tracks_are_done_when_they_are_read(terminal: io.StringIO) -> None:
    with progress_bar("preparing", show=True, total_bytes=400) as progress:
        progress.read(300)
        progress.advance(sentences=1, tokens=1)
    assert " 75% " in lines(terminal)[-1]


def test_time_left_is_told_where_the_size_is_known_and_time_taken_elsewhere(terminal: io.StringIO) -> None:
    with progress_bar("scoring", show=True, total_bytes=400) as progress:
        for _ in range(3):
            progress.read(100)
            progress.advance(sentences=1, tokens=1)
    assert re.search(r"\d:\d\d:\d\d left$", lines(terminal)[-1])
    with progress_bar("scoring", show=True) as progress:
        progress.advance(sentences=1, tokens=1)
    assert re.search(r"s \d:\d\d:\d\d$", lines(terminal)[-1].rstrip())


@pytest.mark.parametrize("show", [False, None])
def test_it_is_silent_when_asked_or_when_nobody_looks(capsys: pytest.CaptureFixture[str], show: bool | None) -> None:
    with progress_bar("scoring", show=show) as progress:
        progress.read(1)
        progress.advance(sentences=1, tokens=1)
        assert list(progress.track("ab")) == ["a", "b"]
    assert type(progress) is Progress
    assert "rich.progress" not in sys.modules or capsys.readouterr() == ("", "")
