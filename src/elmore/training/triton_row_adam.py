"""`row_adam` as a Triton kernel: a program for each row, which ends at once where the row has no gradient."""

# Triton has no types, and would take annotations for its own.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import triton
import triton.language as tl
from torch import Tensor


def move(
    table: Tensor,
    slope: Tensor,
    mean: Tensor,
    square: Tensor,
    steps: Tensor,
    *,
    lr: float,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Move the rows of `table` (rows, size) that have a gradient in `slope`, and their averages and counts."""
    rows, size = table.shape
    block = triton.next_power_of_2(size)
    _move[(rows,)](table, slope, mean, square, steps, size, lr, *betas, eps, BLOCK=block)


@triton.jit
def _move(table, slope, mean, square, steps, size, lr, beta1, beta2, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < size
    place += row * size
    g = tl.load(slope + place, inside, 0.0)
    if tl.max(tl.abs(g)) > 0:
        count = tl.load(steps + row) + 1
        m = beta1 * tl.load(mean + place, inside) + (1 - beta1) * g
        v = beta2 * tl.load(square + place, inside) + (1 - beta2) * g * g
        tl.store(steps + row, count)
        tl.store(mean + place, m, inside)
        tl.store(square + place, v, inside)
        m = m / (1 - tl.exp(count * tl.log(beta1)))
        v = v / (1 - tl.exp(count * tl.log(beta2)))
        tl.store(table + place, tl.load(table + place, inside) - lr * m / (tl.sqrt(v) + eps), inside)
