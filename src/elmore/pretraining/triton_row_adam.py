"""`row_adam` as a Triton kernel with one program per row, which ends early if the row has no gradient."""

# Triton supports neither type annotations nor records in kernels.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

import math

import triton
import triton.language as tl
from torch import Tensor


def update(
    table: Tensor,
    gradients: Tensor,
    mean: Tensor,
    square: Tensor,
    steps: Tensor,
    *,
    lr: float,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Update the rows of `table` (rows, size) that have a gradient, and their averages and step counts."""
    rows, size = table.shape
    # Computed here, in double precision: in float32, 1 - 0.999 has an error in the fifth digit.
    decays = [number for beta in betas for number in (beta, 1 - beta, math.log(beta))]
    _update[(rows,)](table, gradients, mean, square, steps, size, lr, *decays, eps, BLOCK=triton.next_power_of_2(size))


@triton.jit
def _update(
    table, gradients, mean, square, steps, size, lr, beta1, less1, log1, beta2, less2, log2, eps, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    position = tl.arange(0, BLOCK)
    is_valid = position < size
    position += row * size
    g = tl.load(gradients + position, is_valid, 0.0)
    if tl.max(tl.abs(g)) > 0:
        count = tl.load(steps + row) + 1
        m = beta1 * tl.load(mean + position, is_valid) + less1 * g
        v = beta2 * tl.load(square + position, is_valid) + less2 * g * g
        tl.store(steps + row, count)
        tl.store(mean + position, m, is_valid)
        tl.store(square + position, v, is_valid)
        m = m / _one_less_exp(count * log1)
        v = v / _one_less_exp(count * log2)
        tl.store(table + position, tl.load(table + position, is_valid) - lr * m / (tl.sqrt(v) + eps), is_valid)


@triton.jit
def _one_less_exp(x):
    """1 - exp(x); a series near 0, where the difference would be mostly rounding error."""
    return tl.where(x > -0.05, -x * (1 + x * (1 / 2 + x * (1 / 6 + x / 24))), 1 - tl.exp(x))
