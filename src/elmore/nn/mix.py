"""Mix the layers of a biLM into one vector for each word.

    mixed = gamma * sum over l of softmax(scalars)[l] * layers[l]

Equation 1 of Peters et al., 2018. L layers, B sentences, T words, dim size of a word's vector.
"""

import math
from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from elmore.config import Normalization
from elmore.display import html_table
from elmore.errors import InputError

# softmax(-1e4) is exactly 0 in float32; log(0) would make every gradient NaN.
NO_SHARE = -1e4
MASKED_BATCH_EPSILON = 1e-12  # as in AllenNLP and bilm-tf


class LayerMix(nn.Module):
    """A learned weighted sum over biLM layers.

    The initial values are `weights`, which sum to one, or `scalars`, the arguments of the softmax; by default all
    layers have the same weight. `train_weights=False` freezes the weights, `train_gamma=False` gamma.

    >>> mix = LayerMix(3, weights=[0.5, 0.5, 0.0])
    >>> mix(torch.ones(3, 2, 5, 8), torch.ones(2, 5, dtype=torch.bool)).shape
    torch.Size([2, 5, 8])
    >>> mix.weights.tolist()
    [0.5, 0.5, 0.0]
    """

    def __init__(
        self,
        num_layers: int,
        *,
        weights: Sequence[float] | None = None,
        scalars: Sequence[float] | None = None,
        gamma: float = 1.0,
        train_weights: bool = True,
        train_gamma: bool = True,
        normalize: Normalization | None = None,
    ) -> None:
        super().__init__()
        if weights is not None and scalars is not None:
            raise InputError("weights are results of the softmax, scalars its arguments; give one of the two")
        if normalize not in (None, *get_args(Normalization)):
            raise InputError(f"normalize is {normalize!r}; it must be None, 'token' or 'masked-batch'")
        if weights is not None:
            scalars = _before_softmax(weights)
        if scalars is not None and len(scalars) != num_layers:
            raise InputError(f"the model has {num_layers} layers, and there are {len(scalars)} weights")
        # One tensor: DataParallel does not copy a list of parameters.
        # Zeros: their softmax is the plain average.
        start = torch.zeros(num_layers) if scalars is None else torch.tensor(scalars, dtype=torch.float32)
        self.scalars = nn.Parameter(start, requires_grad=train_weights)
        self.gamma = nn.Parameter(torch.tensor(float(gamma)), requires_grad=train_gamma)
        self.normalize = normalize

    @property
    def weights(self) -> Tensor:
        """The share of each layer; they sum to one."""
        return self.scalars.softmax(dim=0)

    def extra_repr(self) -> str:
        weights = ", ".join(f"{weight:.2f}" for weight in self.weights.tolist())
        parts = ("weights", self.scalars), ("gamma", self.gamma)
        frozen = [part for part, tensor in parts if not tensor.requires_grad]
        normalized = f", normalize={self.normalize!r}" if self.normalize else ""
        return f"weights=[{weights}], gamma={self.gamma.item():.2f}{normalized}{f', frozen={frozen}' if frozen else ''}"

    def _repr_html_(self) -> str:
        rows = {f"layer {number}": f"{weight:.1%}" for number, weight in enumerate(self.weights.tolist())}
        return html_table("LayerMix", {**rows, "gamma": f"{self.gamma.item():.3f}"})

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:  # (L, B, T, dim), (B, T) -> (B, T, dim)
        if len(layers) != len(self.scalars):
            raise InputError(
                f"this mix has weights for {len(self.scalars)} layers, and the argument has {len(layers)} layers"
            )
        if self.normalize == "token":
            layers = nn.functional.layer_norm(layers, layers.shape[-1:])
        elif self.normalize == "masked-batch":
            layers = normalize_masked_batch(layers, mask)
        return self.gamma * torch.einsum("l,lbtd->btd", self.weights, layers)


def l2_penalty(mix: LayerMix, strength: float = 0.001) -> Tensor:
    """The L2 penalty on a mix, a term of a loss. A larger strength draws the weights to the plain average.

    >>> l2_penalty(LayerMix(3, scalars=[1.0, 2.0, 0.0]), 0.5).item()
    2.5
    """
    return strength * mix.scalars.square().sum()


def normalize_masked_batch(layers: Tensor, mask: Tensor) -> Tensor:
    """Layer normalization of AllenNLP and bilm-tf: one mean and variance of a layer over all words of a batch.

    The vectors of a sentence depend on the other sentences of its batch. Use it for models that were trained with it,
    and normalization by token for new models.
    """
    real = mask[None, :, :, None]
    count = mask.sum() * layers.shape[-1]
    mean = (layers * real).sum(dim=(1, 2, 3), keepdim=True) / count
    variance = ((layers - mean) * real).square().sum(dim=(1, 2, 3), keepdim=True) / count
    return (layers - mean) / (variance + MASKED_BATCH_EPSILON).sqrt()


def _before_softmax(weights: Sequence[float]) -> list[float]:
    if any(weight < 0 for weight in weights) or not math.isclose(sum(weights), 1, abs_tol=1e-4):
        raise InputError(
            f"weights are {list(weights)}; they must be at least 0 and sum to 1. "
            "Numbers that stand before the softmax go into scalars"
        )
    return [math.log(weight) if weight > 0 else NO_SHARE for weight in weights]
