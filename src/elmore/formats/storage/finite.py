"""Weights are numbers: one that is not was never trained so, and would spread over every vector."""

from torch import Tensor

from elmore.errors import FormatError


def check_finite(name: str, tensor: Tensor) -> None:
    """Refuse a tensor that holds nan or infinity, by its name."""
    # The extremes are nan if any value is, and found many times faster than by asking every value.
    if tensor.numel() and not all(extreme.isfinite() for extreme in tensor.aminmax()):
        raise FormatError(f"{name} holds values that are no numbers (nan or infinity); the file is damaged")
