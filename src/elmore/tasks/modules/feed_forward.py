"""Feed-forward networks: linear layers with ReLU or maxout, and dropout after each."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from elmore.errors import InputError


class FeedForward(nn.Module):
    """Layers of dropout(relu(W x + b)), followed by a linear layer if `output_dim` is given.

    `dropout` is one probability, or one for each layer.

    >>> FeedForward(8, (6, 4), dropout=0.2, output_dim=3)(torch.ones(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        input_dim: int,
        dims: Sequence[int],
        *,
        dropout: float | Sequence[float] = 0.0,
        output_dim: int | None = None,
    ) -> None:
        super().__init__()
        sizes = [input_dim, *dims]
        self.layers = nn.ModuleList(_linear(*pair) for pair in pairwise(sizes))
        self.dropouts = _dropouts(dropout, len(dims))
        self.output = None if output_dim is None else _linear(sizes[-1], output_dim)
        self.output_dim = sizes[-1] if output_dim is None else output_dim

    def forward(self, x: Tensor) -> Tensor:  # (..., input_dim) -> (..., output_dim)
        return self.after_first(self.layers[0](x)) if self.layers else self._output(x)

    def after_first(self, x: Tensor) -> Tensor:  # (..., dims[0]) -> (..., output_dim)
        """All of the network after the first W x + b, for callers that compute that product themselves."""
        x = self.dropouts[0](torch.relu(x))
        for layer, dropout in zip(self.layers[1:], self.dropouts[1:], strict=True):
            x = dropout(torch.relu(layer(x)))
        return self._output(x)

    def _output(self, x: Tensor) -> Tensor:
        return x if self.output is None else self.output(x)


class Maxout(nn.Module):
    """Layers of dropout(max over p of (W_p x + b_p)): each feature is the largest of several pieces.

    Goodfellow et al., 2013. The last layer is a maxout layer too.

    >>> Maxout(8, (6, 3), pieces=4, dropout=(0.2, 0.0))(torch.ones(2, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, input_dim: int, dims: Sequence[int], *, pieces: int = 4, dropout: float | Sequence[float] = 0.0
    ) -> None:
        super().__init__()
        sizes = [input_dim, *dims]
        self.pieces = pieces
        self.layers = nn.ModuleList(_linear(size, after * pieces) for size, after in pairwise(sizes))
        self.dropouts = _dropouts(dropout, len(dims))
        self.output_dim = sizes[-1]

    def forward(self, x: Tensor) -> Tensor:  # (..., input_dim) -> (..., output_dim)
        for layer, dropout in zip(self.layers, self.dropouts, strict=True):
            x = dropout(layer(x).unflatten(-1, (-1, self.pieces)).max(dim=-1).values)
        return x


def _dropouts(dropout: float | Sequence[float], layers: int) -> nn.ModuleList:
    probabilities = [dropout] * layers if isinstance(dropout, int | float) else list(dropout)
    if len(probabilities) != layers:
        raise InputError(
            f"{len(probabilities)} dropout probabilities were passed for {layers} layers; pass one, or one for each"
        )
    return nn.ModuleList(nn.Dropout(probability) for probability in probabilities)


def _linear(input_dim: int, output_dim: int) -> nn.Linear:
    linear = nn.Linear(input_dim, output_dim)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear
