"""Named NumPy arrays become torch tensors, and back. Memory is shared where that is possible."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from elmore.nn.devices import as_tensor


def to_tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Tensors of named arrays, on the CPU."""
    return {name: as_tensor(array) for name, array in arrays.items()}


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Arrays of named tensors of any device."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
