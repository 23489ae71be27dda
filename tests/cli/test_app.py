"""The program as a whole: help, version, flags before and after the command, and how it ends."""

import errno
import gzip
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch

from cpu_environment import ON_THE_CPU
from elmore import __version__, load
from elmore.cli.app import COMMANDS, program
from elmore.engine.numpy_engine import NumpyEngine
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


def test_elmore_without_arguments_prints_help(elmore) -> None:
    ended = elmore()
    assert "Usage: elmore" in ended.out + ended.err
    assert all(command in ended.out + ended.err for command in COMMANDS)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version_is_that_of_the_package(elmore, flag: str) -> None:
    assert elmore(flag) == (0, f"elmore {__version__}\n", "")


def test_installed_program_and_module_print_the_same() -> None:
    program = Path(sys.executable).with_name("elmore")
    runs = [[sys.executable, "-m", "elmore", "--version"]] + ([[str(program), "--version"]] if program.exists() else [])
    for command in runs:
        assert (
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
            == f"elmore {__version__}\n"
        )


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([command, "--help"] for command in COMMANDS)])
def test_help_and_version_do_not_import_torch(arguments: list[str]) -> None:
    ended = python(
        "import sys, contextlib\n"
        "from elmore.cli import main\n"
        f"with contextlib.suppress(SystemExit): main({arguments!r})\n"
        "heavy = ('torch', 'numpy', 'h5py', 'rich', 'pydantic', 'sacremoses', 'elmore.text.tokenizer')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    assert ended.stderr.strip() == "[]"
    assert ended.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_list_of_commands_has_first_line_of_each_help(command: str) -> None:
    assert program.get_command(None, command).help.split("\n\n")[0] == COMMANDS[command]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_terminal_of_80_columns(elmore, monkeypatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ended = elmore(command, "-h")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["embde"], "No such command 'embde'. Did you mean embed?"),
        (["embd"], "No such command 'embd'. Did you mean embed?"),
        (["xyz"], "No such command 'xyz'.\n"),
        (["embed"], "FILE"),
        (["embed", "a.txt"], "--output"),
        (["embed", "a.txt", "-o", "v.h5", "--no-such-option"], "--no-such-option"),
        (["embed", "a.txt", "-o", "v.h5", "--dtype", "int3"], "int3"),
        (["embed", "a.txt", "--ouput", "v.h5"], "No such option '--ouput'. Did you mean '--output'?\n"),
        (["train", "ner", "--trian", "a.txt"], "No such option '--trian'. Did you mean '--train'?"),
        (["pretrain", "corpus", "--rceipe", "small"], "No such option '--rceipe'. Did you mean '--recipe'?"),
        (["compare", "ner", "--tst", "a.txt"], "No such option '--tst'. Did you mean '--test'?"),
        (["train", "ner", "--lr", "3"], "Fields of the recipe have two names: --training.batch_size 64."),
        (["train", "ner", "--training.seed"], "Option '--training.seed' requires an argument."),
        (["train", "ner", "--training.seed", "--resume"], "Option '--training.seed' requires an argument."),
        (["pretrain", "c", "-o", "r", "--training.batch_size"], "Option '--training.batch_size' requires an argument."),
        (["pretrain", "c", "-o", "r", "--rows", "8"], "No such option '--rows'."),
        (["train", "--training.seed", "3", "ner"], "Missing option '--train'."),
    ],
)
def test_wrong_usage_exits_with_2_and_names_the_error(elmore, arguments: list[str], said: str) -> None:
    ended = elmore(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_error_is_one_line_with_traceback_only_on_request(elmore, tmp_path: Path) -> None:
    missing = tmp_path / "missing.txt"
    arguments = ("embed", missing, "-o", tmp_path / "v.h5", "--model", "tiny-random")
    assert elmore(*arguments) == (1, "", f"elmore: {missing}: no such file or folder\n")
    for verbose in (("-v", *arguments), (*arguments, "--verbose")):
        ended = elmore(*verbose)
        assert ended.code == 1
        assert "Traceback" in ended.err
        assert ended.err.endswith(f"elmore: {missing}: no such file or folder\n")


def test_ctrl_c_exits_with_130_without_traceback(elmore, monkeypatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elmore.model.load", interrupted)
    assert elmore("info", "tiny-random") == (130, "", "elmore: stopped\n")


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line_and_silent_with_quiet(elmore, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Yes, I did.\nNo, you did not.\n")
    arguments = ("embed", text, "--tokenized", "-o", tmp_path / "v.npz", "--model", "tiny-random")
    said = elmore(*arguments).err.splitlines()
    assert [line.split(":")[:2] for line in said[:-1]] == [["elmore", " warning"]]
    assert elmore(*arguments, "-q") == (0, "", "")


def test_messages_of_the_library_are_silent_with_quiet(elmore, tmp_path: Path) -> None:
    elmore("info", "tiny-random")
    assert logging.getLogger("elmore.sources").isEnabledFor(logging.WARNING)
    elmore("info", "tiny-random", "-q")
    assert not logging.getLogger("elmore.sources").isEnabledFor(logging.WARNING)


def test_list_of_commands_imports_no_command() -> None:
    ended = python(
        "import sys, contextlib\n"
        "from elmore.cli import main\n"
        "with contextlib.suppress(SystemExit): main(['--help'])\n"
        "print(sorted(name for name in sys.modules if name.startswith('elmore.')), file=sys.stderr)"
    )
    cli = ["cli", "cli.app", "cli.output", "cli.threads"]
    loaded = [*cli, "cpus", "errors", "forks", "version"]
    assert ended.stderr.strip() == str([f"elmore.{name}" for name in loaded])


def test_help_shows_flags_as_flags(elmore) -> None:
    assert any(line.split("  ")[1:2] == ["--json"] for line in elmore("info", "--help").out.splitlines())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", ["--help", "info tiny-random"])
def test_main_reports_full_standard_output_in_one_line(arguments: str, unbuffered: str) -> None:
    ended = shell(f"elmore {arguments} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    said = "elmore: standard output: cannot be written: No space left on device; free some space, or write elsewhere\n"
    assert (ended.returncode, ended.stderr) == (1, said)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_main_succeeds_when_standard_error_is_full(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("One.\n")
    ended = shell(f"elmore embed {tmp_path}/text.txt -o {tmp_path}/v.npz -m tiny-random 2> /dev/full")
    assert ended.returncode == 0
    assert (tmp_path / "v.npz").exists()


@pytest.mark.skipif(os.name != "posix", reason="closes streams as a POSIX shell does")
@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        ("elmore --version >&-", 0, "", ""),
        ("elmore info nothing >&-", 1, "", "elmore: nothing: no such file"),
        ("elmore info nothing 2>&-", 1, "", ""),
        ("elmore embed text.txt -o v.npz -m tiny-random 2>&-", 0, "", ""),
        ("elmore surprisal - <&-", 1, "", "elmore: standard input is closed; name a file"),
    ],
)
def test_main_works_with_closed_streams(
    tmp_path: Path, monkeypatch, command: str, code: int, out: str, err: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("One.\n")
    ended = shell(command, PYTHONPATH=os.pathsep.join(sys.path))
    assert (ended.returncode, ended.stdout, ended.stderr[: len(err)]) == (code, out, err)
    assert err or not ended.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EIO, "Input/output error"), "Input/output error; --verbose shows where"),
        (OSError("4096 requested and 0 written"), "4096 requested and 0 written; --verbose shows where"),
        (OSError(errno.EACCES, "Permission denied", "/some/file"), "/some/file: Permission denied"),
    ],
)
def test_main_blames_standard_output_for_its_own_errors_only(elmore, monkeypatch, error: OSError, said: str) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("elmore.model.load", failing)
    assert elmore("info", "tiny-random") == (1, "", f"elmore: {said}\n")
    assert "Traceback" in elmore("info", "tiny-random", "-v").err


