"""The layout of `allennlp elmo`, compared with files that AllenNLP 0.9.0 wrote."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.embedding.sinks import allennlp
from elmore.embedding.spool import EmbeddedSentence, Spool
from elmore.embedding.vectors import open_vectors
from elmore.errors import FormatError, InputError


def vectors_in(file: h5py.File) -> list[np.ndarray]:
    return [file[str(number)][...] for number in range(3)]


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("all.hdf5", "index"),
        ("top.hdf5", "index"),
        ("average.hdf5", "index"),
        ("all_forget_sentences.hdf5", "forget"),
        ("all_use_sentence_keys.hdf5", "keys"),
    ],
)
def test_the_file_is_as_allennlp_writes_it(fixtures: Path, tmp_path: Path, name: str, sentences) -> None:
    original = fixtures / "allennlp-cli" / name
    lines = (fixtures / "allennlp-cli" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(original) as file:
        vectors = [file[line][...] for line in lines] if sentences == "keys" else vectors_in(file)
    ours = tmp_path / "ours.hdf5"
    with Spool(tmp_path / "s", {}, dim=32, layers=3 if vectors[0].ndim == 3 else None) as spool:
        for number, line in enumerate(lines):
            spool.append(EmbeddedSentence(number, line.split(), None, vectors[number]))
        allennlp.write(spool, ours, sentences=sentences)
    assert contents(ours) == contents(original)
    # The version of the layout, on which it hangs who can read the file.
    assert ours.read_bytes()[:9] == original.read_bytes()[:9]


def contents(path: Path) -> dict[str, object]:
    """Everything a reader can see."""
    with h5py.File(path) as file:
        assert not file.attrs
        return {
            name: (dataset.shape, dataset.dtype, dataset.dtype.metadata, dataset[...].tolist())
            for name, dataset in file.items()
        }


@pytest.mark.parametrize("name", ["all.hdf5", "all_batch_size_2.hdf5", "average.hdf5", "all_use_sentence_keys.hdf5"])
def test_the_originals_files_are_read_with_their_words(fixtures: Path, name: str) -> None:
    lines = (fixtures / "allennlp-cli" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    if "keys" in name:  # in the order of their names, as nothing else is known
        lines.sort()
    with open_vectors(fixtures / "allennlp-cli" / name) as vectors:
        assert [vectors.words(i) for i in range(3)] == [line.split() for line in lines]
        assert [v.shape[-2] for v in vectors] == [len(line.split()) for line in lines]
        assert vectors.numbers.tolist() == [0, 1, 2]
        assert (vectors.labels, vectors.meta) == ([None] * 3, {})


@pytest.mark.parametrize("name", ["all_forget_sentences.hdf5", "bilm_tf_dump_bilm_embeddings.hdf5"])
def test_words_that_are_not_in_a_file_are_asked_for_in_vain(fixtures: Path, name: str) -> None:
    with open_vectors(fixtures / "allennlp-cli" / name) as vectors:
        assert vectors[2].shape == (3, 10, 32)
        with pytest.raises(InputError, match="words of sentence 1 are not in the file"):
            vectors.words(1)


def test_of_equal_sentences_the_last_is_in_the_index(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.hdf5"
    allennlp.write(spooled([["a", "b"], ["c"], ["a", "b"]]), path)
    with h5py.File(path) as file:
        assert json.loads(file["sentence_to_index"][0]) == {"a b": "2", "c": "1"}
    with open_vectors(path) as vectors:
        assert vectors.words(2) == ["a", "b"]
        with pytest.raises(InputError, match="of equal sentences this layout keeps only the last"):
            vectors.words(0)


def test_words_are_cut_as_their_vectors_are_counted(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.hdf5"
    sentences = [["thin\u2009space", "x"], []]
    allennlp.write(spooled(sentences), path)
    with open_vectors(path) as vectors:
        assert [vectors.words(i) for i in range(2)] == sentences
    # The original keeps the line as it stood in the input, and cuts it at any blanks.
    with h5py.File(path, "a") as file:
        file["sentence_to_index"][0] = json.dumps({"two  \t words": "0"})
    with open_vectors(path) as vectors:
        assert vectors.words(0) == ["two", "words"]
    with h5py.File(path, "a") as file:
        file["sentence_to_index"][0] = json.dumps({"some three words": "0"})
    with open_vectors(path) as vectors, pytest.raises(FormatError, match="2 vectors, and its line not as many words"):
        vectors.words(0)


def test_a_slash_in_a_key_makes_a_group(spooled, vectors_of, tmp_path: Path) -> None:
    path = tmp_path / "vectors.hdf5"
    allennlp.write(spooled([["and/or"], ["x"]]), path, sentences="keys")
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["and"]["or"][...], vectors_of(0, 1, None))
    with open_vectors(path) as vectors:
        assert [vectors.words(i) for i in range(2)] == [["and/or"], ["x"]]


@pytest.mark.parametrize(
    "sentences",
    [
        [["a"], ["a"]],
        [["a"], ["a/b"]],
        [["a/b"], ["a"]],
        [["a"], []],
        [["a"], ["."]],
        [["a"], ["a\0b"]],
        [["a"], ["\ud800"]],
    ],
)
def test_what_cannot_be_a_key_is_an_error_that_names_the_sentence(spooled, tmp_path: Path, sentences) -> None:
    path = tmp_path / "vectors.hdf5"
    with pytest.raises(InputError, match=r"sentence 1, .* cannot be the name of a dataset"):
        allennlp.write(spooled(sentences), path, sentences="keys")
    assert not path.exists()
