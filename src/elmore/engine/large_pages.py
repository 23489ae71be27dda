"""Memory for weights, in large pages where the system has them.

A step of a single sentence reads every weight of a layer once. With pages of 4 KiB, address translation takes a good
part of that time.
"""

import math
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LARGE_PAGE = 2**21


def empty_in_large_pages(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """An array with undefined content; arrays smaller than a large page are in ordinary memory.

    >>> empty_in_large_pages((3, 2**20), np.float32).shape
    (3, 1048576)
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < LARGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(shape, dtype)
    try:
        memory = mmap.mmap(-1, size + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # the system has no large pages, or no memory, which NumPy reports
        return np.empty(shape, dtype)
    # The array owns the mapping.
    whole = np.frombuffer(memory, dtype=np.uint8)
    start = -whole.ctypes.data % LARGE_PAGE
    return whole[start : start + size].view(dtype).reshape(shape)
