import io
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from numpy.typing import NDArray

from elmore.errors import FormatError
from elmore.formats.storage.hdf5_arrays import list_arrays


def numbers(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def written(fill: Callable[[h5py.File], object], **how: Any) -> io.BytesIO:
    """A file that h5py wrote."""
    file = io.BytesIO()
    with h5py.File(file, "w", **how) as content:
        fill(content)
    return file


def by_h5py(path: Path | io.BytesIO) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return arrays


def test_weights_of_the_original_programs_are_read_as_h5py_reads_them(fixtures: Path) -> None:
    paths = sorted(fixtures.rglob("*weights.hdf5"))
    assert len(paths) > 9
    for path in paths:
        expected = by_h5py(path)
        with path.open("rb") as file:
            arrays = list_arrays(file)
            assert list(arrays) == list(expected)
            for name, array in arrays.items():
                assert array.shape == expected[name].shape
                assert np.array_equal(array.read(), expected[name])


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "<f2"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"chunks": True},
        {"chunks": (3, 1, 4)},
        {"compression": "gzip"},
        {"compression": "gzip", "compression_opts": 9, "shuffle": True, "chunks": (2, 3, 2)},
        {"shuffle": True, "chunks": (5, 6, 7)},
        {"maxshape": (None, None, 7)},
    ],
    ids=str,
)
def test_floats_of_any_kind_stored_in_any_usual_way_are_read(dtype: str, how: dict[str, Any]) -> None:
    values = numbers(5, 6, 7).astype(dtype)
    file = written(lambda content: content.create_dataset("a/b", data=values, **how))
    array = list_arrays(file)["a/b"]
    assert array.shape == (5, 6, 7)
    assert array.read().dtype == np.float32
    assert np.array_equal(array.read(), values.astype(np.float32))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(shape=array_shapes(max_dims=4, max_side=9), data=st.data())
def test_chunks_of_any_shape_are_put_together(shape: tuple[int, ...], data: st.DataObject) -> None:
    chunks = tuple(data.draw(st.integers(1, length)) for length in shape)
    values = numbers(*shape)
    file = written(lambda content: content.create_dataset("a", data=values, chunks=chunks, compression="gzip"))
    assert np.array_equal(list_arrays(file)["a"].read(), values)


# Only ASCII: for other names the HDF5 library turns to a newer layout.
names_of_arrays = st.text(st.characters(codec="ascii", exclude_characters="\0/"), min_size=1, max_size=200).filter(
    lambda name: name.strip(".")
)


@given(names=st.lists(names_of_arrays, unique=True, max_size=40))
@settings(deadline=None, max_examples=40)
def test_groups_of_any_size_and_names_of_any_kind_are_listed(names: list[str]) -> None:
    def fill(content: h5py.File) -> None:
        for number, name in enumerate(names):
            content[f"group/{name}"] = np.float32(number)

    arrays = list_arrays(written(fill))
    assert {name: float(array.read()) for name, array in arrays.items()} == {
        f"group/{name}": float(number) for number, name in enumerate(names)
    }


def test_a_large_group_has_a_tree_of_more_than_one_level() -> None:
    def fill(content: h5py.File) -> None:
        for number in range(2000):
            content[f"{number:04}"] = np.float32(number)

    assert [float(array.read()) for array in list_arrays(written(fill)).values()] == list(range(2000))


def test_an_array_that_nobody_reads_may_be_of_any_kind() -> None:
    def fill(content: h5py.File) -> None:
        content["notes"] = "trained on a rainy day"
        content["numbers"] = np.arange(3)
        content["empty"] = np.zeros((0, 3), np.float32)
        content["weights"] = numbers(3)
        content.attrs["author"] = content["weights"].attrs["author"] = "somebody"

    arrays = list_arrays(written(fill))
    assert np.array_equal(arrays["weights"].read(), numbers(3))
    for name, message in (
        ("notes", "contains no floating"),
        ("numbers", "contains no floating"),
        ("empty", "without values"),
    ):
        with pytest.raises(FormatError, match=f"^{name}: .*{message}"):
            arrays[name].read()


def test_what_is_too_large_for_float32_becomes_infinite() -> None:
    array = list_arrays(written(lambda content: content.create_dataset("a", data=[1e300, 1.0])))["a"]
    assert array.read().tolist() == [np.inf, 1.0]


# What is refused


def soft_link(content: h5py.File) -> None:
    content["a"] = h5py.SoftLink("/b")


def external_link(content: h5py.File) -> None:
    content["a"] = h5py.ExternalLink("/etc/secrets.hdf5", "/a")


def virtual(content: h5py.File) -> None:
    layout = h5py.VirtualLayout((2,), "f4")
    layout[:] = h5py.VirtualSource("/etc/secrets.hdf5", "a", (2,))
    content.create_virtual_dataset("a", layout)


def outside(content: h5py.File) -> None:
    content.create_dataset("a", (2,), "f4", external=[("/etc/passwd", 0, 8)])


