import json
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.embedding.vector_files import numpy as numpy_file
from elmore.embedding.vectors import open_vectors
from elmore.errors import FormatError

SENTENCES = [["and", "/", "or"], [], ["same"], ["same"]]


def test_npz_is_read_by_numpy_alone(write, vectors_of, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.npz", SENTENCES, numbers=[1, 3, 5, 7], labels=["x", None, None, "yz"])
    with np.load(path) as file:
        arrays = dict(file)
    np.testing.assert_array_equal(
        arrays["vectors"], np.concatenate([vectors_of(1, 3, None)] + [vectors_of(n, 1, None) for n in (5, 7)])
    )
    assert arrays["offsets"].tolist() == [0, 3, 3, 4, 5]
    assert arrays["numbers"].tolist() == [1, 3, 5, 7]
    assert arrays["tokens"].tobytes() == b"and/orsamesame"
    assert arrays["token_offsets"].tolist() == [0, 3, 4, 6, 10, 14]
    assert arrays["labels"].tobytes() == b"xyz"
    assert arrays["label_offsets"].tolist() == [0, 1, 1, 1, 3]
    meta = json.loads(arrays["meta"].item())
    assert (meta["dim"], meta["layers"], meta["dtype"], meta["job"]) == (4, None, "float32", {"model": "tiny"})


def test_npz_has_words_before_layers(write, vectors_of, tmp_path: Path) -> None:
    with np.load(write(tmp_path / "vectors.npz", SENTENCES, layers=3, dtype="float16")) as file:
        vectors = file["vectors"]
        assert "labels" not in file
    assert (vectors.shape, vectors.dtype) == ((5, 3, 4), "<f2")
    np.testing.assert_array_equal(vectors[:3], vectors_of(0, 3, 3).astype("f2").swapaxes(0, 1))


def test_npz_has_the_checksum_of_each_array(write, tmp_path: Path) -> None:
    with zipfile.ZipFile(write(tmp_path / "vectors.npz", SENTENCES, labels=list("abcd"))) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "vectors.npy"


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_crc32_of_both_is_that_of_the_whole(first: bytes, second: bytes) -> None:
    whole = zlib.crc32(first + second)
    assert numpy_file.crc32_of_both(zlib.crc32(first), zlib.crc32(second), len(second)) == whole


def test_npz_maps_aligned_arrays(write, tmp_path: Path) -> None:
    reader = numpy_file.read(write(tmp_path / "vectors.npz", SENTENCES, labels=["a", "b", "c", "d"]))
    for name, array in reader._arrays.items():
        assert isinstance(array, np.memmap), name
        assert array.offset % 64 == 0, name
    reader.close()


def test_npz_without_a_word_is_read(write, tmp_path: Path) -> None:
    for number, sentences in enumerate([[], [[]]]):
        with open_vectors(write(tmp_path / f"{number}.npz", sentences)) as vectors:
            assert [v.shape for v in vectors] == [(0, 4)] * len(sentences)


def test_npz_is_read_after_numpy_saved_it(write, vectors_of, tmp_path: Path) -> None:
    path, again = write(tmp_path / "vectors.npz", SENTENCES), tmp_path / "again.npz"
    with np.load(path) as file:
        np.savez(again, **dict(file))
    with open_vectors(again) as vectors:
        np.testing.assert_array_equal(vectors[0], vectors_of(0, 3, None))
    with np.load(path) as file:
        np.savez_compressed(again, **dict(file))
    with pytest.raises(FormatError, match=r"again.npz: .* is compressed and cannot be mapped"):
        open_vectors(again)


def test_npz_of_another_program_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "foreign.npz"
    np.savez(path, vectors=np.ones((2, 4)))
    with pytest.raises(FormatError, match="not written by elmore: it lacks meta, numbers, offsets"):
        open_vectors(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<xml/>")
    with pytest.raises(FormatError, match=r"foreign.npz: word/document.xml is damaged"):
        open_vectors(path)


def test_npz_with_offsets_that_do_not_fit_is_rejected(write, tmp_path: Path) -> None:
    path = write(tmp_path / "vectors.npz", SENTENCES)
    with np.load(path) as file:
        arrays = dict(file)
    for offsets in ([0, 3, 2, 4, 5], [0, 3, 3, 4], [0, 3, 3, 4, 99], [1, 3, 3, 4, 5]):
        np.savez(path, **{**arrays, "offsets": np.array(offsets)})
        with pytest.raises(FormatError, match="offsets are damaged"):
            open_vectors(path)
