"""The largest product of a filter over all places of a word, forth and back.

    values[w, f] = max over p <= lasts[f] of x[w, p : p + widest] · matrix[f]

The products are the largest tensor of a word encoder, and each filter needs but one of a word's. On a GPU they are
made, compared and forgotten in one kernel, and on the way back a single place of each word and filter has a gradient.

W words, M places, C size of a letter, F filters, K = widest * C: what a filter sees at a place.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Strongest(NamedTuple):
    """The largest products, and where they were found."""

    values: Tensor  # (W, F)
    places: Tensor  # (W, F) int16


def strongest_forward(x: Tensor, matrix: Tensor, lasts: Tensor, letters: Tensor) -> Strongest:
    """From letters (W, M) as vectors x (W, M + widest - 1, C), zero beyond the last, and filters (F, K)."""
    if _fused(x):
        from elmore.kernels import triton_strongest

        return Strongest(*triton_strongest.forward(x, matrix, lasts, triton_strongest.plan(letters)))
    products = _windows(x, matrix) @ matrix.t()  # (W, M, F)
    places = torch.arange(products.shape[1], device=x.device)[:, None]
    values, found = products.masked_fill_(places > lasts, -torch.inf).max(dim=1)
    return Strongest(values, found.short())


def strongest_backward(
    d_values: Tensor, places: Tensor, x: Tensor, matrix: Tensor, letters: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of x and of the filters."""
    if _fused(x):
        from elmore.kernels import triton_strongest

        d_windows, d_matrix = triton_strongest.backward(d_values, places, x, matrix, triton_strongest.plan(letters))
    else:
        windows = _windows(x, matrix)
        d_products = d_values.new_zeros(*windows.shape[:2], len(matrix))
        d_products.scatter_(1, places.long()[:, None], d_values[:, None])
        d_windows = d_products @ matrix
        d_matrix = d_products.flatten(0, 1).t() @ windows.flatten(0, 1)
    size = x.shape[2]
    d_x = torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
    for offset in range(matrix.shape[1] // size):
        d_x[:, offset : offset + d_windows.shape[1]] += d_windows[..., offset * size : (offset + 1) * size]
    return d_x.to(x.dtype), d_matrix


def _fused(x: Tensor) -> bool:
    # In float32 the tiles of the kernel would not fit into what a GPU has at hand.
    return x.is_cuda and x.dtype == torch.bfloat16


def _windows(x: Tensor, matrix: Tensor) -> Tensor:
    """(W, M, K) what a filter sees at each place."""
    return x.unfold(1, matrix.shape[1] // x.shape[2], 1).transpose(2, 3).flatten(2)
