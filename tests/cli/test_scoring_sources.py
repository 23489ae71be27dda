"""`elmore perplexity` and `surprisal` find their text: files, folders, and parts of a prepared corpus."""

import os
from pathlib import Path

import pytest

from elmore.cli.options import TextOptions
from elmore.cli.perplexity import _sources as find_sources
from elmore.corpus.prepare import prepare
from elmore.errors import InputError


def _sources(texts: list[str]) -> list[str]:
    """The files that `elmore perplexity` reads, without options for the text."""
    fields = dict.fromkeys(("input_format", "paragraphs", "language", "tokenizer"))
    choice = TextOptions(**fields, tokenized=False, no_split=False, errors="strict", token_style="moses")
    return find_sources(texts, choice)


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A prepared corpus as the working directory, with a text file in it."""
    (tmp_path / "text.txt").write_text("One two.\n\nThree.\n")
    prepare([tmp_path / "text.txt"], tmp_path / "prepared", workers=1)
    monkeypatch.chdir(tmp_path / "prepared")
    (tmp_path / "prepared" / "heldout.txt").write_text("A text.")
    return tmp_path / "prepared"


@pytest.mark.parametrize("name", [".", "..", "./", "../prepared/."])
@pytest.mark.filterwarnings("ignore:some of the input is skipped")
def test_perplexity_accepts_folders_without_a_name(prepared: Path, name: str) -> None:
    texts = {file.name for file in prepared.parent.rglob("*.txt")}
    assert {Path(file).name for file in _sources([name])} <= texts
    assert _sources([name])


@pytest.mark.parametrize("name", ["heldout", "heldout.bin", "./train", "../prepared/train.bin"])
def test_perplexity_finds_part_of_prepared_corpus(prepared: Path, name: str) -> None:
    (found,) = _sources([name])
    assert Path(found).resolve() == prepared / f"{Path(name).stem}.bin"


def test_perplexity_reads_text_file_named_like_a_part(prepared: Path) -> None:
    assert _sources(["heldout.txt"]) == ["heldout.txt"]


def test_perplexity_rejects_text_given_as_path() -> None:
    with pytest.raises(InputError, match="is too long for a path"):
        _sources(["word " * 1000])


def test_perplexity_reads_standard_input(prepared: Path) -> None:
    assert _sources(["-", f"heldout{os.extsep}txt"]) == ["-", "heldout.txt"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", ["perplexity", "surprisal"])
def test_command_reports_files_that_are_not_read(elmore, tmp_path: Path, command: str) -> None:
    (tmp_path / "text.txt").write_text("One.")
    (tmp_path / "README.md").touch()
    ended = elmore(command, tmp_path, "-m", "elmore-en")
    assert ended.code == 0
    assert "elmore: warning: some of the input is skipped: 1 skipped file\n" in ended.err
