"""Adam for tables of which a step touches few rows: a softmax over a sample of its classes, a table of words.

Ordinary Adam lets its averages decay in every step. Of a row that has a gradient once in a thousand steps, the
average of squares has then all but vanished when the next gradient comes, and the row is thrown far: the rarer a word,
the farther. Here a row's averages, and its count of steps, move only when the row has a gradient; other rows stay as
they are, and cost next to nothing.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from elmore.nn.kernels import triton_runs_on


class RowAdam(torch.optim.Optimizer):
    """Adam, row by row; a parameter of one dimension has rows of one number.

    >>> table = torch.nn.Parameter(torch.zeros(3, 2))
    >>> table.grad = torch.tensor([[0.0, 0.0], [5.0, -5.0], [0.0, 0.0]])
    >>> RowAdam([table], lr=0.1).step()
    >>> [[round(x, 3) for x in row] for row in table.tolist()]
    [[0.0, 0.0], [-0.1, 0.1], [0.0, 0.0]]
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Move every row that has a gradient."""
        assert closure is None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["mean"] = torch.zeros_like(parameter)
                    state["square"] = torch.zeros_like(parameter)
                    state["steps"] = torch.zeros(len(parameter), device=parameter.device)
                _move(parameter, parameter.grad, state, group)


def _move(parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    lr, (beta1, beta2), eps = group["lr"], group["betas"], group["eps"]
    table, slope, mean, square = (x.view(len(x), -1) for x in (parameter, gradient, state["mean"], state["square"]))
    if triton_runs_on(parameter.device, parameter.dtype):
        from elmore.training import triton_row_adam

        triton_row_adam.move(table, slope, mean, square, state["steps"], lr=lr, betas=(beta1, beta2), eps=eps)
        return
    rows = (slope != 0).any(dim=1).nonzero()[:, 0]
    g = slope[rows]
    steps = state["steps"][rows] + 1
    m = torch.lerp(mean[rows], g, 1 - beta1)
    v = torch.lerp(square[rows], g * g, 1 - beta2)
    state["steps"][rows], mean[rows], square[rows] = steps, m, v
    m = m / -torch.expm1(steps * math.log(beta1))[:, None]
    v = v / -torch.expm1(steps * math.log(beta2))[:, None]
    table[rows] -= lr * m / (v.sqrt() + eps)
