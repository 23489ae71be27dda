"""What every tensor of a model must be: of the shape that is needed, and finite."""

from collections.abc import Mapping

from torch import Tensor

from elmore.errors import FormatError, shortened
from elmore.formats.storage.int8 import StoredTensor


def check_shapes(tensors: Mapping[str, StoredTensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Compare a few tensors with what they should be; the error names what does not fit."""
    if tensors.keys() != shapes.keys():
        raise FormatError(f"holds {shortened(sorted(tensors)) or 'nothing'} where {' and '.join(shapes)} should be")
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise FormatError(f"{name} has shape {tuple(tensors[name].shape)}; {shape} is needed")


def check_finite(name: str, tensor: Tensor) -> None:
    """Refuse a tensor that holds nan or infinity, by its name."""
    # One number that is none was never trained so, and would spread over every vector.
    # The extremes are nan if any value is, and found many times faster than by asking every value.
    if tensor.numel() and not all(extreme.isfinite() for extreme in tensor.aminmax()):
        raise FormatError(f"{name} holds values that are no numbers (nan or infinity); the file is damaged")
