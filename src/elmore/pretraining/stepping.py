"""One update after another: forward, backward, clip, step.

On a GPU the forward and the backward pass of a window are one CUDA graph, so that a thousand small kernels cost one
launch. A graph needs fixed shapes, and every window has another number of distinct words: it is filled up to the next
multiple of a block, and there is a graph for each such number.

G directions, T steps, R rows, W distinct words, K negatives, V classes.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.kernels.cross_entropy import Candidates
from elmore.network.language_model import LanguageModel
from elmore.network.state import State
from elmore.pretraining.windows import Window
from elmore.recipe import Training
from elmore.text.spelling import WordInputs
from elmore.training.row_adam import RowAdam

WORDS_BLOCK = 1024
CHARACTERS_BLOCK = 8
PASSES_BEFORE_CAPTURE = 3


class Outcome(NamedTuple):
    """What an update says of itself; still on the device, so that nobody has to wait for it."""

    losses: Tensor  # (G,) the mean of each direction
    norm: Tensor  # () of all gradients, before clipping


class Stepper:
    """Holds all that changes in training: the model, its optimizers, and the state that rows carry on."""

    def __init__(
        self,
        model: LanguageModel,
        words: WordInputs,  # of all types of the corpus
        training: Training,
        *,
        rows: int,
        characters_needed: NDArray[np.int64] | None = None,  # of all types
        class_probabilities: NDArray[np.float64] | None = None,  # (V,) of the sampler
        module: nn.Module | None = None,  # the model wrapped for many processes
    ) -> None:
        self.model = model
        self.training = training
        self.device = model.softmax_bias.device
        self.state = State.zeros(model.config, rows=rows).to(self.device)
        self.optimizers = make_optimizers(model, training)
        self._module = module or model
        self._words = words.to(self.device)
        self._characters_needed = characters_needed
        self._probabilities = None
        if class_probabilities is not None:
            self._probabilities = torch.from_numpy(class_probabilities).float().to(self.device)
        self._graphs: dict[tuple[int, int | None], _Graph] = {}

    def step(self, windows: Sequence[Window], rate: float) -> Outcome:
        """Read the windows one after another and take one step along the mean of their gradients."""
        outcomes = []
        total: dict[nn.Parameter, Tensor] = {}
        for window in windows:
            outcomes.append(self._read(window))
            if len(windows) > 1:
                for parameter in self.model.parameters():
                    if parameter.grad is not None:
                        share = parameter.grad / len(windows)
                        total[parameter] = total[parameter] + share if parameter in total else share
        for parameter, gradient in total.items():
            parameter.grad = gradient
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.training.clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        return Outcome(torch.stack(outcomes).mean(dim=0), norm)

    def _read(self, window: Window) -> Tensor:
        """(G,) the losses of one window; its gradients stand in the parameters, the state has gone on."""
        graphed = self.device.type == "cuda" and self._module is self.model
        inputs = _Inputs.of(window, self.device, fill=WORDS_BLOCK if graphed else 1)
        width = self._width(window)
        if not graphed:
            self.model.zero_grad()
            return self._pass(inputs, width)
        shape = len(inputs.types), width
        if shape not in self._graphs:
            self._graphs[shape] = _Graph(self, inputs, width)
        return self._graphs[shape].replay(inputs)

    def _width(self, window: Window) -> int | None:
        """How many characters the longest word of a window needs, rounded up so that graphs are few; None for all."""
        if self._characters_needed is None:
            return None
        return int(-(-self._characters_needed[window.types].max() // CHARACTERS_BLOCK) * CHARACTERS_BLOCK)

    def _pass(self, window: "_Inputs", width: int | None) -> Tensor:
        """Forward and backward, without a glance at any value, so that it can be captured."""
        words = self._words.select(window.types)
        if words.characters is not None:
            words = words._replace(characters=words.characters[:, :width].long())
        losses: Tensor
        losses, after = self._module(
            words,
            window.inputs,
            window.targets,
            self.state,
            candidates=self._candidates(window),
            dropout=self.training.dropout,
            dtype=getattr(torch, self.training.precision),
        )
        # The loss of a row's whole window, as in the original: its clip and its rate are made for that.
        torch.autograd.backward(losses.mean() * self.training.window)
        self.state.h.copy_(after.h)
        self.state.c.copy_(after.c)
        return losses.detach()

    def _candidates(self, window: "_Inputs") -> Candidates | None:
        if self._probabilities is None:
            return None
        return Candidates(window.negatives, (-torch.expm1(window.tries * torch.log1p(-self._probabilities))).log())


class _Inputs(NamedTuple):
    """A window as tensors on the device."""

    types: Tensor  # (W,)
    inputs: Tensor  # (G, T, R)
    targets: Tensor  # (G, T, R)
    negatives: Tensor  # (K,)
    tries: Tensor  # ()

    @classmethod
    def of(cls, window: Window, device: torch.device, *, fill: int) -> "_Inputs":
        """Filled up with the first word to a multiple of `fill` words."""
        missing = -len(window.types) % fill
        drawn = window.negatives
        arrays = (
            np.pad(window.types, (0, missing)),
            window.inputs,
            window.targets,
            drawn.classes if drawn else np.empty(0, dtype=np.int64),
            np.asarray(float(drawn.tries if drawn else 0), dtype=np.float32),
        )
        tensors = (torch.from_numpy(array) for array in arrays)
        if device.type == "cuda":
            tensors = (tensor.pin_memory().to(device, non_blocking=True) for tensor in tensors)
        return cls(*tensors)


class _Graph:
    """Forward and backward of windows with one number of words, captured once."""

    def __init__(self, stepper: Stepper, window: _Inputs, width: int | None) -> None:
        self._parameters = list(stepper.model.parameters())
        self._window = _Inputs(*(tensor.clone() for tensor in window))
        before = State(stepper.state.h.clone(), stepper.state.c.clone())
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(PASSES_BEFORE_CAPTURE):
                stepper.model.zero_grad()
                stepper._pass(self._window, width)
        torch.cuda.current_stream().wait_stream(aside)
        stepper.model.zero_grad()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._losses = stepper._pass(self._window, width)
        self._gradients = [parameter.grad for parameter in self._parameters]
        # The trial passes have moved the state on; the capture itself computes nothing.
        stepper.state.h.copy_(before.h)
        stepper.state.c.copy_(before.c)

    def replay(self, window: _Inputs) -> Tensor:
        for fixed, tensor in zip(self._window, window, strict=True):
            fixed.copy_(tensor)
        self._graph.replay()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return self._losses.clone()


def make_optimizers(model: LanguageModel, training: Training) -> list[torch.optim.Optimizer]:
    """The optimizers a recipe asks for, together responsible for all parameters."""
    rate = training.learning_rate
    if training.optimizer == "adagrad":
        # As in the original: accumulators start at one, so the first updates are no larger than later ones.
        return [torch.optim.Adagrad(model.parameters(), lr=rate, initial_accumulator_value=1.0, eps=1e-10)]
    tables = [model.softmax_weight, model.softmax_bias]
    if model.network.words.table is not None:
        tables.append(model.network.words.table)
    others = [parameter for parameter in model.parameters() if not any(parameter is table for table in tables)]
    fused = model.softmax_bias.is_cuda
    return [
        torch.optim.AdamW(others, lr=rate, weight_decay=training.weight_decay, fused=fused),
        RowAdam(tables, lr=rate),
    ]
