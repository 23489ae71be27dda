"""Checks of arrays at the boundary of an engine: the C++ code trusts the shapes and types it receives."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike, NDArray

from elmore.errors import InputError


def check_array(name: str, array: object, shape: Sequence[int | None], dtype: DTypeLike) -> None:
    """Raise InputError unless `array` is a NumPy array of this type and shape; None stands for any length.

    >>> check_array("state.h", np.zeros((2, 3), np.float32), (2, None), np.float32)
    """
    wanted = f"({', '.join('any' if length is None else str(length) for length in shape)})"
    if not isinstance(array, np.ndarray):
        raise InputError(f"{name} is a {type(array).__name__}; it must be a NumPy array of shape {wanted}")
    if array.dtype != np.dtype(dtype):
        raise InputError(f"{name} has dtype {array.dtype}; it must be {np.dtype(dtype)}")
    fits = array.ndim == len(shape) and all(
        length in (None, given) for length, given in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise InputError(f"{name} has shape {array.shape}; it must have shape {wanted}")


def check_indices(name: str, indices: NDArray[np.int64], size: int) -> None:
    """Raise InputError unless all indices are from 0 to `size` - 1."""
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        wrong = indices[(indices < 0) | (indices >= size)].flat[0]
        raise InputError(f"{name} contains {wrong}; it must be from 0 to {size - 1}")


def check_lengths(name: str, lengths: NDArray[np.int64], steps: int) -> None:
    """Raise InputError unless lengths are from 0 to `steps` and never increase."""
    if lengths.size and (lengths.min() < 0 or lengths.max() > steps):
        raise InputError(f"{name} are from {lengths.min()} to {lengths.max()}; they must be from 0 to {steps}")
    if np.any(lengths[1:] > lengths[:-1]):
        raise InputError(f"{name} must not increase from row to row; sort the rows, longest first")
