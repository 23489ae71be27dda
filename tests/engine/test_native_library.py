"""Opening the native library: checks of its version and of the sizes of its structs."""

import ctypes

import pytest

from elmore.engine import native_library as native
from elmore.engine.native_library import NativeLibrary, Precision, opened_native_library, why_unavailable

pytestmark = pytest.mark.skipif(why_unavailable(Precision.FLOAT32) is not None, reason="needs the native kernels")


def test_structs_have_sizes_of_library() -> None:
    functions = opened_native_library().functions
    for name, struct in native.STRUCTS.items():
        assert functions.elmore_struct_size(name.encode()) == ctypes.sizeof(struct)
    assert functions.elmore_struct_size(b"ElmoreNothing") == 0


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
