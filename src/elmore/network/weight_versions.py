"""Know whether weights are what they were when something was made from them."""

from collections.abc import Callable, Iterable
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
    """

    def __init__(self) -> None:
        self._kept: tuple[object, Any] | None = None  # what it was made for, and the form itself

    def of(self, module: nn.Module, key: object, make: Callable[[], Any]) -> Any:
        """What `make` gives for these weights and this key."""
        parameters = list(module.parameters())
        if not parameters:
            # A replica of DataParallel, which lives for one pass, has none of its own, and shares this with the others.
            return make()
        trained = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters)
        if trained or torch.compiler.is_compiling():
            # Gradients lead through the preparation, so it belongs to each pass.
            self._kept = None
            return make()
        made_for = (key, weight_versions(parameters))
        kept = self._kept
        if kept is None or kept[0] != made_for:
            # As ordinary tensors, which a later pass may need for its gradients.
            with torch.inference_mode(mode=False), torch.no_grad():
                kept = made_for, make()
            self._kept = kept
        return kept[1]

    def forget(self) -> None:
        self._kept = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_kept": None}
