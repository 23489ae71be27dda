"""`make demo` installs the core; every other target adds the development tools in the same environment."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def commands(target: str, folder: Path) -> list[str]:
    """The commands that `make` would run for a target."""
    ended = subprocess.run(
        ["make", "--dry-run", target, f"VENV={folder}"],
        cwd=Path(__file__).resolve().parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ended.stdout.splitlines()


def installed(lines: list[str]) -> list[str]:
    return [line.split()[-1] for line in lines if re.search(r"pip install", line)]


def test_demo_installs_no_development_tools(tmp_path: Path) -> None:
    assert installed(commands("demo", tmp_path / "new")) == ["."]


@pytest.mark.parametrize("target", ["test", "test-all", "check", "format", "wheels"])
def test_development_targets_add_tools_to_same_environment(tmp_path: Path, target: str) -> None:
    lines = commands(target, tmp_path / "new")
    assert installed(lines) == [".", "'elmore[dev]'"]
    assert sum("-m venv" in line for line in lines) == 1


def test_finished_steps_are_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "core").touch()
    assert installed(commands("demo", tmp_path)) == []
    assert installed(commands("test", tmp_path)) == ["'elmore[dev]'"]
    (tmp_path / "ready").touch()
    assert installed(commands("test", tmp_path)) == []
