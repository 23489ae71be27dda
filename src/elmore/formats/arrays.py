"""The named arrays of a model: float32, or int8 with float32 scales; and the checks of names, shapes and values.

An int8 matrix takes a quarter of the space. It consists of integers from -127 to 127 and a scale for each output unit.
It is read and written as int8; only `dequantize` converts it to float32. Vectors and biases stay float32: they are
small, and biases need the precision.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmore.display import join_names
from elmore.errors import FormatError

Floats = NDArray[np.float32]


class Int8Array(NamedTuple):
    """A matrix as integers and their scales."""

    values: NDArray[np.int8]
    scale: Floats  # of the same rank, with length 1 in the dimensions that an output unit sums over

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
        # The bias of an LSTM layer has two dimensions: a row for each direction.
        if isinstance(array, Int8Array) or array.ndim < 2 or name.endswith(".bias"):
            result[name] = array
            continue
        # LSTM matrices are applied as x @ W, so an output unit is a column. In all other matrices it is a row.
        inputs = (-2,) if name.startswith("lstm.") else tuple(range(1, array.ndim))
        scale = np.maximum(np.abs(array).max(axis=inputs, keepdims=True), np.float32(1e-12)) / np.float32(127)
        result[name] = Int8Array((array / scale).round().astype(np.int8), scale.astype(np.float32, copy=False))
    return result


def dequantize(arrays: Mapping[str, StoredArray]) -> dict[str, Floats]:
    """Convert int8 matrices to float32. All others are returned unchanged."""
    return {name: array.dequantize() if isinstance(array, Int8Array) else array for name, array in arrays.items()}


class _HasShape(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...


A = TypeVar("A", bound=_HasShape)


def take(arrays: Mapping[str, A], name: str, shape: Sequence[int | None]) -> A:
    """The array of this name; FormatError if it is missing or has another shape. None allows any length.

    >>> take({"bias": np.ones(3)}, "bias", (4,))
    Traceback (most recent call last):
    ...
    elmore.errors.FormatError: bias has shape (3,); the configuration requires (4,)
    """
    if name not in arrays:
        raise FormatError(f"{name} is missing")
    array = arrays[name]
    lengths = zip(array.shape, shape, strict=False)
    if len(array.shape) != len(shape) or any(required not in (None, length) for length, required in lengths):
        required_shape = str(tuple(shape)).replace("None", "any")
        raise FormatError(f"{name} has shape {array.shape}; the configuration requires {required_shape}")
    return array


def check_shapes(arrays: Mapping[str, _HasShape], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise FormatError unless the arrays have exactly these names and shapes."""
    if missing := sorted(shapes.keys() - arrays.keys()):
        raise FormatError(f"arrays are missing: {join_names(missing)}")
    if unexpected := sorted(arrays.keys() - shapes.keys()):
        raise FormatError(f"the configuration has no arrays {join_names(unexpected)}")
    for name, shape in shapes.items():
        take(arrays, name, shape)


def check_finite(name: str, values: NDArray[np.floating[Any]]) -> None:
    """Raise FormatError if an array contains nan or infinity: one such value would spread to every vector."""
    # The extremes are nan if any value is nan. Testing them needs no memory and is faster than testing every value.
    with np.errstate(invalid="ignore"):
        is_finite = not values.size or (np.isfinite(values.min()) and np.isfinite(values.max()))
    if not is_finite:
        raise FormatError(f"{name} contains nan or infinity; the file is damaged")
