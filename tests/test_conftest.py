"""What the test run itself promises."""

from types import SimpleNamespace

import conftest


class Terminal:
    def __init__(self, *reasons: str) -> None:
        self.stats = {"skipped": [SimpleNamespace(longrepr=("a.py", 1, f"Skipped: {reason}")) for reason in reasons]}
        self.said: list[str] = []

    def section(self, title: str, **_: object) -> None:
        self.said.append(title)

    def line(self, text: str) -> None:
        self.said.append(text)


def test_a_run_without_the_reference_data_says_so_loudly() -> None:
    terminal = Terminal(conftest.NO_REFERENCE_DATA, "no GPU here", conftest.NO_REFERENCE_DATA)
    conftest.pytest_terminal_summary(terminal)
    assert terminal.said[0] == "NO REFERENCE DATA"
    assert terminal.said[1].startswith("2 tests did not run")


def test_a_run_with_the_reference_data_says_nothing() -> None:
    terminal = Terminal("no GPU here")
    conftest.pytest_terminal_summary(terminal)
    assert terminal.said == []