@pytest.mark.skipif(os.name != "posix", reason="sends Ctrl-C as only POSIX has it")
def test_ctrl_c_while_output_waits_exits_with_130(tmp_path: Path) -> None:
    code = """
import io, sys
import elmore.cli.app as app
sys.stdout = io.TextIOWrapper(io.BufferedWriter(sys.stdout.buffer.raw, 2**22))
app._run = lambda arguments: print("x" * 2**20) or 0
app.main()
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ON_THE_CPU, "PYTHONUNBUFFERED": ""}
    ) as running:
        running.stdout.read(1)  # the pipe is full now, and the program waits in its last flush
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=60)
    assert (running.returncode, told) == (130, b"elmore: stopped\n")


@pytest.fixture
def greek(elmore, tmp_path: Path, monkeypatch) -> None:
    """A text and a model's card with characters that are not ASCII."""
    monkeypatch.chdir(tmp_path)
    Path("Ω.txt").write_text("Ω is a letter .\n", encoding="utf-8")
    Path("card.toml").write_text('description = "Ω"\n', encoding="utf-8")
    elmore("convert", "tiny-random", "-o", "model", "--card", "card.toml")


PRINTING = [
    "surprisal Ω.txt --tokenized",
    "perplexity Ω.txt --json",
    "substitutes 'Ω took a [bow] .' --json",
    "predict pos Ω.txt",
    "predict pos Ω.txt --json",
    "info model",
]
# Python's UTF-8 mode, which it has by default with LC_ALL=C, is off in the second.
NOT_UTF8 = [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]


