"""The named arrays of a model: float32, or int8 with float32 scales.

An int8 matrix takes a quarter of the space. It holds whole numbers from -127 to 127 and a scale for each unit of
output, and is read and written as int8: only `dequantize` makes float32 of it. Vectors and biases stay float32: they
are small, and every bit of a bias counts.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.display import join_names
from elmore.errors import FormatError

Floats = NDArray[np.float32]


class Int8Array(NamedTuple):
    """A matrix as whole numbers and their scales."""

    values: NDArray[np.int8]
    scale: Floats  # of the same rank; 1 long in the dimensions that a unit of output sums over

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def dequantize(self) -> Floats:
        """Compute the float32 values."""
        return np.multiply(self.values, self.scale, dtype=np.float32)


StoredArray = Floats | Int8Array


def quantize(arrays: Mapping[str, StoredArray]) -> dict[str, StoredArray]:
    """Convert every matrix to int8. Vectors, biases and int8 matrices are returned unchanged.

    >>> [type(array).__name__ for array in quantize({"w": np.ones((3, 4)), "b": np.ones(3)}).values()]
    ['Int8Array', 'ndarray']
    """
    result: dict[str, StoredArray] = {}
    for name, array in arrays.items():
        # The bias of an LSTM layer has two dimensions too: a row for each direction.
        if isinstance(array, Int8Array) or array.ndim < 2 or name.endswith(".bias"):
            result[name] = array
            continue
        # LSTM matrices are applied as x @ W, so a unit of their output is a column; of all others it is a row.
        inputs = (-2,) if name.startswith("lstm.") else tuple(range(1, array.ndim))
        scale = np.maximum(np.abs(array).max(axis=inputs, keepdims=True), np.float32(1e-12)) / np.float32(127)
        result[name] = Int8Array((array / scale).round().astype(np.int8), scale.astype(np.float32, copy=False))
    return result


def dequantize(arrays: Mapping[str, StoredArray]) -> dict[str, Floats]:
    """Convert int8 matrices to float32. All others are returned unchanged."""
    return {name: array.dequantize() if isinstance(array, Int8Array) else array for name, array in arrays.items()}


def check_shapes(arrays: Mapping[str, StoredArray], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise FormatError unless the arrays have exactly these names and shapes."""
    if arrays.keys() != shapes.keys():
        raise FormatError(f"holds {join_names(sorted(arrays)) or 'nothing'} where {' and '.join(shapes)} should be")
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise FormatError(f"{name} has shape {arrays[name].shape}; {shape} is needed")


def check_finite(name: str, values: NDArray[np.floating[Any]]) -> None:
    """Raise FormatError if an array holds nan or infinity: one such value would spread over every vector."""
    # The extremes are nan if any value is. Testing them takes no memory and is faster than testing every value.
    with np.errstate(invalid="ignore"):
        is_finite = not values.size or (np.isfinite(values.min()) and np.isfinite(values.max()))
    if not is_finite:
        raise FormatError(f"{name} holds values that are no numbers (nan or infinity); the file is damaged")
