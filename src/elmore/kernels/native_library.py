"""The shared library of the native CPU kernels, found, checked and opened; `native/kernels.h` has its doors.

It is built when the package is installed, where there is a C++ compiler, and lies beside this file. Without it
everything works, by the other kernels.
"""

import ctypes
import platform
from ctypes import POINTER, c_float, c_int, c_int32, c_int64, c_void_p
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from elmore.kernels.torch_threads import native_threads

LIBRARY = Path(__file__).with_name("_native.so")
ABI_VERSION = 3  # of `native/kernels.cpp`
CELLS_AT_ONCE = 256  # of `native/kernels.h`

BUILT_FOR = ("Linux", "x86_64")  # by `setup.py`
HOW_TO_BUILD = "install a C++ compiler (g++), then install elmore again from its source distribution"


class Number(IntEnum):
    """In which form numbers are multiplied."""

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


class Reading(ctypes.Structure):
    """`ElmoreReading`."""

    _fields_: ClassVar = [
        ("steps", c_int64),
        ("rows", c_int64),
        ("lengths", POINTER(c_int64)),
        ("inputs", c_void_p),
        ("h", c_void_p),
        ("c", c_void_p),
        ("outputs", c_void_p),
        ("last_h", c_void_p),
        ("last_c", c_void_p),
        ("gates", c_void_p),
        ("cells", c_void_p),
    ]


class LstmGradients(ctypes.Structure):
    """`ElmoreLstmGradients`."""

    _fields_: ClassVar = [
        ("directions", c_int64),
        ("vector_dim", c_int64),
        ("cell_dim", c_int64),
        ("back_input", c_void_p),
        ("back_recurrent", c_void_p),
        ("back_projection", c_void_p),
        ("cell_clip", c_float),
        ("projection_clip", c_float),
        ("steps", c_int64),
        ("rows", c_int64),
        ("lengths", POINTER(c_int64)),
        ("inputs", c_void_p),
        ("h", c_void_p),
        ("outputs", c_void_p),
        ("gates", c_void_p),
        ("cells", c_void_p),
        ("d_outputs", c_void_p),
        ("d_inputs", c_void_p),
        ("d_h", c_void_p),
        ("d_c", c_void_p),
        ("d_input", c_void_p),
        ("d_recurrent", c_void_p),
        ("d_bias", c_void_p),
        ("d_projection", c_void_p),
    ]


class Product(ctypes.Structure):
    """`ElmoreProduct`."""

    _fields_: ClassVar = [
        ("rows", c_int64),
        ("depth", c_int64),
        ("columns", c_int64),
        ("left", c_void_p),
        ("left_row_stride", c_int64),
        ("left_depth_stride", c_int64),
        ("right", c_void_p),
        ("right_depth_stride", c_int64),
        ("right_column_stride", c_int64),
        ("out", c_void_p),
        ("out_stride", c_int64),
        ("adds", c_int32),
    ]


class HighwayParts(ctypes.Structure):
    """`ElmoreHighway`."""

    _fields_: ClassVar = [
        ("rows", c_int64),
        ("columns", c_int64),
        ("x", c_void_p),
        ("bias", c_void_p),
        ("both", c_void_p),
        ("out", c_void_p),
        ("d_out", c_void_p),
        ("d_x", c_void_p),
        ("d_both", c_void_p),
        ("d_bias", c_void_p),
    ]


