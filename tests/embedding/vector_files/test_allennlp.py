"""The layout of `allennlp elmo`, compared with files that AllenNLP 0.9.0 wrote."""

import json
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.embedding.spool import Spool
from elmore.embedding.vector_files import EmbeddedSentences, VectorType, allennlp
from elmore.embedding.vectors import open_vectors
from elmore.errors import FormatError, InputError


def writer(storage: allennlp.SentenceStorage = "index"):
    return partial(allennlp.Writer, storage=storage)


def vectors_in(file: h5py.File) -> list[np.ndarray]:
    return [file[str(number)][...] for number in range(3)]


@pytest.mark.parametrize(
    ("name", "storage"),
    [
        ("all.hdf5", "index"),
        ("top.hdf5", "index"),
        ("average.hdf5", "index"),
        ("all_forget_sentences.hdf5", "forget"),
        ("all_use_sentence_keys.hdf5", "keys"),
    ],
)
def test_allennlp_writer_writes_the_file_of_allennlp(fixtures: Path, tmp_path: Path, name: str, storage) -> None:
    original = fixtures / "allennlp-cli" / name
    lines = (fixtures / "allennlp-cli" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    with h5py.File(original) as file:
        vectors = [file[line][...] for line in lines] if storage == "keys" else vectors_in(file)
    ours = tmp_path / "ours.hdf5"
    layout = VectorType(32, 3 if vectors[0].ndim == 3 else None)
    words = [line.split() for line in lines]
    with Spool(tmp_path / "s", {}, writer(storage), layout) as spool:
        joined = np.concatenate(vectors, axis=-2)
        spool.append(EmbeddedSentences(range(3), words, [None] * 3, joined, ["00" * 16] * 3))
        spool.finish(ours)
    assert contents(ours) == contents(original)
    # The version of the layout, which decides what programs can read the file.
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
def test_allennlp_reader_reads_words_of_the_originals(fixtures: Path, name: str) -> None:
    lines = (fixtures / "allennlp-cli" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    if "keys" in name:  # in the order of their names
        lines.sort()
    with open_vectors(fixtures / "allennlp-cli" / name) as vectors:
        assert [vectors.tokens(i) for i in range(3)] == [line.split() for line in lines]
        assert [v.shape[-2] for v in vectors] == [len(line.split()) for line in lines]
        assert vectors.numbers.tolist() == [0, 1, 2]
        assert (vectors.labels, vectors.meta) == ([None] * 3, {})


@pytest.mark.parametrize("name", ["all_forget_sentences.hdf5", "bilm_tf_dump_bilm_embeddings.hdf5"])
def test_allennlp_reader_reports_words_that_are_missing(fixtures: Path, name: str) -> None:
    with open_vectors(fixtures / "allennlp-cli" / name) as vectors:
        assert vectors[2].shape == (3, 10, 32)
        with pytest.raises(InputError, match="words of sentence 1 are not in the file"):
            vectors.tokens(1)


@pytest.mark.parametrize("layers", [None, 3])
def test_allennlp_writer_writes_a_dataset_for_each_sentence(write, vectors_of, tmp_path: Path, layers) -> None:
    sentences = [["a", "b"], ["c"], [], ["d"]]
    path = write(tmp_path / "v.hdf5", sentences, layers=layers, dtype="float16", writer=writer())
    with h5py.File(path) as file:
        for number, words in enumerate(sentences):
            np.testing.assert_array_equal(file[str(number)][...], vectors_of(number, len(words), layers).astype("f2"))


def test_allennlp_index_has_the_last_of_equal_sentences(write, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.hdf5", [["a", "b"], ["c"], ["a", "b"]], writer=writer())
    with h5py.File(path) as file:
        assert json.loads(file["sentence_to_index"][0]) == {"a b": "2", "c": "1"}
    with open_vectors(path) as vectors:
        assert vectors.tokens(2) == ["a", "b"]
        with pytest.raises(InputError, match="of equal sentences this layout contains only the last"):
            vectors.tokens(0)


def test_allennlp_reader_splits_a_line_into_as_many_words_as_vectors(write, tmp_path: Path) -> None:
    sentences = [["thin\u2009space", "x"], []]
    path = write(tmp_path / "vectors.hdf5", sentences, writer=writer())
    with open_vectors(path) as vectors:
        assert [vectors.tokens(i) for i in range(2)] == sentences
    # The original stores the line unchanged, and splits it at any white space.
    with h5py.File(path, "a") as file:
        file["sentence_to_index"][0] = json.dumps({"two  \t words": "0"})
    with open_vectors(path) as vectors:
        assert vectors.tokens(0) == ["two", "words"]
    with h5py.File(path, "a") as file:
        file["sentence_to_index"][0] = json.dumps({"some three words": "0"})
    with open_vectors(path) as vectors, pytest.raises(FormatError, match="2 vectors, and its line has another number"):
        vectors.tokens(0)


def test_allennlp_key_with_a_slash_makes_a_group(write, vectors_of, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.hdf5", [["and/or"], ["x"]], writer=writer("keys"))
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["and"]["or"][...], vectors_of(0, 1, None))
    with open_vectors(path) as vectors:
        assert [vectors.tokens(i) for i in range(2)] == [["and/or"], ["x"]]


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
def test_allennlp_writer_names_the_sentence_that_cannot_be_a_key(write, tmp_path: Path, sentences) -> None:
    path = tmp_path / "vectors.hdf5"
    with pytest.raises(InputError, match=r"sentence 1, .* cannot be the name of a dataset"):
        write(path, sentences, writer=writer("keys"))
    assert not path.exists()


def test_allennlp_reader_rejects_a_dataset_without_vectors(tmp_path: Path) -> None:
    path = tmp_path / "vectors.hdf5"
    with h5py.File(path, "w") as file:
        file["0"] = np.arange(3)
    with pytest.raises(FormatError, match=r"'0' contains no vectors: it has the shape \(3,\) and the type int64"):
        open_vectors(path)
    with h5py.File(path, "w") as file:
        file["0/0"] = np.ones((1, 2))
    with pytest.raises(FormatError, match="there is no dataset '0'"):
        open_vectors(path)