@pytest.mark.parametrize("command", PRINTING)
def test_elmore_writes_utf8_to_a_pipe(greek, command: str) -> None:
    for environment in NOT_UTF8 if command.startswith("info") else NOT_UTF8[:1]:
        ended = shell(f"elmore {command} -q", **environment)
        assert ended.returncode == 0, ended.stderr
        assert "Ω" in ended.stdout
        assert "u03a9" not in ended.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there is no pseudo-terminal")
@pytest.mark.parametrize(("encoding", "shown"), [("ascii", "\\u03a9"), ("utf-8", "Ω")])
@pytest.mark.parametrize("command", ["predict pos Ω.txt", "info model"])
def test_elmore_escapes_what_a_terminal_cannot_show(greek, command: str, encoding: str, shown: str) -> None:
    import pty  # not on Windows

    reader, writer = pty.openpty()
    arguments = [sys.executable, "-m", "elmore", *command.split()]
    environment = {**ON_THE_CPU, "PYTHONIOENCODING": encoding}
    with subprocess.Popen(arguments, stdout=writer, stderr=subprocess.PIPE, env=environment) as child:
        os.close(writer)
        content = b""
        with suppress(OSError):  # Linux's end of a terminal
            while piece := os.read(reader, 2**16):
                content += piece
        assert child.wait(timeout=120) == 0, child.stderr.read()
    os.close(reader)
    assert shown in content.decode(encoding)


def test_output_closed_by_its_reader_exits_with_141(fixtures: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("good words\n" * 5000)  # more than a pipe holds
    model = fixtures / "bilm-tf-checkpoint"
    ended = shell(f"elmore surprisal {tmp_path / 'text.txt'} -m {model} | head -1; echo ${{PIPESTATUS[0]}}")
    assert ended.stdout.splitlines()[1] == "141"
    assert ended.stderr == ""


@pytest.mark.parametrize("command", ["elmore info tiny-random --json | true", "elmore --help | true"])
def test_command_is_silent_if_its_reader_ends_early(command: str) -> None:
    ended = shell(f"{command}; echo ${{PIPESTATUS[0]}}")
    assert ended.stdout in ("0\n", "141\n")
    assert ended.stderr == ""


@pytest.mark.filterwarnings("ignore:.*of the text is <UNK>:elmore.errors.InputWarning")
@pytest.mark.parametrize("command", ["embed", "perplexity", "surprisal", "substitutes", "convert"])
@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_command_prints_its_device_unless_cpu(
    elmore, fixtures: Path, tmp_path: Path, monkeypatch, command: str, device: str
) -> None:
    model = load(fixtures / "bilm-tf-checkpoint")
    opened = []
    # There is no GPU here: the numpy engine runs in place of the GPU engine.
    monkeypatch.setattr("elmore.nn.devices.choose_device", lambda name: torch.device(device))
    monkeypatch.setattr(
        "elmore.nn.gpu_engine.GpuEngine",
        lambda checkpoint, **options: opened.append(options["device"]) or NumpyEngine(checkpoint),
    )
    monkeypatch.setattr("elmore.model.load", lambda *_, **__: model)
    monkeypatch.setattr("elmore.embedding.embedder.load", lambda *_, **__: model)
    (tmp_path / "text.txt").write_text("good words\n")
    text = tmp_path / "text.txt"
    arguments = {
        "embed": (text, "-o", tmp_path / "v.npz"),
        "substitutes": ("a [good] word",),
        "convert": ("-o", tmp_path / "warm", "--warm", text),
    }.get(command, (text,))
    ended = elmore(command, *arguments, "--device", "cuda:1")
    assert ended.code == 0, ended.err
    assert opened == ([] if device == "cpu" else [device])
    printed = [line for line in ended.err.splitlines() if line.startswith("running on")]
    assert printed == ([] if device == "cpu" else [f"running on {device}"])


@pytest.mark.filterwarnings("ignore:.*of the text is <UNK>:elmore.errors.InputWarning")
@pytest.mark.parametrize("command", ["perplexity", "surprisal", "prepare"])
def test_progress_counts_every_byte_of_the_input(
    elmore, fixtures: Path, tmp_path: Path, monkeypatch, command: str
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
    options = ("-o", tmp_path / "out") if command == "prepare" else ("--model", fixtures / "bilm-tf-checkpoint")
    assert elmore(command, text, *options).code == 0
    assert totals == [progress.done] == [text.stat().st_size]


def test_recipe_fields_are_accepted_anywhere(elmore, tmp_path: Path) -> None:
    files = ["--train", tmp_path / "none.txt", "--dev", tmp_path / "none.txt", "-o", tmp_path / "run"]
    for arguments in (["--training.seed", "x", "ner", *files], ["ner", *files, "--training.seed=x"]):
        assert "training.seed is 'x'; it must be a whole number" in elmore("train", *arguments).err
