import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from elmore.embedding.sinks import numpy as numpy_sink
from elmore.embedding.vectors import open_vectors
from elmore.errors import FormatError

SENTENCES = [["and", "/", "or"], [], ["same"], ["same"]]


def test_numpy_alone_reads_the_file(spooled, vectors_of, tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    numpy_sink.write(spooled(SENTENCES, numbers=[1, 3, 5, 7], labels=["x", None, None, "yz"]), path)
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


def test_words_come_before_layers_in_the_flat_array(spooled, vectors_of, tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    numpy_sink.write(spooled(SENTENCES, layers=3, dtype="float16"), path)
    with np.load(path) as file:
        vectors = file["vectors"]
        assert "labels" not in file
    assert (vectors.shape, vectors.dtype) == ((5, 3, 4), "<f2")
    np.testing.assert_array_equal(vectors[:3], vectors_of(0, 3, 3).astype("f2").swapaxes(0, 1))


def test_arrays_are_mapped_where_they_lie_and_lie_aligned(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    numpy_sink.write(spooled(SENTENCES, labels=["a", "b", "c", "d"]), path)
    file = numpy_sink.read(path)
    for name, array in file._arrays.items():
        assert isinstance(array, np.memmap), name
        assert array.offset % 64 == 0, name
    file.close()


def test_a_file_without_a_word_is_read_back(spooled, tmp_path: Path) -> None:
    for number, sentences in enumerate([[], [[]]]):
        path = tmp_path / f"{number}.npz"
        numpy_sink.write(spooled(sentences), path)
        with open_vectors(path) as vectors:
            assert [v.shape for v in vectors] == [(0, 4)] * len(sentences)


def test_what_numpy_saves_again_is_still_read(spooled, vectors_of, tmp_path: Path) -> None:
    path, again = tmp_path / "vectors.npz", tmp_path / "again.npz"
    numpy_sink.write(spooled(SENTENCES), path)
    with np.load(path) as file:
        np.savez(again, **dict(file))
    with open_vectors(again) as vectors:
        np.testing.assert_array_equal(vectors[0], vectors_of(0, 3, None))
    with np.load(path) as file:
        np.savez_compressed(again, **dict(file))
    with pytest.raises(FormatError, match=r"again.npz: .* is compressed and cannot be mapped"):
        open_vectors(again)


def test_another_programs_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.npz"
    np.savez(path, vectors=np.ones((2, 4)))
    with pytest.raises(FormatError, match="not written by elmore: it lacks meta, numbers, offsets"):
        open_vectors(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("word/document.xml", "<xml/>")
    with pytest.raises(FormatError, match=r"foreign.npz: word/document.xml is damaged"):
        open_vectors(path)


def test_offsets_that_do_not_fit_are_refused(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    numpy_sink.write(spooled(SENTENCES), path)
    with np.load(path) as file:
        arrays = dict(file)
    for offsets in ([0, 3, 2, 4, 5], [0, 3, 3, 4], [0, 3, 3, 4, 99], [1, 3, 3, 4, 5]):
        np.savez(path, **{**arrays, "offsets": np.array(offsets)})
        with pytest.raises(FormatError, match="offsets are damaged"):
            open_vectors(path)
