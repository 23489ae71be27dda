"""Opening the native library: checks of its version and of the sizes of its structs."""

import ctypes
import os

import pytest

from elmore.engine import native_library as native
from elmore.engine.native_library import NativeLibrary, Precision, opened_native_library, why_unavailable
from elmore.errors import InputError

needs_library = pytest.mark.skipif(not native.LIBRARY.exists(), reason="the native library is not built")


# All other tests of the native kernels are skipped if the library cannot be opened.
@needs_library
@pytest.mark.skipif(os.environ.get("ELMORE_ISA") == "none", reason="ELMORE_ISA excludes the kernels")
def test_library_that_is_built_can_be_opened() -> None:
    assert [why_unavailable(precision) for precision in Precision] == [None, None, None]


@needs_library
def test_structs_have_sizes_of_library() -> None:
    functions = opened_native_library().functions
    for name, struct in native.STRUCTS.items():
        assert functions.elmore_struct_size(name.encode()) == ctypes.sizeof(struct)
    assert functions.elmore_struct_size(b"ElmoreNothing") == 0


@needs_library
@pytest.mark.parametrize("difference", [-1, 1])
def test_library_of_other_version_is_rejected(monkeypatch, difference: int) -> None:
    monkeypatch.setattr(native, "ABI_VERSION", native.ABI_VERSION + difference)
    with pytest.raises(OSError, match=r"_native\.so was built from other sources"):
        NativeLibrary(native.LIBRARY)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (1, MemoryError, "there is not enough memory to run a layer"),
        (2, InputError, "cannot run a layer: a length or an index is out of range"),
        (3, InputError, "cannot run a layer: there is no native kernel for this precision"),
    ],
)
def test_check_status_raises_error_of_library(status: int, error: type[Exception], message: str) -> None:
    native.check_status(0, "run a layer")
    with pytest.raises(error, match=message):
        native.check_status(status, "run a layer")


@needs_library
def test_library_with_other_struct_size_is_rejected(monkeypatch) -> None:
    class Longer(ctypes.Structure):
        _fields_ = [*native.LstmRun._fields_, ("more", ctypes.c_int64)]

    monkeypatch.setitem(native.STRUCTS, "ElmoreLstmRun", Longer)
    with pytest.raises(OSError, match=r"was built from other sources: ElmoreLstmRun has 104 bytes there and 112 here"):
        NativeLibrary(native.LIBRARY)
    native.native_library.cache_clear()
    try:
        assert "was built from other sources" in str(why_unavailable(Precision.FLOAT32))
    finally:
        monkeypatch.undo()
        native.native_library.cache_clear()
    assert why_unavailable(Precision.FLOAT32) is None
