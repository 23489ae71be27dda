"""Named arrays in a safetensors file: finite float32 values, or int8 values with finite scales.

An int8 array `x` is stored as `x` in int8 and `x.scale` in float32. A caller may allow other types, such as float16.
"""

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save_file

from elmore.errors import FormatError, error_context
from elmore.formats.arrays import Floats, Int8Array, StoredArray, check_finite, dequantize
from elmore.formats.storage.container import Container, explain_read_errors

Array = NDArray[Any]

SCALE = ".scale"
# Types that arrays of a model may have, by their names in a file. NumPy has no bfloat16.
_DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "I8": np.dtype("i1")}
_NAMES = {"F64": "float64", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "U8": "uint8"}  # for messages


def read_tensors(container: Container, name: str, *, types: Collection[str] = ("float32",)) -> dict[str, Floats]:
    """Read all arrays of a file as float32. They may be stored as int8 or as any of the `types`."""
    stored = dequantize(read_stored_tensors(container, name, types=types))
    return {key: array.astype(np.float32, copy=False) for key, array in stored.items()}


def read_stored_tensors(
    container: Container, name: str, *, types: Collection[str] = ("float32",)
) -> dict[str, StoredArray]:
    """Read all arrays of a file without conversion. Other types than int8 and `types` are an error."""
    with explain_read_errors(name), error_context(name):
        tensors = unpack(_load(container, name, {"int8", *types}, required=" or ".join(types)))
        for key, array in tensors.items():
            if isinstance(array, Int8Array):
                check_finite(key, 127 * array.scale)
            else:
                check_finite(key, array)
        return tensors


def write_tensors(tensors: Mapping[str, StoredArray | Array], path: Path) -> None:
    """Write named arrays; the arrays may share memory and need not be contiguous."""
    path.touch()
    mode = path.stat().st_mode
    arrays = {name: np.asarray(array, order="C") for name, array in pack(tensors).items()}
    try:
        save_file(arrays, path)
    except SafetensorError as error:
        # The text of a SafetensorError contains the system's error, such as that of a full disk.
        if found := re.search(r"(?:os error|code:) (\d+)", str(error)):
            raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from error
        raise
    # The library creates files that only their owner can read.
    path.chmod(mode)


def pack(tensors: Mapping[str, StoredArray | Array]) -> dict[str, Array]:
    """The arrays as a file stores them: an int8 matrix and its scales under two names.

    >>> from elmore.formats.arrays import quantize
    >>> sorted(pack(quantize({"w": np.ones((3, 4)), "b": np.ones(3)})))
    ['b', 'w', 'w.scale']
    """
    packed: dict[str, Array] = {}
    for name, array in tensors.items():
        if isinstance(array, Int8Array):
            packed |= {name: array.values, name + SCALE: array.scale}
        else:
            packed[name] = array
    return packed


def unpack(packed: Mapping[str, Array]) -> dict[str, StoredArray]:
    """The inverse of `pack`. Arrays that are not int8 are returned unchanged."""
    narrow = {name for name, array in packed.items() if array.dtype == np.int8}
    result: dict[str, StoredArray] = {}
    for name, array in packed.items():
        if name in narrow:
            scale = packed.get(name + SCALE)
            # Checked before the multiplication, which for other shapes could need any amount of memory.
            if scale is None or not _fits(scale, array):
                raise FormatError(f"{name} has the type int8, but {name}{SCALE} is missing or has a wrong shape")
            result[name] = Int8Array(array, scale)
        elif name.removesuffix(SCALE) not in narrow:
            result[name] = array
    return result


def _fits(scale: Array, array: Array) -> bool:
    lengths = zip(scale.shape, array.shape, strict=False)
    return scale.ndim == array.ndim and scale.dtype == np.float32 and all(a in (1, b) for a, b in lengths)


def _load(container: Container, name: str, types: Collection[str], *, required: str) -> dict[str, Array]:
    path = container.path(name)
    try:
        if path is None:
            stored = deserialize(container.read(name))  # type: ignore[no-untyped-call]
            return {key: _array(key, part, types, required) for key, part in stored}
        with safe_open(path, framework="np") as file:
            names = {key: file.get_slice(key).get_dtype() for key in file.keys()}  # noqa: SIM118 (no mapping)
        for key, stored_type in names.items():
            _check_type(key, stored_type, types, required)
        return {key: _read_array(path, key) for key in names}
    except SafetensorError as error:
        raise FormatError(f"damaged, or not a safetensors file ({error}); download it again") from None


def _array(key: str, part: Mapping[str, Any], types: Collection[str], required: str) -> Array:
    dtype = _check_type(key, part["dtype"], types, required)
    return np.frombuffer(part["data"], dtype).reshape(part["shape"])


def _check_type(key: str, stored_type: str, types: Collection[str], required: str) -> np.dtype[Any]:
    dtype = _DTYPES.get(stored_type)
    if dtype is None or dtype.name not in types:
        found = _NAMES.get(stored_type, stored_type) if dtype is None else dtype.name
        raise FormatError(f"{key} has the type {found}; {required} is required")
    return dtype


def _read_array(path: Path, key: str) -> Array:
    # Opened for each array: pages that were read count as memory of the process until the file is closed.
    with safe_open(path, framework="np") as file:
        array: Array = file.get_tensor(key)  # a copy, which does not change with the file
        return array
