"""`row_adam` as a Triton kernel: a program for each row, which ends at once where the row has no gradient."""

# Triton has no types and would take annotations for its own, and no records, so kernels take all they need one by one.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import math

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
    # Made here, in double precision: of 0.999 a GPU would make 1 - 0.999 with an error in the fifth digit.
    decays = [number for beta in betas for number in (beta, 1 - beta, math.log(beta))]
    _move[(rows,)](table, slope, mean, square, steps, size, lr, *decays, eps, BLOCK=triton.next_power_of_2(size))


@triton.jit
def _move(
    table, slope, mean, square, steps, size, lr, beta1, less1, log1, beta2, less2, log2, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, BLOCK)
    inside = place < size
    place += row * size
    g = tl.load(slope + place, inside, 0.0)
    if tl.max(tl.abs(g)) > 0:
        count = tl.load(steps + row) + 1
        m = beta1 * tl.load(mean + place, inside) + less1 * g
        v = beta2 * tl.load(square + place, inside) + less2 * g * g
        tl.store(steps + row, count)
        tl.store(mean + place, m, inside)
        tl.store(square + place, v, inside)
        m = m / _one_less_exp(count * log1)
        v = v / _one_less_exp(count * log2)
        tl.store(table + place, tl.load(table + place, inside) - lr * m / (tl.sqrt(v) + eps), inside)


@triton.jit
def _one_less_exp(x):
    """1 - exp(x); near 0 by its series, because there the difference would be mostly rounding."""
    return tl.where(x > -0.05, -x * (1 + x * (1 / 2 + x * (1 / 6 + x / 24))), 1 - tl.exp(x))
