"""ScalarMix: a learned weighted sum of tensors of one shape.

    mixed = gamma * sum over k of softmax(scalar_parameters)[k] * tensors[k]

Equation 1 of Peters et al., 2018, for any tensors.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmore.errors import InputError
from elmore.network.mix import normalize_masked_batch


class ScalarMix(nn.Module):
    """AllenNLP's `ScalarMix`.

    `scalar_parameters` can be read as the list it was, one (1,) tensor for each layer, but is one parameter: a
    ParameterList stays behind when DataParallel copies a module. State dicts with the list are read as well.

    >>> mix = ScalarMix(3, initial_scalar_parameters=[-9e10, 1, -9e10], trainable=False)
    >>> mix([torch.zeros(2, 4), torch.ones(2, 4), torch.zeros(2, 4)]).mean().item()
    1.0
    >>> [scalar.item() for scalar in ScalarMix(3).scalar_parameters]
    [0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        scalars = [0.0] * mixture_size if initial_scalar_parameters is None else initial_scalar_parameters
        if len(scalars) != mixture_size:
            raise InputError(f"a mix of {mixture_size} layers was given {len(scalars)} scalar parameters")
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        start = torch.tensor(scalars, dtype=torch.float32)[:, None]
        self.scalar_parameters = nn.Parameter(start, requires_grad=trainable)  # (mixture_size, 1)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)
        self.register_load_state_dict_pre_hook(_join_scalars)  # type: ignore[no-untyped-call]

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Mix tensors (..., dim); with `do_layer_norm` their mask (...) is needed, otherwise it counts for nothing."""
        if len(tensors) != self.mixture_size:
            raise InputError(f"this mix weighs {self.mixture_size} layers and was given {len(tensors)}")
        layers = torch.stack(list(tensors))
        if self.do_layer_norm:
            if mask is None:
                raise InputError("a mix with layer normalisation needs the mask, to know which words are real")
            flat = layers.reshape(len(layers), -1, 1, layers.shape[-1])
            layers = normalize_masked_batch(flat, mask.bool().reshape(-1, 1)).reshape(layers.shape)
        return self.gamma * torch.einsum("k,k...->...", self.scalar_parameters.squeeze(1).softmax(dim=0), layers)


def _join_scalars(mix: nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """Before a state dict is loaded: make AllenNLP's list of scalars into the one tensor they are here."""
    assert isinstance(mix, ScalarMix)
    names = [f"{prefix}scalar_parameters.{k}" for k in range(mix.mixture_size)]
    if all(name in state_dict for name in names):
        state_dict[f"{prefix}scalar_parameters"] = torch.stack([state_dict.pop(name) for name in names])
