"""The program as a whole: help, version, flags before and after the verb, and how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from elmore import __version__
from elmore.cli.app import app

VERBS = [command.name or command.callback.__name__ for command in app.registered_commands]


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)


def test_alone_it_prints_its_help(elmore) -> None:
    ended = elmore()
    assert "Usage: elmore" in ended.out + ended.err
    assert all(verb in ended.out + ended.err for verb in VERBS)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_the_package_s(elmore, flag: str) -> None:
    assert elmore(flag) == (0, f"elmore {__version__}\n", "")


def test_the_installed_program_and_the_module_are_the_same() -> None:
    program = Path(sys.executable).with_name("elmore")
    runs = [[sys.executable, "-m", "elmore", "--version"]] + ([[str(program), "--version"]] if program.exists() else [])
    for command in runs:
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"elmore {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([verb, "--help"] for verb in VERBS)])
def test_help_and_version_do_not_import_torch(arguments: list[str]) -> None:
    ended = python(
        "import sys, contextlib\n"
        "from elmore.cli import main\n"
        f"with contextlib.suppress(SystemExit): main({arguments!r})\n"
        "print([name for name in ('torch', 'numpy', 'h5py') if name in sys.modules], file=sys.stderr)"
    )
    assert ended.stderr.strip() == "[]"
    assert ended.stdout


@pytest.mark.parametrize("verb", ["embed", "info", "convert"])
def test_help_fits_a_terminal_of_80_columns(elmore, monkeypatch, verb: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ended = elmore(verb, "-h")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    # An option's name is never cut, and its text has room to be read.
    assert not any("…" in line for line in lines if line.lstrip("│* ").startswith("--"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["embde"], "embde"),
        (["embed"], "FILE"),
        (["embed", "a.txt"], "--output"),
        (["embed", "a.txt", "-o", "v.h5", "--no-such-option"], "--no-such-option"),
        (["embed", "a.txt", "-o", "v.h5", "--dtype", "int3"], "int3"),
    ],
)
def test_wrong_usage_ends_with_2_and_names_what_is_wrong(elmore, arguments: list[str], said: str) -> None:
    ended = elmore(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_a_users_mistake_is_one_line_and_a_traceback_only_when_asked_for(elmore, tmp_path: Path) -> None:
    missing = tmp_path / "missing.txt"
    arguments = ("embed", missing, "-o", tmp_path / "v.h5", "--model", "tiny-random")
    assert elmore(*arguments) == (1, "", f"elmore: {missing}: no such file\n")
    for verbose in (("-v", *arguments), (*arguments, "--verbose")):
        ended = elmore(*verbose)
        assert ended.code == 1
        assert "Traceback" in ended.err
        assert ended.err.endswith(f"elmore: {missing}: no such file\n")


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line_and_silent_when_quiet(elmore, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Yes, I did.\nNo, you did not.\n")
    arguments = ("embed", text, "--tokenized", "-o", tmp_path / "v.npz", "--model", "tiny-random")
    said = elmore(*arguments).err.splitlines()
    assert [line.split(":")[:2] for line in said[:-1]] == [["elmore", " warning"]]
    assert elmore(*arguments, "-q") == (0, "", "")


def test_a_reader_that_has_had_enough_is_no_error() -> None:
    ended = subprocess.run(
        f"{sys.executable} -m elmore info tiny-random --json | true",
        shell=True,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
