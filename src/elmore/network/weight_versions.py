"""Know whether weights are what they were when something was made from them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn


def weight_versions(parameters: Iterable[Tensor]) -> tuple[tuple[int, int], ...]:
    """Where the weights lie and how often they were written to: changes with any training step or move."""
    # Weights made in inference mode count no writes, and cannot be trained either.
    return tuple((p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters)


class PreparedWeights:
    """What a kernel made of a module's weights: made once, and again when they have changed.

    A copy of the module, or another process, starts without it. Whoever has one forgets it in `train`, because old
    optimizers write to parameter.data, which no version counts, and in `_apply`, because new numbers may come to lie
    where the old ones were.

    Where the form has all that the weights have, they need not be kept beside it. A module that was asked to lets go of
    them: its parameters stay what they are, but for their numbers, until somebody needs those again.
    """

    def __init__(self) -> None:
        self._kept: tuple[object, Any] | None = None  # what it was made for, and the form itself
        self._released: Callable[[], Mapping[str, Tensor]] | None = None  # gives back what was let go
        # Nobody may prepare, or look at, weights that another thread is about to let go.
        self._lock = RLock()

    def of(
        self,
        module: nn.Module,
        key: object,
        make: Callable[[], Any],
        *,
        release: Sequence[str] = (),
        restore: Callable[[Any], Mapping[str, Tensor]] | None = None,
    ) -> Any:
        """What `make` gives for these weights and this key; the module lets go of the parameters named in `release`.

        `restore` makes them again, to the bit, of what `make` gave; without it nothing is let go.
        """
        parameters = list(module.parameters())
        if not parameters:
            # A replica of DataParallel, which lives for one pass, has none of its own, and shares this with the others.
            return make()
        trained = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters)
        if trained or torch.compiler.is_compiling():
            # Gradients lead through the preparation, so it belongs to each pass.
            self._kept = None
            return make()
        with self._lock:
            kept = self._kept
            if kept is None or kept[0] != (key, weight_versions(parameters)):
                # As ordinary tensors, which a later pass may need for its gradients.
                with torch.inference_mode(mode=False), torch.no_grad():
                    form = make()
                    if restore is not None and not any(parameter.is_inference() for parameter in parameters):
                        self._release([module.get_parameter(name) for name in release], partial(restore, form))
                self._kept = kept = (key, weight_versions(parameters)), form
        return kept[1]

    def forget(self) -> None:
        self._kept = None

    def restore(self, module: nn.Module) -> None:
        """Give the module its weights back, if it has let go of any."""
        with self._lock:
            if self._released is None:
                return
            with torch.inference_mode(mode=False), torch.no_grad():
                for name, tensor in self._released().items():
                    module.get_parameter(name).data = tensor
            self._released = None

    def _release(self, parameters: Sequence[Tensor], restored: Callable[[], Mapping[str, Tensor]]) -> None:
        for parameter in parameters:
            # Of the same shape, and nothing that anybody could take for weights.
            parameter.data = parameter.new_full((), torch.nan).expand(parameter.shape)
        self._released = restored

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(PreparedWeights().__dict__ | state)
