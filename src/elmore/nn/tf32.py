"""TF32 products of float32 matrices on NVIDIA GPUs, while at least one pass requests them.

torch has one setting for the whole process. Requests are counted, and the last one restores the setting. While one
thread runs a pass with TF32, products of other threads are rounded to TF32 too. A CUDA graph must not be captured in
another thread in the meantime, because it would round in every replay: see `number_of_requests`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, local

import torch


class _Tf32:
    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._requests = 0
        self._before = False
        self._this_thread = local()

    @contextmanager
    def rounding(self) -> Iterator[None]:
        """Allow TF32 during the context."""
        matmul = torch.backends.cuda.matmul
        with self._lock:
            if self._users == 0:
                self._before = matmul.allow_tf32
                matmul.allow_tf32 = True
            self._users += 1
            self._requests += 1
        depth = getattr(self._this_thread, "depth", 0)
        self._this_thread.depth = depth + 1
        try:
            yield
        finally:
            self._this_thread.depth = depth
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    matmul.allow_tf32 = self._before

    def number_of_requests(self) -> int | None:
        """The requests of other threads so far; None while one of them rounds the products of this thread.

        If the number is the same before and after some products, no request has rounded them. In a thread with a
        request of its own, the requests of others change nothing, and the number is always 0.
        """
        with self._lock:
            if getattr(self._this_thread, "depth", 0):
                return 0
            return None if self._users and not self._before else self._requests


TF32 = _Tf32()