def circle(content: h5py.File) -> None:
    content["group/back"] = content["/"]


def shared_kind(content: h5py.File) -> None:
    content["kind"] = np.dtype("f4")
    content.create_dataset("a", (2,), content["kind"], data=numbers(2))


REFUSED = {
    "a link": (soft_link, "a is a link to another name"),
    "a link to another file": (external_link, "the group / is written in a newer layout of HDF5"),
    "values of another file": (virtual, "a: its values are stored in an unusual way"),
    "values in a file that is no HDF5": (outside, "a: "),
    "a circle of groups": (circle, "the file is damaged: its groups are nested too deeply"),
    "a kind with a name": (shared_kind, "its header is incomplete, or shares parts with other headers"),
    "values never written": (
        lambda content: content.create_dataset("a", (4,), "f4"),
        "a: its values were never written",
    ),
    "chunks never written": (
        lambda content: content.create_dataset("a", (4, 4), "f4", chunks=(2, 2)),
        "a: its values were never written",
    ),
    "a packing that is not gzip": (
        lambda content: content.create_dataset("a", data=numbers(64), compression="lzf"),
        "a: its values are compressed by the filter lzf; write the file again, with h5py's defaults, or gzip",
    ),
    "checksums": (
        lambda content: content.create_dataset("a", data=numbers(64), chunks=True, fletcher32=True),
        "a: its values are compressed by the filter fletcher32",
    ),
    "whole numbers": (
        lambda content: content.create_dataset("a", data=[1, 2]),
        "a: contains no floating-point numbers",
    ),
    "pairs": (
        lambda content: content.create_dataset("a", data=np.zeros(2, [("x", "f4"), ("y", "f4")])),
        "a: contains no floating-point numbers",
    ),
    "references": (
        lambda content: content.create_dataset("a", data=[content.ref], dtype=h5py.ref_dtype),
        "a: contains no floating-point numbers",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_weights_are_never_stored_in_is_refused(what: str) -> None:
    fill, message = REFUSED[what]
    file = written(fill)
    with pytest.raises(FormatError, match=message):
        _ = [array.read() for array in list_arrays(file).values()]


@pytest.mark.parametrize("how", [{"libver": "latest"}, {"track_order": True}, {"userblock_size": 512}], ids=str)
def test_other_layouts_of_hdf5_are_refused_with_the_remedy(how: dict[str, Any]) -> None:
    with pytest.raises(
        FormatError, match=r"newer layout of HDF5 than h5py's default; write the file again|not an HDF5 file"
    ):
        list_arrays(written(lambda content: content.create_dataset("a", data=numbers(2)), **how))


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", b"<html>404</html>" * 20, bytes(1000)], ids=len)
def test_what_is_no_hdf5_file_is_said(content: bytes) -> None:
    with pytest.raises(FormatError, match="not an HDF5 file"):
        list_arrays(io.BytesIO(content))


def test_a_file_cut_anywhere_is_refused() -> None:
    whole = written(lambda content: content.create_dataset("a/b", data=numbers(40))).getvalue()
    for length in range(0, len(whole), 7):
        with pytest.raises(FormatError, match=r"cut short|not an HDF5 file"):
            list_arrays(io.BytesIO(whole[:length]))


class CountedFile(io.BytesIO):
    """A file that counts how often it is read: the work that a reader does, whatever the machine."""

    reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        return super().read(size)


def test_a_declared_size_beyond_the_file_takes_no_memory_and_no_work() -> None:
    """Shapes and sizes of chunks are set to whatever is wanted in a file that is otherwise sound."""
    for how in ({}, {"chunks": (16, 16)}, {"chunks": (16, 16), "compression": "gzip"}):
        whole = written(lambda content, how=how: content.create_dataset("a", data=np.zeros((32, 48), "f4"), **how))
        content = whole.getvalue()
        for old, new in (
            (struct.pack("<QQ", 32, 48), struct.pack("<QQ", 1 << 40, 1 << 40)),
            (struct.pack("<QQ", 32, 48), struct.pack("<QQ", 1 << 20, 1 << 10)),
            (struct.pack("<III", 16, 16, 4), struct.pack("<III", 1 << 20, 1 << 20, 4)),
        ):
            changed = content.replace(old, new)
            if changed != content:
                file = CountedFile(changed)
                tracemalloc.start()
                with pytest.raises(FormatError):
                    list_arrays(file)["a"].read()
                most = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                assert most < 1 << 20
                assert file.reads < 100


def test_a_structure_that_never_ends_is_given_up_soon() -> None:
    """A tree whose leaves are all the same table, which holds all of its groups again."""

    def fill(content: h5py.File) -> None:
        for number in range(8):
            content.create_group(f"{number}")
            for inner in range(8):
                content[f"{number}/{inner}"] = content["/"]

    file = CountedFile(written(fill).getvalue())
    with pytest.raises(
        FormatError, match=r"the file is damaged: its (groups are nested too deeply|structure is larger)"
    ):
        list_arrays(file)
    assert file.reads < 2000
