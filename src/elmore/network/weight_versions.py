"""Know whether weights are what they were when something was made from them."""

from collections.abc import Iterable

from torch import Tensor


def weight_versions(parameters: Iterable[Tensor]) -> tuple[tuple[int, int], ...]:
    """Where the weights lie and how often they were written to: changes with any training step or move."""
    # Weights made in inference mode count no writes, and cannot be trained either.
    return tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters)
