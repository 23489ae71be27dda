"""Every command ends without a traceback: in any locale, on a full disk, in a closed pipe, and on Ctrl-C."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from elmore.cli.app import COMMANDS
from elmore.corpus.corpus import Corpus
from small_comparison import OPTIONS, small_compare
from small_comparison import write_data as write_names
from small_runs import ENVIRONMENT, small_recipe, small_run
from small_tasks import train_small, write_data

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs fork and a device that is always full")

PROGRAM = Path(__file__).with_name("commands_in_children.py")
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory, corpus: Corpus) -> dict[str, list[str]]:
    """A command line for every command that prints to standard output; text and names are not ASCII."""
    folder = tmp_path_factory.mktemp("ü")
    list(small_run(corpus, folder / "run", small_recipe(**{"training.steps": 2})))
    text, model = folder / "Übung.txt", str(folder / "run" / "model")
    text.write_text("Die Übung – „gut“ 😀.\n")
    data = write_data(folder)
    train_small("ner", folder / "tägger", data["ner"], training__epochs=1)
    names = write_names(folder)
    list(small_compare(names, folder / "comparison"))
    comparing = [word for name in ("train", "dev", "test") for word in (f"--{name}", names[name])]
    comparing += ["--test", names["other"], "-o", folder / "comparison", *OPTIONS, "--seeds", 1, "--jobs", 0]
    found: dict[str, list[object]] = {
        "help": ["--help"],
        "version": ["--version"],
        "embed --help": ["embed", "--help"],
        "info": ["info", "tiny-random"],
        "info --json": ["info", model, "--json"],
        "info --system": ["info", "--system"],
        "info of a task model": ["info", folder / "tägger"],
        "completion": ["completion", "bash"],
        "perplexity": ["perplexity", text, "-m", model],
        "perplexity --json": ["perplexity", text, "-m", model, "--json"],
        "surprisal": ["surprisal", text, "-m", model],
        "substitutes": ["substitutes", "die [Übung] ist", "-m", model],
        "substitutes --json": ["substitutes", "die [Übung] ist", "-m", model, "--json"],
        "predict": ["predict", folder / "tägger", text],
        "predict --json": ["predict", folder / "tägger", text, "--json"],
        "evaluate": ["evaluate", folder / "tägger", data["ner"]],
        "evaluate --json": ["evaluate", folder / "tägger", data["ner"], "--json"],
        "compare": ["compare", "ner", *comparing],
    }
    return {name: [str(word) for word in words] for name, words in found.items()}


SILENT = {"embed", "convert", "export", "prepare", "pretrain", "train"}  # these print to stderr only
Results = dict[str, dict[str, Any]]  # of every command


def run(cases: list[dict[str, Any]], **environment: str) -> list[dict[str, Any]]:
    """The results of cases, in children of one process."""
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [sys.executable, str(PROGRAM), folder],
            input=json.dumps(cases),
            env={**ENVIRONMENT, "PYTHONUNBUFFERED": "", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert ended.returncode == 0, ended.stderr
    results: list[dict[str, Any]] = json.loads(ended.stdout)
    return results


@pytest.fixture(scope="module")
def results(commands: dict[str, list[str]]) -> dict[str, Results]:
    """The result of every command on a full disk, in a pipe without a reader, and interrupted."""
    kinds = {"full": {"stdout": "full"}, "unread": {"stdout": "unread"}}
    kinds["interrupted"] = {"stdout": "pipe", "interrupt": True}
    cases = [(kind, name) for kind in kinds for name in commands]
    ended = run([{"arguments": commands[name], **kinds[kind]} for kind, name in cases])
    found: dict[str, Results] = {kind: {} for kind in kinds}
    for (kind, name), result in zip(cases, ended, strict=True):
        found[kind][name] = result
    return found


def test_the_commands_of_these_tests_are_all_that_print(commands: dict[str, list[str]]) -> None:
    assert {arguments[0] for arguments in commands.values()} >= COMMANDS.keys() - SILENT


def test_every_command_prints_in_any_locale(commands: dict[str, list[str]]) -> None:
    ended = run([{"arguments": arguments, "stdout": "pipe"} for arguments in commands.values()], **ASCII)
    for name, result in zip(commands, ended, strict=True):
        assert (name, result["code"], "Traceback" in result["err"]) == (name, 0, False), result["err"]
        assert result["out"]


def test_every_command_reports_a_full_disk_in_one_line(results: dict[str, Results]) -> None:
    for name, result in results["full"].items():
        assert (name, result["code"]) == (name, 1), result["err"]
        last = result["err"].splitlines()[-1]
        assert last.startswith("elmore: standard output: cannot be written: No space left on device"), result["err"]
        assert_no_sign_of_failure(result["err"])


def test_every_command_ends_silently_when_nobody_reads(results: dict[str, Results]) -> None:
    for name, result in results["unread"].items():
        assert (name, result["code"]) == (name, 141), result["err"]
        assert_no_sign_of_failure(result["err"])
        assert "Broken pipe" not in result["err"]
        assert "standard output" not in result["err"]


def test_every_command_ends_with_130_on_ctrl_c(results: dict[str, Results]) -> None:
    for name, result in results["interrupted"].items():
        if "help" in name or name == "version":  # these run no command
            assert result["code"] == 0
            continue
        assert (name, result["code"], result["out"]) == (name, 130, ""), result["err"]
        assert result["err"].startswith("elmore: stopped"), result["err"]
        assert len(result["err"].splitlines()) == 1


def assert_no_sign_of_failure(err: str) -> None:
    assert "Traceback" not in err
    assert "Exception ignored" not in err
