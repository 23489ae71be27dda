"""What a shell is told when the user presses the tab key."""

import subprocess

import pytest


@pytest.fixture
def completed(elmore, monkeypatch: pytest.MonkeyPatch):
    """`completed("elmore em")` gives the words that may stand in place of the last."""

    def run(line: str) -> list[str]:
        monkeypatch.setenv("_ELMORE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        ended = elmore()
        assert (ended.code, ended.err) == (0, "")
        return [entry.partition(",")[2] for entry in ended.out.splitlines()]

    return run


def test_completion_offers_commands(completed) -> None:
    assert completed("elmore e") == ["embed", "export", "evaluate"]
    assert completed("elmore pr") == ["prepare", "pretrain", "predict"]


def test_completion_offers_options(completed) -> None:
    assert completed("elmore embed --lay") == ["--layers", "--layout"]


def test_completion_offers_choices(completed) -> None:
    assert completed("elmore convert --format f") == ["folder", "folder-int8"]


def test_completion_offers_names_of_models(completed) -> None:
    assert completed("elmore surprisal --model elm") == ["elmore-en"]
    assert completed("elmore info efml-d") == ["efml-da", "efml-de"]


def test_completion_offers_names_of_recipes(completed) -> None:
    assert completed("elmore pretrain --recipe m") == ["medium"]


def test_completion_leaves_files_to_the_shell(elmore, completed) -> None:
    lines = ("elmore embed cor", "elmore surprisal cor", "elmore info ./mod", "elmore prepare cor")
    for line in (*lines, "elmore train ner --recipe my", "elmore compare ner --recipe my"):
        assert completed(line) == [line.split()[-1]]
        # The kind of what is due, which the shell's script acts on.
        assert elmore().out.startswith("file,")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_calls_the_program(elmore, shell: str) -> None:
    ended = elmore("completion", shell)
    assert ended.code == 0
    assert f"_ELMORE_COMPLETE={shell}_complete" in ended.out


def test_completion_script_is_valid_bash(elmore) -> None:
    script = elmore("completion", "bash").out
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False, timeout=120).returncode == 0


def test_completion_for_another_shell_is_wrong_usage(elmore) -> None:
    assert elmore("completion", "tcsh").code == 2
