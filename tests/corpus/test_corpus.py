"""A corpus is read back as it was written, and a damaged one is refused by the name of the file."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmore.corpus.corpus import FILES, Corpus, CorpusWriter
from elmore.errors import ElmoreError, FormatError, NotFound
from elmore.text.style import TokenizerConfig

TEXT = {"tokenizer": "whitespace", "tokenizer_version": 2, "language": "de", "lowercase": True, "escape": False}
PART = {"documents": 1, "sentences": 1, "tokens": 1, "types": 1, "unknown_tokens": 1, "unknown_share": 1.0}
FACTS = {
    "written_by": "elmore",
    "text": TEXT,
    "parts": {"train": PART, "heldout": PART},
    "types": 4,
    "vocabulary": {},
    "seed": 1,
    "heldout_share": 0.5,
    "inputs": [],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """<S> b a </S> <S> b </S> to train on, <S> a </S> held out; `a` is in no vocabulary."""
    writer = CorpusWriter(tmp_path)
    with writer.open_stream("train.bin") as train, writer.open_stream("heldout.bin") as heldout:
        train.append(np.array([2, 3, 0, 2], dtype=np.uint32))
        heldout.append(np.array([3, 0], dtype=np.uint32))
        train.append(np.array([0], dtype=np.uint32))
    writer.write_words("types.txt", ["<S>", "</S>", "b", "a"])
    writer.write_words("vocabulary.txt", ["<S>", "</S>", "<UNK>", "b"])
    writer.write_array("classes.bin", np.array([0, 1, 3, 2]), "<u4")
    writer.write_manifest(FACTS)
    return tmp_path


def test_a_corpus_is_read_back_as_it_was_written(folder):
    corpus = Corpus.open(folder, verify=True)
    assert corpus.train.tolist() == [0, 2, 3, 0, 2, 0]
    assert corpus.heldout.tolist() == [0, 3, 0]
    assert isinstance(corpus.train, np.memmap)
    assert corpus.types == ["<S>", "</S>", "b", "a"]
    assert corpus.classes.tolist() == [0, 1, 3, 2]
    assert corpus.vocabulary.words == ("<S>", "</S>", "<UNK>", "b")
    assert corpus.style == TokenizerConfig(tokenizer="whitespace", tokenizer_version=2, language="de", lowercase=True)
    assert list(corpus.manifest.files) == list(FILES)


def test_a_manifest_that_does_not_name_the_version_of_its_tokeniser_means_the_first(folder):
    change(folder / "manifest.json", text={name: value for name, value in TEXT.items() if name != "tokenizer_version"})
    assert Corpus.open(folder).style.tokenizer_version == 1


def test_the_files_hold_what_the_format_says(folder):
    assert (folder / "train.bin").read_bytes().hex() == "000000000200000003000000000000000200000000000000"
    assert (folder / "types.txt").read_bytes() == b"<S>\n</S>\nb\na\n"
    assert (folder / "classes.bin").read_bytes()[-4:].hex() == "02000000"


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def resize(name: str) -> Callable[[Path], None]:
    def cut(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-1])

    return cut


def with_tables(**contents: bytes) -> Callable[[Path], None]:
    """Other content, with a manifest that agrees with it."""

    def write(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        for stem, content in contents.items():
            (name,) = (name for name in FILES if name.startswith(stem))
            (folder / name).write_bytes(content)
            manifest["files"][name]["bytes"] = len(content)
        change(folder / "manifest.json", files=manifest["files"])

    return write


DAMAGE = [
    (lambda folder: (folder / "manifest.json").unlink(), NotFound, "contains no manifest.json"),
    (
        lambda folder: (folder / "manifest.json").write_text("{"),
        FormatError,
        "manifest.json: not JSON.*; prepare the corpus again",
    ),
    (lambda folder: (folder / "manifest.json").write_text("[]"), FormatError, "where an object was expected"),
    (
        lambda folder: change(folder / "manifest.json", format="x"),
        FormatError,
        "its format is 'x', not 'elmore-corpus'",
    ),
    (
        lambda folder: change(folder / "manifest.json", version=2),
        FormatError,
        "its version is 2, and this Elmore reads 1",
    ),
    (
        lambda folder: change(folder / "manifest.json", files=None),
        FormatError,
        "files is None; it must be a table",
    ),
    (lambda folder: change(folder / "manifest.json", files={}), FormatError, "train.bin: is not listed"),
    (
        lambda folder: change(folder / "manifest.json", text={"tokenizer": "x"}),
        FormatError,
        r"manifest.json: text\.tokenizer is 'x'; it must be one of moses",
    ),
    (
        lambda folder: change(folder / "manifest.json", text={**TEXT, "tokenizer_version": 3}),
        FormatError,
        "version is 3",
    ),
    (lambda folder: (folder / "classes.bin").unlink(), NotFound, "classes.bin: is missing"),
    *((resize(name), FormatError, rf"{name}: has \d+ bytes instead of \d+") for name in FILES),
    (with_tables(train=b"\2\0\0\0"), FormatError, "train.bin: does not begin and end with a boundary"),
    (with_tables(heldout=b"\0\0\0\0\2\0\0\0"), FormatError, "heldout.bin: does not begin and end"),
    (with_tables(types=b"<S>\n</S>\nb\n"), FormatError, "classes.bin: has 4 numbers for 3 types"),
    (with_tables(types=b"b\na\n<S>\n</S>\n"), FormatError, "types.txt: begins with b, a instead of <S>, </S>"),
    (with_tables(types=b"\xff\n"), FormatError, "types.txt: not UTF-8 at byte 0"),
    (with_tables(classes=b"\0\0\0\0"), FormatError, "classes.bin: has 1 numbers for 4 types"),
    (with_tables(vocabulary=b"<S>\nb\n"), FormatError, "vocabulary.txt: lacks </S>, <UNK>"),
    (
        with_tables(vocabulary=b"<S>\n</S>\n<UNK>\n"),
        FormatError,
        "classes.bin: contains line 3 of a vocabulary .* has 3",
    ),
]


@pytest.mark.parametrize(("damage", "error", "complaint"), DAMAGE)
def test_a_damaged_corpus_is_refused_by_the_name_of_the_file(folder, damage, error, complaint):
    damage(folder)
    with pytest.raises(error, match=complaint) as caught:
        Corpus.open(folder)
    assert str(folder) in str(caught.value)
    assert isinstance(caught.value, ElmoreError)


def test_a_changed_byte_is_found_when_checksums_are_compared(folder):
    content = bytearray((folder / "train.bin").read_bytes())
    content[4] ^= 1
    (folder / "train.bin").write_bytes(content)
    Corpus.open(folder)
    with pytest.raises(FormatError, match=r"train\.bin: its SHA-256 is not that of the manifest"):
        Corpus.open(folder, verify=True)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NotFound, match="none: no such folder; make a corpus with: elmore prepare"):
        Corpus.open(tmp_path / "none")
