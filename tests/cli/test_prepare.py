"""`elmore prepare` hands the user's wishes on, tells what came of them, and ends with the right code."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import elmore
from elmore.cli.app import program
from elmore.corpus import prepare as preparing
from elmore.corpus.corpus import Corpus
from elmore.errors import ElmoreError, InputError
from elmore.model import load, save
from elmore.text.vocabulary import Vocabulary


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("A Cat sat .\n\n<S> a dog sat .\n\nthe cat .\n", encoding="utf-8")
    return str(path)


def run(*arguments: object):
    return CliRunner().invoke(program, ["prepare", *map(str, arguments)])


def test_prepare_passes_every_option_on(text, tmp_path):
    out = tmp_path / "out"
    options = (
        "--tokenized --vocabulary-size 5 --workers 1 --heldout 0.4 --language de --lowercase --seed 3 --errors replace"
    )
    result = run(text, "-o", out, *options.split())
    assert result.exit_code == 0, result.output
    corpus = Corpus.open(out, verify=True)
    assert len(corpus.vocabulary) == 5
    assert "Cat" not in corpus.types
    assert corpus.style.language == "de"
    assert (corpus.manifest.seed, corpus.manifest.heldout_share) == (3, 0.4)


def test_prepare_paragraphs_option_joins_wrapped_lines(tmp_path):
    (tmp_path / "text.txt").write_text("one two\nthree\n\nfour\n\n\nfive\n")
    for how, documents in (("line", 3), ("blank-line", 2)):
        result = run(tmp_path / "text.txt", "-o", tmp_path / how, "--paragraphs", how, "--heldout", 0)
        assert result.exit_code == 0, result.output
        assert Corpus.open(tmp_path / how).manifest.parts["train"].documents == documents


def test_prepare_prints_written_and_skipped_files(text, tmp_path):
    result = run(text, "-o", tmp_path / "out", "--tokenized")
    parts = json.loads((tmp_path / "out" / "manifest.json").read_text())["parts"]
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0] == f"wrote {tmp_path / 'out'}: 8 distinct words, a vocabulary of 9 words"
    assert f"train: 2 documents, 2 sentences, {parts['train']['tokens']} tokens, 0.00% of them <UNK>" in lines[1]
    assert "heldout: 1 document, 1 sentence," in lines[2]
    assert lines[3] == "  omitted: 1 boundary word: <S> and </S> in the text would be read as boundaries of sentences"


def test_prepare_quiet_prints_nothing(text, tmp_path):
    result = run(text, "-o", tmp_path / "out", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_prepare_rejects_contradicting_formats(text, tmp_path):
    result = run(text, "-o", tmp_path / "out", "--tokenized", "--input-format", "fasta")
    assert isinstance(result.exception, InputError)
    assert "contradict" in str(result.exception)


def test_prepare_leaves_no_files_after_ctrl_c(text, tmp_path, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(preparing, "choose_heldout", interrupted)
    result = run(text, "-o", tmp_path / "out")
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_prepare_reads_vocabulary_of_a_model(text, tmp_path):
    inside = Path(elmore.__file__).parent / "models" / "elmore-en"
    for number, named in enumerate(("elmore-en", inside, inside / "vocabulary.txt")):
        out = tmp_path / str(number)
        ended = run(text, "-o", out, "--vocabulary", str(named), "-q")
        assert ended.exit_code == 0, ended.output
        assert Corpus.open(out).vocabulary == Vocabulary.read(inside / "vocabulary.txt")


@pytest.mark.filterwarnings("ignore:.*cannot contain the")
def test_prepare_reads_vocabulary_of_hdf5_folder(text, tmp_path):
    save(load("elmore-en"), tmp_path / "model", format="hdf5")
    ended = run(text, "-o", tmp_path / "out", "--vocabulary", str(tmp_path / "model"), "-q")
    assert ended.exit_code == 0, ended.output
    assert Corpus.open(tmp_path / "out").vocabulary == Vocabulary.read(tmp_path / "model" / "vocab.txt")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("elmore-fr", "elmore-fr: no such file or folder, and no model of that name .*did you mean elmore-en"),
        (
            "original",
            "original: has no vocabulary.txt; name a file with one word per line, or a model .*, such as elmore-en$",
        ),
        ("efml-de", "efml-de: has no vocabulary.txt"),
        (
            "https://example.org/vocab.txt",
            "https://example.org/vocab.txt: is an address; download the file and give its path",
        ),
        ("empty", "empty: has no vocabulary.txt"),
        ("tiny-random", "tiny-random: has no vocabulary.txt"),
    ],
)
def test_prepare_rejects_vocabulary_that_is_none_without_download(text, tmp_path, monkeypatch, named, said):
    def no_network(*_: object, **__: object) -> None:
        pytest.fail("something was downloaded")

    monkeypatch.setattr("elmore.sources.downloads.fetch", no_network)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    missing = run(text, "-o", tmp_path / "none", "--vocabulary", named)
    assert isinstance(missing.exception, ElmoreError)
    assert re.match(said, str(missing.exception))
