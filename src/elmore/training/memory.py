"""How much memory a training run uses, without the memory that the process used before."""

import sys
from collections.abc import Iterable

import torch
from torch import Tensor, nn


class MemoryMeter:
    """Measures the growth of the peak of memory use since its creation, which must precede the setup of the training.

    On a GPU this is exact. On a CPU the system reports one peak for the whole life of a process, and a process may
    have used more memory before. The size of the training's tensors is then the lower bound.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        self._before = _peak(device)

    def peak_growth(self, at_least: int) -> int | None:
        """Bytes, not fewer than `at_least`; None if the system does not report the peak."""
        peak = _peak(self._device)
        if peak is None or self._before is None:
            return None
        return max(peak - self._before, at_least)


def training_state_bytes(model: nn.Module, optimizers: Iterable[torch.optim.Optimizer]) -> int:
    """The size of parameters, gradients and optimizer states.

    >>> layer = nn.Linear(3, 2)
    >>> training_state_bytes(layer, [])  # eight numbers of four bytes
    32
    """
    tensors = [*model.parameters(), *(p.grad for p in model.parameters() if p.grad is not None)]
    for optimizer in optimizers:
        for values in optimizer.state.values():
            tensors += [value for value in values.values() if isinstance(value, Tensor)]
    return sum(tensor.nbytes for tensor in tensors)


def _peak(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    try:
        import resource  # only on Unix
    except ImportError:
        return None
    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
