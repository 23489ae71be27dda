import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.embedding.vector_files import hdf5
from elmore.embedding.vectors import open_vectors
from elmore.errors import FormatError

SENTENCES = [["and", "/", "or"], [], ["same"], ["same"], ["nu\0l", "\ud800", "né"]]


def test_hdf5_has_one_dataset_with_the_vectors_of_all_words(write, vectors_of, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.h5", SENTENCES, numbers=[2, 10, 18, 26, 34])
    with h5py.File(path) as file:
        assert sorted(file) == ["meta", "numbers", "offsets", "token_offsets", "tokens", "vectors"]
        assert (file["vectors"].dtype, file["vectors"].shape) == ("<f4", (8, 4))
        expected = [vectors_of(number, words, None) for number, words in ((2, 3), (18, 1), (26, 1), (34, 3))]
        np.testing.assert_array_equal(file["vectors"][...], np.concatenate(expected))
        assert file["offsets"][...].tolist() == [0, 3, 3, 4, 5, 8]
        assert file["numbers"][...].tolist() == [2, 10, 18, 26, 34]


def test_hdf5_has_words_before_layers(write, vectors_of, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.h5", SENTENCES, layers=3, dtype="float16")
    with h5py.File(path) as file:
        assert (file["vectors"].dtype, file["vectors"].shape) == ("<f2", (8, 3, 4))
        np.testing.assert_array_equal(file["vectors"][:3], vectors_of(0, 3, 3).astype("f2").swapaxes(0, 1))


def test_hdf5_describes_itself(write, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.h5", SENTENCES, layers=3, dtype="float16")
    with h5py.File(path) as file:
        meta = json.loads(file["meta"][()])
    assert (meta["format"], meta["version"]) == ("elmore vectors", 1)
    assert (meta["dim"], meta["layers"], meta["dtype"]) == (4, 3, "float16")
    assert (meta["sentences"], meta["words"]) == (5, 8)
    assert meta["job"] == {"model": "tiny"}


def test_hdf5_describes_a_job_of_many_files(write, tmp_path: Path) -> None:
    job = {"input": [f"book-{number}.txt" for number in range(10_000)]}  # more than an attribute can contain
    with open_vectors(write(tmp_path / "vectors.h5", SENTENCES, job=job)) as vectors:
        assert vectors.meta["job"] == job


def test_hdf5_words_are_read_with_h5py_alone(write, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.h5", [["ab", "c"], ["dé"]], labels=["x", None])
    with h5py.File(path) as file:
        assert file["tokens"][...].tobytes() == "abcdé".encode()
        assert file["token_offsets"][...].tolist() == [0, 2, 3, 6]
        assert file["labels"][...].tobytes() == b"x"
        assert file["label_offsets"][...].tolist() == [0, 1, 1]


def test_hdf5_maps_its_arrays(write, tmp_path: Path) -> None:
    reader = hdf5.read(write(tmp_path / "vectors.h5", SENTENCES))
    for name in ("vectors", "tokens", "token_offsets"):
        assert isinstance(reader._arrays[name], np.memmap), name
        assert reader._arrays[name].offset % 64 == 0, name
    reader.close()


def test_hdf5_is_read_after_another_program_compressed_it(write, vectors_of, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.h5", SENTENCES, layers=3)
    with h5py.File(path, "a") as file:
        for name in ("vectors", "tokens"):
            values = file[name][...]
            del file[name]
            file.create_dataset(name, data=values, compression="gzip")
    with open_vectors(path) as vectors:
        np.testing.assert_array_equal(vectors[4], vectors_of(4, 3, 3))
        assert [vectors.tokens(i) for i in range(5)] == SENTENCES


def test_hdf5_rejects_offsets_that_do_not_fit(write, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.h5", SENTENCES)
    with h5py.File(path, "a") as file:
        del file["offsets"]
        file["offsets"] = np.zeros(3, np.int64)
    with pytest.raises(FormatError, match="its offsets are damaged"):
        hdf5.read(path)


def write_earlier_layout(path: Path, *, layers: int | None = None) -> None:
    """A file as Elmore wrote it before: a dataset for each sentence, and a group."""
    shape = (3, 4) if layers is None else (layers, 3, 4)
    meta = {"format": "elmore vectors", "version": 1, "dim": 4, "layers": layers, "dtype": "float32", "job": {}}
    with h5py.File(path, "w", libver=("v108", "v108")) as file:
        file.attrs["meta"] = np.bytes_(json.dumps(meta).encode())
        file["2"] = np.ones(shape, np.float32)
        file["10"] = np.zeros((*shape[:-2], 0, 4), np.float32)
        file["sentences/numbers"] = np.array([2, 10])
        file["sentences/offsets"] = np.array([0, 3, 3])
        file["sentences/tokens"] = np.frombuffer(b"and/or", np.uint8)
        file["sentences/token_offsets"] = np.array([0, 3, 4, 6])
        file["sentences/labels"] = np.frombuffer(b"x", np.uint8)
        file["sentences/label_offsets"] = np.array([0, 0, 1])


@pytest.mark.parametrize("layers", [None, 3])
def test_hdf5_reads_the_earlier_layout(tmp_path: Path, layers: int | None) -> None:
    path = tmp_path / "vectors.h5"
    write_earlier_layout(path, layers=layers)
    with open_vectors(path) as vectors:
        assert vectors.numbers.tolist() == [2, 10]
        assert (vectors.tokens(0), vectors.tokens(1)) == (["and", "/", "or"], [])
        assert vectors.labels == [None, "x"]
        assert (vectors[0] == 1).all()
        assert vectors[1].shape == ((0, 4) if layers is None else (3, 0, 4))
        assert vectors.meta["dtype"] == "float32"


def test_hdf5_rejects_a_damaged_earlier_layout(tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    write_earlier_layout(path)
    with h5py.File(path, "a") as file:
        del file["sentences/offsets"]
        file["sentences/offsets"] = np.zeros(7, np.int64)
    with pytest.raises(FormatError, match="does not fit the 2 sentences"):
        hdf5.read(path)
