"""HDF5 files written without the HDF5 library, read by that library and by Elmore's own reader of weights."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.files.hdf5_output import DATA_OFFSET, append_hdf5, new_hdf5
from elmore.formats.storage.hdf5_arrays import list_arrays

ARRAYS = {
    "f2": np.arange(6, dtype="<f2").reshape(2, 3),
    "f4": np.arange(24, dtype="<f4").reshape(2, 3, 4),
    "f8": np.arange(3, dtype="<f8"),
    "i8": np.array([-(2**63), 0, 2**63 - 1], dtype="<i8"),
    "u1": np.frombuffer(b"\0\xff", np.uint8),
    "empty": np.zeros((3, 0, 2), dtype="<f4"),
    "text": np.array(b"hello"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_hdf5_output_stores_each_type(tmp_path: Path, name: str) -> None:
    with new_hdf5(tmp_path / "a.h5") as output:
        output.add(name, ARRAYS[name])
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file[name].dtype, file[name].shape) == (ARRAYS[name].dtype, ARRAYS[name].shape)
        np.testing.assert_array_equal(file[name][()], ARRAYS[name])


def test_hdf5_output_converts_big_endian_numbers(tmp_path: Path) -> None:
    with new_hdf5(tmp_path / "a.h5") as output:
        output.add("a", np.array([1.5, -2.0], dtype=">f4"))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["a"][...].tolist() == [1.5, -2.0]


def test_hdf5_output_rejects_a_type_without_a_translation(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no type for complex128"), new_hdf5(tmp_path / "a.h5") as output:
        output.add("a", np.zeros(1, complex))


# A symbol table has 8 names, a node of the tree 32 symbol tables, and so on.
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 256, 257, 8192, 8193])
def test_hdf5_output_finds_every_name_at_any_count(tmp_path: Path, count: int) -> None:
    path = tmp_path / "a.h5"
    with new_hdf5(path) as output:
        for number in range(count):
            output.add(str(number), np.full(2, number, dtype="<i8"))
    with h5py.File(path) as file:
        assert sorted(file) == sorted(map(str, range(count)))
        assert all(file[str(number)][1] == number for number in range(0, count, max(count // 300, 1)))
        assert "-" not in file
        assert str(count) not in file


def test_hdf5_output_can_be_changed_by_the_library(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with new_hdf5(path) as output:
        for number in range(100):
            output.add(str(number), np.array([number], dtype="<i8"))
        output.add_text("text", "short")
    with h5py.File(path, "a") as file:
        del file["50"]
        for number in range(100, 200):
            file[str(number)] = np.array([number])
        file["7"].attrs["note"] = "a longer text than fits anywhere" * 10
        file["text"][0] = "another text"
    with h5py.File(path) as file:
        assert sorted(file) == sorted([*map(str, {*range(200)} - {50}), "text"])
        assert [file[str(number)][0] for number in range(51, 200)] == list(range(51, 200))
        assert file["text"][0] == b"another text"


@pytest.mark.parametrize("characters", [0, 10, *range(4040, 4080), 100_000])
def test_hdf5_output_stores_a_text_of_any_length(tmp_path: Path, characters: int) -> None:
    path = tmp_path / "a.h5"
    with new_hdf5(path) as output:
        output.add_text("text", "é" + "x" * characters)
        output.add("behind", np.ones(3))
    with h5py.File(path) as file:
        assert file["text"].dtype == h5py.string_dtype()
        assert file["text"].shape == (1,)
        assert file["text"][0].decode() == "é" + "x" * characters
        assert file["behind"][...].tolist() == [1, 1, 1]


def test_hdf5_output_makes_groups_of_slashes_as_the_library(tmp_path: Path) -> None:
    names = ["a/b/c", "a/b/d", "x", "a//e", "./y", "z/", "é/ü"]
    with new_hdf5(tmp_path / "ours.h5") as output, h5py.File(tmp_path / "theirs.h5", "w") as theirs:
        for number, name in enumerate(names):
            output.add(name, np.array([number], dtype="<i8"))
            theirs[name] = [number]
    found = []
    for path in ("ours.h5", "theirs.h5"):
        with h5py.File(tmp_path / path) as file:
            everything: dict[str, object] = {}
            file.visititems(lambda name, item, e=everything: e.update({name: getattr(item, "shape", "group")}))
            found.append((everything, [file[name][0] for name in names]))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([""], "the name is empty"),
        (["."], "the name is empty"),
        (["a\0b"], "a NUL"),
        (["a/" * 200 + "b"], "too many slashes"),
        (["a", "a"], "exists already"),
        (["a", "a/b"], "'a' is a dataset already"),
        (["a/b", "a"], "exists already"),
    ],
)
def test_hdf5_output_rejects_a_name_that_cannot_be(tmp_path: Path, names: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint), new_hdf5(tmp_path / "a.h5") as output:  # noqa: PT012
        for name in names:
            output.add(name, np.ones(1))


def test_hdf5_output_describes_values_that_were_written_before(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    values = np.arange(1000, dtype="<f4")
    path.write_bytes(bytes(DATA_OFFSET) + values.tobytes())
    with append_hdf5(path) as output:
        output.describe("values", values.dtype, (10, 100), DATA_OFFSET)
        output.add_blocks("numbers", np.dtype("<i8"), (5,), iter([np.arange(3), np.arange(3, 5)]))
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["values"][...], values.reshape(10, 100))
        assert file["numbers"][...].tolist() == [0, 1, 2, 3, 4]
        assert file["values"].id.get_offset() == DATA_OFFSET
        assert file["numbers"].id.get_offset() % 64 == 0


def test_hdf5_output_is_no_hdf5_file_before_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with pytest.raises(KeyboardInterrupt), new_hdf5(path) as output:  # noqa: PT012
        output.add("a", np.ones(1000))
        raise KeyboardInterrupt
    assert not h5py.is_hdf5(path)


def test_hdf5_output_is_equal_for_equal_data(tmp_path: Path) -> None:
    for name in ("a.h5", "b.h5"):
        with new_hdf5(tmp_path / name) as output:
            for key in ("z", "a/b", "a/a"):
                output.add(key, np.ones(3))
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_hdf5_output_is_read_as_weights(tmp_path: Path) -> None:
    arrays = {f"RNN_{k}/RNN/cell/W_{k}": np.random.default_rng(k).random((3, 4), np.float32) for k in range(20)}
    with new_hdf5(tmp_path / "a.h5") as output:
        for name, array in arrays.items():
            output.add(name, array)
    with (tmp_path / "a.h5").open("rb") as file:
        found = list_arrays(file)
        assert found.keys() == arrays.keys()
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name].read(), array)
