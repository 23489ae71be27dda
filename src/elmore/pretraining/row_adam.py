"""Adam for tables with few rows in each step: a sampled softmax, or a table of word vectors.

In ordinary Adam the averages decay in every step. If a row has a gradient once in a thousand steps, its average of
squares has almost vanished when the next gradient comes, and the row makes a large jump, the larger the rarer its word.
Here averages and step count of a row change only when the row has a gradient, and other rows cost almost nothing.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from elmore.nn.kernels import triton_runs_on


class RowAdam(torch.optim.Optimizer):
    """Adam with separate step counts for the rows; a parameter with one dimension has rows of one number.

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
        """Update every row that has a gradient."""
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
                _update(parameter, parameter.grad, state, group)


def _update(parameter: Tensor, gradient: Tensor, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    lr, (beta1, beta2), eps = group["lr"], group["betas"], group["eps"]
    table, gradients, mean, square = (x.view(len(x), -1) for x in (parameter, gradient, state["mean"], state["square"]))
    if triton_runs_on(parameter.device, parameter.dtype):
        from elmore.pretraining import triton_row_adam

        triton_row_adam.update(table, gradients, mean, square, state["steps"], lr=lr, betas=(beta1, beta2), eps=eps)
        return
    rows = (gradients != 0).any(dim=1).nonzero()[:, 0]
    g = gradients[rows]
    steps = state["steps"][rows] + 1
    m = torch.lerp(mean[rows], g, 1 - beta1)
    v = torch.lerp(square[rows], g * g, 1 - beta2)
    state["steps"][rows], mean[rows], square[rows] = steps, m, v
    m = m / -torch.expm1(steps * math.log(beta1))[:, None]
    v = v / -torch.expm1(steps * math.log(beta2))[:, None]
    table[rows] -= lr * m / (v.sqrt() + eps)
