"""The kind of numbers that are multiplied, which autocast may ask for."""

import torch
from torch import Tensor


def compute_dtype(x: Tensor) -> torch.dtype:
    """That of x, unless autocast is on.

    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     compute_dtype(torch.ones(2))
    torch.bfloat16
    """
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
