"""The program as a whole: help, version, flags before and after the verb, and how it ends."""

import gzip
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from cpu_environment import ON_THE_CPU
from elmore import __version__, load
from elmore.cli.app import VERBS, program
from elmore.progress import Progress


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, "-c", code], {**ON_THE_CPU, **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `elmore`, as the shell would find it, in a line of shell."""
    line = re.sub(r"\belmore\b", f"{sys.executable} -m elmore", command, count=1)
    return subprocess.run(
        ["bash", "-c", line],
        capture_output=True,
        text=True,
        check=False,
        env={**ON_THE_CPU, "PYTHONUNBUFFERED": "", **environment},
        timeout=120,
    )


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
        assert (
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
            == f"elmore {__version__}\n"
        )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([verb, "--help"] for verb in VERBS)])
def test_help_and_version_do_not_import_torch(arguments: list[str]) -> None:
    ended = python(
        "import sys, contextlib\n"
        "from elmore.cli import main\n"
        f"with contextlib.suppress(SystemExit): main({arguments!r})\n"
        "heavy = ('torch', 'numpy', 'h5py', 'rich', 'pydantic', 'sacremoses', 'elmore.text.tokenizing')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    assert ended.stderr.strip() == "[]"
    assert ended.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_of_verbs_tells_the_first_line_of_each_one_s_help(verb: str) -> None:
    assert program.get_command(None, verb).help.split("\n\n")[0] == VERBS[verb]


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_terminal_of_80_columns(elmore, monkeypatch, verb: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ended = elmore(verb, "-h")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80


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
    assert elmore(*arguments) == (1, "", f"elmore: {missing}: no such file or folder\n")
    for verbose in (("-v", *arguments), (*arguments, "--verbose")):
        ended = elmore(*verbose)
        assert ended.code == 1
        assert "Traceback" in ended.err
        assert ended.err.endswith(f"elmore: {missing}: no such file or folder\n")


def test_ctrl_c_ends_with_130_and_no_traceback(elmore, monkeypatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmore.model.load", interrupted)
    assert elmore("info", "tiny-random") == (130, "", "elmore: stopped\n")


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line_and_silent_when_quiet(elmore, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Yes, I did.\nNo, you did not.\n")
    arguments = ("embed", text, "--tokenized", "-o", tmp_path / "v.npz", "--model", "tiny-random")
    said = elmore(*arguments).err.splitlines()
    assert [line.split(":")[:2] for line in said[:-1]] == [["elmore", " warning"]]
    assert elmore(*arguments, "-q") == (0, "", "")


def test_the_list_of_verbs_imports_no_verb() -> None:
    ended = python(
        "import sys, contextlib\n"
        "from elmore.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "print(sorted(name for name in sys.modules if name.startswith('elmore.')), file=sys.stderr)"
    )
    loaded = ["elmore.cli", "elmore.cli.app", "elmore.cli.verbosity", "elmore.errors", "elmore.version"]
    assert ended.stderr.strip() == str(loaded)


def test_flags_show_as_flags(elmore) -> None:
    assert any(line.split("  ")[1:2] == ["--json"] for line in elmore("info", "--help").out.splitlines())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", ["--help", "info tiny-random"])
def test_a_full_standard_output_is_told_in_one_line(arguments: str) -> None:
    ended = shell(f"elmore {arguments} > /dev/full")
    assert (ended.returncode, ended.stderr) == (1, "elmore: standard output: No space left on device\n")


def test_a_console_without_a_character_shows_its_code(elmore, tmp_path: Path) -> None:
    (tmp_path / "card.toml").write_text('description = "Café"\n')
    elmore("convert", "tiny-random", "-o", tmp_path / "model", "--card", tmp_path / "card.toml")
    ended = shell(f"elmore info {tmp_path / 'model'}", PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "description  Caf\\xe9\n" in ended.stdout


def test_output_that_nobody_reads_to_its_end_is_no_error(fixtures: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("good words\n" * 5000)  # more than a pipe holds
    model = fixtures / "bilm-tf-checkpoint"
    ended = shell(f"elmore surprisal {tmp_path / 'text.txt'} -m {model} | head -1; echo ${{PIPESTATUS[0]}}")
    assert ended.stdout.splitlines()[1] == "141"
    assert ended.stderr == ""


@pytest.mark.parametrize("command", ["elmore info tiny-random --json | true", "elmore --help | true"])
def test_a_reader_that_has_had_enough_is_no_error(command: str) -> None:
    ended = shell(f"{command}; echo ${{PIPESTATUS[0]}}")
    assert ended.stdout in ("0\n", "141\n")
    assert ended.stderr == ""


@pytest.mark.filterwarnings("ignore:.*of the text is <UNK>:elmore.errors.InputWarning")
@pytest.mark.parametrize("verb", ["embed", "perplexity", "surprisal", "substitutes", "convert"])
@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_every_verb_that_runs_a_model_says_where_unless_it_is_the_cpu(
    elmore, fixtures: Path, tmp_path: Path, monkeypatch, verb: str, device: str
) -> None:
    model = load(fixtures / "bilm-tf-checkpoint")
    asked = []
    monkeypatch.setattr("elmore.devices.choose_device", lambda name: asked.append(name) or torch.device(device))
    monkeypatch.setattr("elmore.model.load", lambda *_, **__: model)
    monkeypatch.setattr("elmore.embedding.embedder.load", lambda *_, **__: model)
    (tmp_path / "text.txt").write_text("good words\n")
    text = tmp_path / "text.txt"
    arguments = {
        "embed": (text, "-o", tmp_path / "v.npz"),
        "substitutes": ("a [good] word",),
        "convert": ("-o", tmp_path / "warm", "--warm", text),
    }.get(verb, (text,))
    ended = elmore(verb, *arguments, "--device", "cuda:1")
    assert ended.code == 0, ended.err
    assert asked == ["cuda:1"]
    told = [line for line in ended.err.splitlines() if line.startswith("running on")]
    assert told == ([] if device == "cpu" else [f"running on {device}"])


@pytest.mark.filterwarnings("ignore:.*of the text is <UNK>:elmore.errors.InputWarning")
@pytest.mark.parametrize("verb", ["perplexity", "surprisal", "prepare"])
def test_how_much_of_the_input_is_done_is_known_to_the_byte(
    elmore, fixtures: Path, tmp_path: Path, monkeypatch, verb: str
) -> None:
    class Recorded(Progress):
        done = 0

        def read(self, size: int) -> None:
            self.done += size

    progress, totals = Recorded(), []

    @contextmanager
    def bar(*_: object, total_bytes: int | None, **__: object) -> Iterator[Progress]:
        totals.append(total_bytes)
        yield progress

    monkeypatch.setattr("elmore.progress.progress_bar", bar)
    text = tmp_path / "text.txt.gz"
    text.write_bytes(gzip.compress(b"good words\n\nlanguage models\n"))
    options = ("-o", tmp_path / "out") if verb == "prepare" else ("--model", fixtures / "bilm-tf-checkpoint")
    assert elmore(verb, text, *options).code == 0
    assert totals == [progress.done] == [text.stat().st_size]
