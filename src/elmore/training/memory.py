"""How much memory a training takes, apart from what else the process holds or once held."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class MemoryMeter:
    """Made before a training is set up, it tells by how much the peak of memory has grown since.

    On a GPU that is exact. In ordinary memory the system keeps one peak for the whole life of a process, so that
    nothing shows where the process was once larger: the tensors that the training holds are then the answer.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        self._before = _peak(device)

    def peak_growth(self, at_least: int) -> int | None:
        """Bytes, `at_least` what the training holds in tensors; None where the system does not say."""
        peak = _peak(self._device)
        if peak is None or self._before is None:
            return None
        return max(peak - self._before, at_least)


def training_state_bytes(model: nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> int:
    """Parameters, gradients and what the optimizers remember of them.

    >>> layer = nn.Linear(3, 2)
    >>> training_state_bytes(layer, [])  # eight numbers of four bytes
    32
    """
    held = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None)]
    for optimizer in optimizers:
        for values in optimizer.state.values():
            held += [value for value in values.values() if isinstance(value, Tensor)]
    return sum(tensor.nbytes for tensor in held)


def _peak(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    try:
        import resource  # only on Unix
    except ImportError:
        return None
    import sys

    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
