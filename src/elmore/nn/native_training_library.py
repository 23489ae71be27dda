"""The training functions of the native CPU kernels, for float32.

They are in the same shared library as the inference functions of `elmore.engine.native_library`. `native/kernels.h`
describes the structs.
"""

import ctypes
from ctypes import POINTER, c_float, c_int, c_int32, c_int64, c_void_p
from functools import cache
from typing import ClassVar

from torch import Tensor

from elmore.engine.native_library import (
    WRONG_INPUT,
    FilterTables,
    NativeLibrary,
    Precision,
    check_status,
    check_struct_sizes,
    native_library,
    why_unavailable,
)
from elmore.engine.threads import get_threads


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


STRUCTS = {
    "ElmoreLstmGradients": LstmGradients,
    "ElmoreProduct": Product,
    "ElmoreHighway": HighwayParts,
    "ElmoreSoftmax": Softmax,
}


class NativeTrainingLibrary:
    """The training functions of the library. Tensors are contiguous, in float32, on a CPU."""

    def __init__(self, library: NativeLibrary) -> None:
        self._functions = library.functions
        check_struct_sizes(self._functions.elmore_training_struct_size, STRUCTS)
        self._functions.elmore_pool_characters_backward.argtypes = [
            POINTER(FilterTables), c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_int,
        ]  # fmt: skip
        self._functions.elmore_run_lstm_backward.argtypes = [POINTER(LstmGradients), c_int]
        self._functions.elmore_multiply.argtypes = [POINTER(Product), c_int]
        self._functions.elmore_run_softmax.argtypes = [POINTER(Softmax), c_int]
        self._functions.elmore_run_highway.argtypes = [POINTER(HighwayParts), c_int]
        self.lanes = library.lanes(Precision.FLOAT32)

    def pool_characters(self, filters: FilterTables, characters: Tensor, pooled: Tensor, positions: Tensor) -> None:
        """Fill the responses of all filters, not activated, and their positions, for characters (W, M)."""
        words = (characters.data_ptr(), *characters.shape)
        out = (pooled.data_ptr(), positions.data_ptr(), pooled.stride(0))
        status = self._functions.elmore_pool_characters(filters, *words, *out, get_threads())
        if status == WRONG_INPUT:
            raise IndexError(f"a word has a character beyond the {filters.characters} of the model's table")
        check_status(status, "encode words")

    def pool_characters_backward(
        self, filters: FilterTables, characters: Tensor, d_pooled: Tensor, positions: Tensor, d_tables: Tensor
    ) -> None:
        """Add the gradients of responses to the gradients of the tables."""
        gradients = (d_pooled.data_ptr(), positions.data_ptr(), d_pooled.stride(0), d_tables.data_ptr())
        words = (characters.data_ptr(), *characters.shape)
        status = self._functions.elmore_pool_characters_backward(filters, *words, *gradients, get_threads())
        check_status(status, "compute the gradients of a character CNN")

    def run_lstm_backward(self, gradients: LstmGradients) -> None:
        """Fill the gradients of a layer."""
        status = self._functions.elmore_run_lstm_backward(gradients, get_threads())
        check_status(status, "compute the gradients of an LSTM layer")

    def multiply(self, product: Product) -> None:
        """Multiply two matrices."""
        check_status(self._functions.elmore_multiply(product, get_threads()), "multiply matrices")

    def run_highway(self, parts: HighwayParts) -> None:
        """Run the pointwise parts of a highway, forward or backward."""
        check_status(self._functions.elmore_run_highway(parts, get_threads()), "run a highway")

    def run_softmax(self, softmax: Softmax) -> None:
        """Compute the softmax over candidates and all its gradients."""
        check_status(self._functions.elmore_run_softmax(softmax, get_threads()), "compute a softmax")


@cache
def native_training_library() -> NativeTrainingLibrary | str:
    """Return the training functions, or the reason why they cannot be used here."""
    library = native_library()
    if isinstance(library, str):
        return library
    if reason := why_unavailable(Precision.FLOAT32):
        return reason
    try:
        return NativeTrainingLibrary(library)
    except (OSError, AttributeError) as error:
        return f"cannot be opened ({error})"


def why_training_unavailable() -> str | None:
    """Return why the native training kernels cannot run here; None if they can."""
    library = native_training_library()
    return library if isinstance(library, str) else None


def opened_training_library() -> NativeTrainingLibrary:
    """Return the training functions, where `why_training_unavailable` has returned None before."""
    library = native_training_library()
    assert isinstance(library, NativeTrainingLibrary)
    return library
