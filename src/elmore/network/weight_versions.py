"""Know whether weights are what they were when something was made from them."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from elmore.kernels.large_pages import return_freed_memory

Versions = list[tuple[int, int]]


def weight_versions(parameters: Sequence[Tensor]) -> Versions:
    """Where the weights lie and how often they were written to: changes with any training step or move."""
    try:
        return [(parameter.data_ptr(), parameter._version) for parameter in parameters]
    except RuntimeError:
        # Weights made in inference mode count no writes, and cannot be trained either.
        return [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters]


class ParameterList:
    """The parameters of a module and its parts, found once, and again when one of them is replaced by another.

    To walk through a module costs many times what it costs to see that nothing in it was replaced.
    """

    def __init__(self, module: nn.Module) -> None:
        # Not the module itself, which has this and so would not be freed when its last user lets go of it.
        self._module = weakref.ref(module)
        self._find(module)

    def of(self, module: nn.Module) -> list[nn.Parameter]:
        if module is not self._module():
            return list(module.parameters())  # a replica, which shares this with the module that it was made of
        if not all(place.get(name) is one for place, name, one in self._places):
            self._find(module)
        return self._parameters

    def _find(self, module: nn.Module) -> None:
        self._parameters = list(module.parameters())
        dictionaries: list[dict[str, Any]] = [
            place for part in module.modules() for place in (part._modules, part._parameters)
        ]
        self._places = [(place, name, one) for place in dictionaries for name, one in place.items()]


class PreparedWeights:
    """What a kernel made of a module's weights: made once, and again when they have changed.

    A copy of the module, or another process, starts without it.

    Where the form has all that the weights have, they need not be kept beside it. A module that was asked to lets go of
    them: its parameters stay what they are, but for their numbers, until somebody needs those again.
    """

    def __init__(self) -> None:
        self._kept: tuple[object, Any] | None = None  # what it was made for, and the form itself
        self._released: Callable[[], Mapping[str, Tensor]] | None = None  # gives back what was let go
        self._parameters: ParameterList | None = None
        self._seen: Versions | None = None
        self._generation = 0
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
        parameters = self._parameters_of(module)
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
            if kept is None or kept[0] != (key, self.generation(module)):
                # As ordinary tensors, which a later pass may need for its gradients.
                with torch.inference_mode(mode=False), torch.no_grad():
                    form = make()
                    if restore is not None and not any(parameter.is_inference() for parameter in parameters):
                        self._release(module, release, partial(restore, form))
                self._kept = kept = (key, self.generation(module)), form
        return kept[1]

    def generation(self, module: nn.Module) -> int:
        """A number that is another one whenever the numbers of the weights are, or may be."""
        with self._lock:
            versions = weight_versions(self._parameters_of(module))
            if versions != self._seen:
                self._seen = versions
                self._generation += 1
            return self._generation

    def forget(self) -> None:
        self._kept = self._seen = None

    def restore(self, module: nn.Module) -> None:
        """Give the module its weights back, if it has let go of any."""
        with self._lock:
            if self._released is None:
                return
            with torch.inference_mode(mode=False), torch.no_grad():
                for name, tensor in self._released().items():
                    module.get_parameter(name).data = tensor
            self._released = None

    def _release(self, module: nn.Module, names: Sequence[str], restored: Callable[[], Mapping[str, Tensor]]) -> None:
        self.generation(module)
        for name in names:
            parameter = module.get_parameter(name)
            # Of the same shape, and nothing that anybody could take for weights.
            parameter.data = parameter.new_full((), torch.nan).expand(parameter.shape)
        # What was made of them, word vectors too, is what it was.
        self._seen = weight_versions(self._parameters_of(module))
        self._released = restored
        return_freed_memory()

    def _parameters_of(self, module: nn.Module) -> list[nn.Parameter]:
        if self._parameters is None:
            self._parameters = ParameterList(module)
        return self._parameters.of(module)

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(PreparedWeights().__dict__ | state)


class PreparingModule(nn.Module):
    """A module whose weights kernels read in a form of their own; it may let go of them once they are in that form.

    The form is forgotten in `train`, because old optimizers write to parameter.data, which no version counts, and in
    `_apply`, because new numbers may come to lie where the old ones were.
    """

    def __init__(self) -> None:
        super().__init__()
        self.releases_weights = False  # once they are prepared, where they can be had back from that
        self._prepared = PreparedWeights()

    def restore_weights(self) -> None:
        """Have the weights back that were let go when they were prepared."""
        self._prepared.restore(self)

    def weight_generation(self) -> int:
        """A number that is another one whenever the numbers of the weights are, or may be."""
        return self._prepared.generation(self)

    def train(self, mode: bool = True) -> "PreparingModule":
        self.restore_weights()
        self._prepared.forget()
        return super().train(mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PreparingModule":
        self.restore_weights()
        self._prepared.forget()
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        self.restore_weights()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy, or another process, is made of."""
        self.restore_weights()
        return self.__dict__
