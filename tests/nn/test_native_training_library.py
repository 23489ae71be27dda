"""Opening the training functions of the native library: checks of the sizes of their structs."""

import ctypes

import pytest

from elmore.engine.native_library import Precision, opened_native_library, why_unavailable
from elmore.nn import native_training_library as training
from elmore.nn.native_training_library import NativeTrainingLibrary, why_training_unavailable

pytestmark = pytest.mark.skipif(why_unavailable(Precision.FLOAT32) is not None, reason="needs the native kernels")


def test_training_structs_have_sizes_of_library() -> None:
    size_in_library = opened_native_library().functions.elmore_training_struct_size
    for name, struct in training.STRUCTS.items():
        assert size_in_library(name.encode()) == ctypes.sizeof(struct)
    assert size_in_library(b"ElmoreNothing") == 0


@pytest.mark.parametrize("name", training.STRUCTS)
def test_training_library_with_other_struct_size_is_rejected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(ctypes.Structure):
        _fields_ = [*training.STRUCTS[name]._fields_, ("more", ctypes.c_int64)]

    monkeypatch.setitem(training.STRUCTS, name, Longer)
    with pytest.raises(OSError, match=rf"was built from other sources: {name} has \d+ bytes there and \d+ here"):
        NativeTrainingLibrary(opened_native_library())
    training.native_training_library.cache_clear()
    try:
        assert "was built from other sources" in str(why_training_unavailable())
    finally:
        monkeypatch.undo()
        training.native_training_library.cache_clear()
    assert why_training_unavailable() is None
