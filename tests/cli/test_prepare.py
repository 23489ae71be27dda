"""`elmore prepare` hands the user's wishes on, tells what came of them, and ends with the right code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import elmore
from elmore.cli.app import program
from elmore.corpus import prepare as preparing
from elmore.corpus.corpus import Corpus
from elmore.errors import InputError
from elmore.text.vocabulary import Vocabulary


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("A Cat sat .\n\n<S> a dog sat .\n\nthe cat .\n", encoding="utf-8")
    return str(path)


def run(*arguments: object):
    return CliRunner().invoke(program, ["prepare", *map(str, arguments)])


def test_every_option_reaches_the_work(text, tmp_path):
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


def test_hard_wrapped_text_can_be_told(tmp_path):
    (tmp_path / "text.txt").write_text("one two\nthree\n\nfour\n\n\nfive\n")
    for how, documents in (("line", 3), ("blank-line", 2)):
        result = run(tmp_path / "text.txt", "-o", tmp_path / how, "--paragraphs", how, "--heldout", 0)
        assert result.exit_code == 0, result.output
        assert Corpus.open(tmp_path / how).manifest.parts["train"].documents == documents


def test_it_tells_what_was_written_and_what_was_left_out(text, tmp_path):
    result = run(text, "-o", tmp_path / "out", "--tokenized")
    parts = json.loads((tmp_path / "out" / "manifest.json").read_text())["parts"]
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0] == f"wrote {tmp_path / 'out'}: 8 distinct words, a vocabulary of 9 words"
    assert f"train: 2 documents, 2 sentences, {parts['train']['tokens']} tokens, 0.00% of them <UNK>" in lines[1]
    assert "heldout: 1 document, 1 sentence," in lines[2]
    assert lines[3] == "  left out: 1 boundary word: <S> and </S> in the text would be read as boundaries of sentences"


def test_quiet_says_nothing(text, tmp_path):
    result = run(text, "-o", tmp_path / "out", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_contradicting_formats_are_refused(text, tmp_path):
    result = run(text, "-o", tmp_path / "out", "--tokenized", "--input-format", "fasta")
    assert isinstance(result.exception, InputError)
    assert "contradict" in str(result.exception)


def test_ctrl_c_leaves_nothing_behind(text, tmp_path, monkeypatch):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(preparing, "choose_heldout", interrupted)
    result = run(text, "-o", tmp_path / "out")
    assert result.exit_code == 130
    assert "nothing was written" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_vocabulary_may_be_that_of_a_model_by_its_name_or_folder(text, tmp_path):
    inside = Path(elmore.__file__).parent / "models" / "elmore-en"
    for number, named in enumerate(("elmore-en", inside, inside / "vocabulary.txt")):
        out = tmp_path / str(number)
        ended = run(text, "-o", out, "--vocabulary", str(named), "-q")
        assert ended.exit_code == 0, ended.output
        assert Corpus.open(out).vocabulary == Vocabulary.read(inside / "vocabulary.txt")
    missing = run(text, "-o", tmp_path / "none", "--vocabulary", "elmore-fr")
    assert isinstance(missing.exception, InputError)
    assert str(missing.exception).startswith("elmore-fr: cannot be read: No such file")
