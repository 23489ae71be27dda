"""Memory for weights that are read over and over: in large pages, where the system has them.

A step of a single sentence reads every weight of a layer once. In pages of 4 KiB a good part of that time goes to
finding out where the pages are.
"""

import ctypes
import math
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

LARGE_PAGE = 2**21


def empty_in_large_pages(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor whose numbers are anything yet; in ordinary memory where it is smaller than a large page.

    >>> empty_in_large_pages((3, 2**20), torch.float32).shape
    torch.Size([3, 1048576])
    """
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE_PAGE:
        return torch.empty(*shape, dtype=dtype)
    try:
        # Private, as all memory is: what is shared between processes has other rules for its pages.
        memory = mmap.mmap(-1, size + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # a system that has none, or no memory left, of which torch tells
        return torch.empty(*shape, dtype=dtype)
    # The tensor keeps the memory as long as it lives.
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    start = -whole.data_ptr() % LARGE_PAGE
    return whole[start : start + size].view(dtype).view(*shape)


def return_freed_memory() -> None:
    """Give the system back what was freed: glibc keeps all but the largest pieces for later, and most weights too."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
