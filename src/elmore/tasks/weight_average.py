"""An exponential moving average of a model's weights, which is often a better model than its last ones.

    average = d * average + (1 - d) * weights          after every step, d = min(decay, (1 + step) / (10 + step))

Polyak and Juditsky, 1992; Clark and Gardner, 2017, evaluate with it. The first steps count for more, as TensorFlow has
it (`num_updates`): else a training of a few hundred steps would be judged by weights that are still near its first.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """The average of all weights that are trained, or may be later.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> average = WeightAverage(layer, decay=0.999)
    >>> before = layer.weight.item()
    >>> layer.weight.data += 11
    >>> average.update(1)  # d is 2 / 11
    >>> with average.in_place():
    ...     round(layer.weight.item() - before, 4)
    9.0
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self._decay = decay
        # What a file gave, and is to stay so, has no need of it. A biLM in joint training thaws on the way.
        self._parameters = {
            name: parameter
            for name, parameter in model.named_parameters()
            if parameter.requires_grad or ".joint." in f".{name}"
        }
        self._average = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Count in the weights as they are after this step, from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        # Of all weights at once: one kernel on a GPU, and not one for each of them.
        torch._foreach_lerp_(list(self._average.values()), list(self._parameters.values()), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Have the model work with the average; afterwards its own weights are back, to the bit."""
        own = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._put(self._average)
        try:
            yield
        finally:
            self._put(own)

    @torch.no_grad()
    def _put(self, values: Mapping[str, Tensor]) -> None:
        torch._foreach_copy_(list(self._parameters.values()), [values[name] for name in self._parameters])

    def state_dict(self) -> dict[str, Tensor]:
        """For a checkpoint."""
        return {name: tensor.cpu() for name, tensor in self._average.items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        for name, average in self._average.items():
            average.copy_(tensors[name])
