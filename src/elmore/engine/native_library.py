"""Open the shared library of native CPU kernels and call its inference functions.

`native/kernels.h` describes the structs and functions. The library is built when the package is installed and a C++
compiler is present. Without it Elmore uses other engines. `elmore.nn.native_training_library` has the training
functions of the same library.
"""

import ctypes
import os
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from elmore.engine.threads import get_threads
from elmore.errors import InputError

LIBRARY = Path(__file__).with_name("_native.so")
ABI_VERSION = 5  # as in `native/kernels.cpp`
CELLS_PER_BLOCK = 256  # as in `native/kernels.h`
INSTRUCTION_SETS = ("portable", "neon", "avx2", "avx512", "none")  # of ELMORE_ISA, which sets the highest one used
HOW_TO_BUILD = "install a C++ compiler (g++), then install elmore again from its source distribution"

OUT_OF_MEMORY, WRONG_INPUT = 1, 2  # of `ElmoreStatus`

Array = NDArray[Any]


class Precision(IntEnum):
    """The number type of products. Sums, cells and outputs are always float32."""

    FLOAT32 = 0
    BFLOAT16 = 1
    INT8 = 2

    @property
    def group(self) -> int:
        """How many rows of a matrix one instruction multiplies."""
        return (1, 2, 4)[self]


class Matrix(ctypes.Structure):
    """`ElmoreMatrix`."""

    _fields_: ClassVar = [("panels", c_void_p), ("scales", c_void_p), ("offsets", c_void_p)]


class Lstm(ctypes.Structure):
    """`ElmoreLstm`."""

    _fields_: ClassVar = [
        ("directions", c_int64),
        ("vector_dim", c_int64),
        ("cell_dim", c_int64),
        ("input", Matrix),
        ("recurrent", Matrix),
        ("projection", Matrix),
        ("bias", c_void_p),
        ("cell_clip", c_float),
        ("projection_clip", c_float),
    ]


class LstmRun(ctypes.Structure):
    """`ElmoreLstmRun`."""

    _fields_: ClassVar = [
        ("steps", c_int64),
        ("rows", c_int64),
        ("state_rows", c_int64),
        ("lengths", POINTER(c_int64)),
        ("starts", c_void_p),
        ("inputs", c_void_p),
        ("h", c_void_p),
        ("c", c_void_p),
        ("outputs", c_void_p),
        ("last_h", c_void_p),
        ("last_c", c_void_p),
        ("gates", c_void_p),
        ("cells", c_void_p),
    ]


class Dense(ctypes.Structure):
    """`ElmoreDense`."""

    _fields_: ClassVar = [
        ("depth", c_int64),
        ("columns", c_int64),
        ("matrix", Matrix),
        ("bias", c_void_p),
        ("highway", c_int32),
    ]


class FilterTables(ctypes.Structure):
    """`ElmoreFilters`."""

    _fields_: ClassVar = [
        ("characters", c_int64),
        ("groups", c_int64),
        ("widths", POINTER(c_int64)),
        ("counts", POINTER(c_int64)),
        ("tables", c_void_p),
        ("bias", c_void_p),
        ("tanh", c_int32),
    ]


STRUCTS = {
    "ElmoreMatrix": Matrix,
    "ElmoreLstm": Lstm,
    "ElmoreLstmRun": LstmRun,
    "ElmoreDense": Dense,
    "ElmoreFilters": FilterTables,
}