class Softmax(ctypes.Structure):
    """`ElmoreSoftmax`."""

    _fields_: ClassVar = [
        ("rows", c_int64),
        ("vector_dim", c_int64),
        ("candidates", c_int64),
        ("hidden", c_void_p),
        ("weights", c_void_p),
        ("back_weights", c_void_p),
        ("offsets", c_void_p),
        ("target_logits", c_void_p),
        ("target_columns", c_void_p),
        ("highest", c_void_p),
        ("sums", c_void_p),
        ("d_hidden", c_void_p),
        ("d_weights", c_void_p),
        ("d_offsets", c_void_p),
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


class NativeLibrary:
    """The functions of the library, and what this machine can compute with them."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        if self._library.elmore_abi_version() != ABI_VERSION:
            raise OSError(f"{path.name} was built from other sources")
        self._library.elmore_run_lstm.argtypes = [c_int, POINTER(Lstm), POINTER(Reading), c_int]
        self._library.elmore_run_dense.argtypes = [
            c_int, POINTER(Dense), c_void_p, c_int64, c_int64, c_void_p, c_int64, c_int,
        ]  # fmt: skip
        self._library.elmore_pool_characters.argtypes = [
            POINTER(FilterTables), c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_int,
        ]  # fmt: skip
        self._library.elmore_pool_characters_backward.argtypes = [
            POINTER(FilterTables), c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int,
        ]  # fmt: skip
        self._library.elmore_pool_characters_backward.restype = None
        self._library.elmore_run_lstm_backward.argtypes = [POINTER(LstmGradients), c_int]
        self._library.elmore_multiply.argtypes = [POINTER(Product), c_int]
        self._library.elmore_run_softmax.argtypes = [POINTER(Softmax), c_int]
        self._library.elmore_run_highway.argtypes = [POINTER(HighwayParts), c_int]
        self._library.elmore_run_highway.restype = None
        self._lanes = {number: int(self._library.elmore_lanes(int(number))) for number in Number}

    def lanes(self, number: Number) -> int:
        """How many float32 a vector holds in the kernel for a kind of number; 0 where there is none for this CPU."""
        return self._lanes[number]

    def run_lstm(self, number: Number, layer: Lstm, reading: Reading) -> None:
        """Run a layer on as many threads as torch has."""
        if self._library.elmore_run_lstm(number, layer, reading, native_threads()):
            raise MemoryError("there is not enough memory to run an LSTM layer")

    def run_dense(self, number: Number, layer: Dense, x: Tensor, out: Tensor) -> None:
        """Rows of x (W, K) through a dense layer or a highway into out (W, N); numbers of a row lie side by side."""
        rows = (x.data_ptr(), x.stride(0), len(x))
        if self._library.elmore_run_dense(number, layer, *rows, out.data_ptr(), out.stride(0), native_threads()):
            raise MemoryError("there is not enough memory to encode words")

    def pool_characters(
        self, filters: FilterTables, characters: Tensor, out: Tensor, positions: Tensor | None = None
    ) -> None:
        """The activated responses of all filters, in the first columns of out, for characters (W, M).

        With positions, of the shape of out, those are filled too, and the responses are not activated.
        """
        where = None if positions is None else positions.data_ptr()
        words = (characters.data_ptr(), *characters.shape, out.data_ptr(), where, out.stride(0))
        if self._library.elmore_pool_characters(filters, *words, native_threads()):
            raise IndexError(f"a word has a character beyond the {filters.characters} of the model's table")

    def pool_characters_backward(
        self, filters: FilterTables, characters: Tensor, d_pooled: Tensor, positions: Tensor, d_tables: Tensor
    ) -> None:
        """Add the gradients of responses to those of the tables."""
        gradients = (d_pooled.data_ptr(), positions.data_ptr(), d_pooled.stride(0), d_tables.data_ptr())
        words = (characters.data_ptr(), *characters.shape)
        self._library.elmore_pool_characters_backward(filters, *words, *gradients, native_threads())

    def run_lstm_backward(self, gradients: LstmGradients) -> None:
        """Fill the gradients of a layer."""
        if self._library.elmore_run_lstm_backward(gradients, native_threads()):
            raise MemoryError("there is not enough memory for the gradients of an LSTM layer")

    def multiply(self, product: Product) -> None:
        """Make a product of two matrices."""
        if self._library.elmore_multiply(product, native_threads()):
            raise MemoryError("there is not enough memory to multiply")

    def run_highway(self, parts: HighwayParts) -> None:
        """The pointwise parts of a highway, forth or back."""
        self._library.elmore_run_highway(parts, native_threads())

    def run_softmax(self, softmax: Softmax) -> None:
        """The softmax over candidates, and all its gradients."""
        if self._library.elmore_run_softmax(softmax, native_threads()):
            raise MemoryError("there is not enough memory for a softmax")


@cache
def native_library() -> NativeLibrary | str:
    """The library, or why there is none."""
    if not LIBRARY.exists():
        if (system := (platform.system(), platform.machine())) != BUILT_FOR:
            return (
                f"there are none for {' on '.join(reversed(system))}, but for {' on '.join(reversed(BUILT_FOR))} only"
            )
        return f"not built; {HOW_TO_BUILD}"
    try:
        return NativeLibrary(LIBRARY)
    except (OSError, AttributeError) as error:
        return f"cannot be opened ({error}); {HOW_TO_BUILD}"


def native_obstacle(number: Number) -> str | None:
    """Why the native kernels for a kind of number cannot run here; None where they can."""
    library = native_library()
    if isinstance(library, str):
        return library
    if not library.lanes(number):
        needs = {Number.FLOAT32: "AVX2", Number.BFLOAT16: "AVX-512 with BF16", Number.INT8: "AVX-512 with VNNI"}
        return f"this CPU has no {needs[number]}"
    return None


def opened_native_library() -> NativeLibrary:
    """The library, for kernels that were chosen because it is there."""
    library = native_library()
    assert isinstance(library, NativeLibrary)
    return library
