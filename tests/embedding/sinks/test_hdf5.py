import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.embedding.sinks import hdf5
from elmore.errors import FormatError

SENTENCES = [["and", "/", "or"], [], ["same"], ["same"], ["nu\0l", "\ud800", "né"]]


def test_each_sentence_is_a_dataset_named_by_its_number(spooled, vectors_of, tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    hdf5.write(spooled(SENTENCES, numbers=[2, 10, 18, 26, 34]), path)
    with h5py.File(path) as file:
        assert sorted(file) == ["10", "18", "2", "26", "34", "sentences"]
        assert file["2"].dtype == "<f4"
        np.testing.assert_array_equal(file["2"][...], vectors_of(2, 3, None))
        assert file["10"].shape == (0, 4)
        np.testing.assert_array_equal(file["34"][...], vectors_of(34, 3, None))


def test_several_layers_stand_before_the_words(spooled, vectors_of, tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    hdf5.write(spooled(SENTENCES, layers=3), path)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["0"][...], vectors_of(0, 3, 3))
        assert file["1"].shape == (3, 0, 4)


def test_the_file_says_what_it_is(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    hdf5.write(spooled(SENTENCES, layers=3, dtype="float16"), path)
    with h5py.File(path) as file:
        meta = json.loads(file.attrs["meta"])
        assert file["0"].dtype == "<f2"
        assert sorted(file["sentences"]) == ["numbers", "offsets", "token_offsets", "tokens"]
    assert (meta["format"], meta["version"]) == ("elmore vectors", 1)
    assert (meta["dim"], meta["layers"], meta["dtype"]) == (4, 3, "float16")
    assert (meta["sentences"], meta["words"]) == (5, 8)
    assert meta["job"] == {"model": "tiny"}


def test_words_can_be_had_with_h5py_alone(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    hdf5.write(spooled([["ab", "c"], ["dé"]], labels=["x", None]), path)
    with h5py.File(path) as file:
        table = file["sentences"]
        assert table["tokens"][...].tobytes() == "abcdé".encode()
        assert table["token_offsets"][...].tolist() == [0, 2, 3, 6]
        assert table["offsets"][...].tolist() == [0, 2, 3]
        assert table["labels"][...].tobytes() == b"x"
        assert table["label_offsets"][...].tolist() == [0, 1, 1]


def test_any_word_is_read_back(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    hdf5.write(spooled(SENTENCES), path)
    file = hdf5.read(path)
    assert [file.words(i) for i in range(5)] == SENTENCES
    file.close()


def test_tables_that_do_not_fit_are_refused(spooled, tmp_path: Path) -> None:
    path = tmp_path / "vectors.h5"
    hdf5.write(spooled(SENTENCES), path)
    with h5py.File(path, "a") as file:
        del file["sentences/offsets"]
        file["sentences/offsets"] = np.zeros(3, np.int64)
    with pytest.raises(FormatError, match="does not fit the 5 sentences"):
        hdf5.read(path)


FILL_THE_DISK = """
import resource, sys
from pathlib import Path
import numpy as np
from elmore.embedding.sinks import allennlp, hdf5
from elmore.embedding.spool import EmbeddedSentence, Spool
from elmore.errors import ElmoreError

folder = Path(sys.argv[1])
write = {"elmore": hdf5.write, "allennlp": allennlp.write}[sys.argv[2]]
with Spool(folder / "s", {}, dim=64) as spool:
    for number in range(300):
        spool.append(EmbeddedSentence(number, ["word"] * 5, None, np.ones((5, 64), np.float32)))
    spool.commit()
    for size in range(20_000, 520_000, 50_000):
        # No file may grow beyond this: to a program that looks like a disk that is full.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            write(spool, folder / "vectors.h5")
        except ElmoreError as error:
            print(error)
        assert not (folder / "vectors.h5").exists()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    write(spool, folder / "vectors.h5")
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no limit on the size of files here")
@pytest.mark.parametrize("layout", ["elmore", "allennlp"])
def test_a_full_disk_gives_an_error_and_no_file_instead_of_the_librarys_silence_and_crash(
    tmp_path: Path, layout: str
) -> None:
    command = [sys.executable, "-c", FILL_THE_DISK, str(tmp_path), layout]
    child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout.count("cannot be written: File too large") == 10
    with h5py.File(tmp_path / "vectors.h5") as file:
        assert all((file[str(number)][...] == 1).all() for number in range(300))