class NativeLibrary:
    """The inference functions of the library, and the precisions that this CPU supports."""

    def __init__(self, path: Path) -> None:
        self.functions = ctypes.CDLL(str(path))
        if self.functions.elmore_abi_version() != ABI_VERSION:
            raise OSError(f"{path.name} was built from other sources")
        check_struct_sizes(self.functions.elmore_struct_size, STRUCTS)
        self.functions.elmore_run_lstm.argtypes = [c_int, POINTER(Lstm), POINTER(LstmRun), c_int]
        self.functions.elmore_run_dense.argtypes = [
            c_int, POINTER(Dense), c_void_p, c_int64, c_int64, c_void_p, c_int64, c_int,
        ]  # fmt: skip
        self.functions.elmore_pool_characters.argtypes = [
            POINTER(FilterTables), c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_int,
        ]  # fmt: skip
        self.functions.elmore_instructions.restype = c_char_p
        self._lanes = {precision: int(self.functions.elmore_lanes(int(precision))) for precision in Precision}

    def lanes(self, precision: Precision) -> int:
        """How many float32 numbers a vector of the kernel for a precision holds; 0 if this CPU has no such kernel."""
        return self._lanes[precision]

    def instructions(self, precision: Precision) -> str:
        """The instructions that the kernel for a precision uses, such as `AVX2`; empty if there is no kernel."""
        name: bytes | None = self.functions.elmore_instructions(int(precision))
        return "" if name is None else name.decode()

    def run_lstm(self, precision: Precision, layer: Lstm, run: LstmRun) -> None:
        """Run a layer over packed rows."""
        check_status(self.functions.elmore_run_lstm(precision, layer, run, get_threads()), "run an LSTM layer")

    def run_dense(self, precision: Precision, layer: Dense, x: Array, out: Array) -> None:
        """Run a dense layer or a highway over the rows of x (W, K) and write out (W, N)."""
        rows = (x.ctypes.data, _row_stride(x), len(x))
        out_rows = (out.ctypes.data, _row_stride(out))
        status = self.functions.elmore_run_dense(precision, layer, *rows, *out_rows, get_threads())
        check_status(status, "encode words")

    def pool_characters(self, filters: FilterTables, characters: Array, out: Array) -> None:
        """Write the activated responses of all filters for characters (W, M) to the first columns of out."""
        words = (characters.ctypes.data, *characters.shape)
        status = self.functions.elmore_pool_characters(
            filters, *words, out.ctypes.data, None, _row_stride(out), get_threads()
        )
        if status == WRONG_INPUT:
            raise IndexError(f"a word has a character beyond the {filters.characters} of the model's table")
        check_status(status, "encode words")


def check_struct_sizes(size_in_library: Any, structs: Mapping[str, type[ctypes.Structure]]) -> None:
    """Raise OSError unless each ctypes struct is as large as the struct of this name in the library."""
    size_in_library.argtypes, size_in_library.restype = [c_char_p], c_size_t
    for name, struct in structs.items():
        size = size_in_library(name.encode())
        if size != ctypes.sizeof(struct):
            raise OSError(
                f"it was built from other sources: {name} has {size} bytes there and {ctypes.sizeof(struct)} here"
            )


def check_status(status: int, purpose: str) -> None:
    """Raise the exception for an `ElmoreStatus`."""
    if status == OUT_OF_MEMORY:
        raise MemoryError(f"there is not enough memory to {purpose}")
    if status == WRONG_INPUT:
        raise InputError(f"cannot {purpose}: a length or an index is out of range")
    if status:
        raise InputError(f"cannot {purpose}: there is no native kernel for this precision")


def _row_stride(array: Array) -> int:
    """The distance of two rows, in numbers."""
    return array.strides[0] // array.itemsize


@cache
def native_library() -> NativeLibrary | str:
    """Return the opened library, or the reason why there is none.

    The environment variable `ELMORE_NATIVE_LIBRARY` names another file: one that was built with a sanitizer, in tests.
    """
    path = Path(os.environ.get("ELMORE_NATIVE_LIBRARY") or LIBRARY)
    if not path.exists():
        return f"not built; {HOW_TO_BUILD}"
    if (limit := os.environ.get("ELMORE_ISA")) and limit not in INSTRUCTION_SETS:
        return f"ELMORE_ISA is {limit!r}; it must be one of {', '.join(INSTRUCTION_SETS)}"
    try:
        return NativeLibrary(path)
    except (OSError, AttributeError) as error:
        return f"cannot be opened ({error}); {HOW_TO_BUILD}"


def why_unavailable(precision: Precision) -> str | None:
    """Return why the native kernels for a precision cannot run here; None if they can."""
    library = native_library()
    if isinstance(library, str):
        return library
    return None if library.lanes(precision) else "ELMORE_ISA=none excludes them"


def opened_native_library() -> NativeLibrary:
    """Return the library, where `why_unavailable` has returned None before."""
    library = native_library()
    assert isinstance(library, NativeLibrary)
    return library


def array_pointer(array: Array | None) -> int | None:
    """Return the address of an array's numbers; None for None. The array must outlive each call that uses it."""
    return None if array is None else array.ctypes.data
