"""What the test run itself promises."""

from types import SimpleNamespace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import conftest
from reference.strategies import patiently


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


def test_every_example_has_the_same_random_numbers() -> None:
    drawn = []

    @given(st.integers())
    def draw(_: int) -> None:
        drawn.append(torch.rand(1).item())

    torch.manual_seed(5)
    draw()
    assert len(drawn) > 1
    assert len(set(drawn)) == 1


def test_settings_of_single_tests_are_made_after_the_profile_was_chosen() -> None:
    assert patiently.derandomize == settings.default.derandomize
