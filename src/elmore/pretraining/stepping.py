"""One step of the optimizer: forward, backward, clip, step.

On a GPU the forward and the backward pass of a window are one CUDA graph, so that a thousand small kernels cost one
launch. A graph needs fixed shapes, and every window has another number of distinct words, and another longest one: both
are filled up to the next multiple of a block, and there is a graph for each such pair.

G directions, T steps, R rows, W distinct words, K negatives, V classes.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.nn.bilm import StateTensors
from elmore.nn.cross_entropy import Candidates
from elmore.nn.language_model import LanguageModel
from elmore.nn.word_encoder import WordIdTensors
from elmore.pretraining.recipe import Training
from elmore.pretraining.sampling import log_expected_counts
from elmore.pretraining.windows import Window
from elmore.training.row_adam import RowAdam

WORDS_BLOCK = 1024
CHARACTERS_BLOCK = 8
PASSES_BEFORE_CAPTURE = 3


class StepResult:
    """What a step says of itself; from a GPU it is on its way, and nobody waits for it but who reads it."""

    def __init__(self, losses: Tensor, norm: Tensor) -> None:
        values = torch.cat([losses, norm[None].to(losses.dtype)])
        self._values = values.to("cpu", non_blocking=True)
        self._arrived: torch.cuda.Event | None = None
        if values.is_cuda:
            self._arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._arrived.record()

    @property
    def losses(self) -> Tensor:
        """(G,) the mean of each direction."""
        return self._waited_for()[:-1]

    @property
    def gradient_norm(self) -> Tensor:
        """() of all gradients, before clipping."""
        return self._waited_for()[-1]

    def _waited_for(self) -> Tensor:
        if self._arrived is not None:
            # To ask the GPU itself would be to wait for all steps that have been launched since.
            self._arrived.synchronize()
        return self._values


class Stepper:
    """Holds all that changes in training: the model, its optimizers, and the state that rows carry on."""

    def __init__(
        self,
        model: LanguageModel,
        words: WordIdTensors,  # of all types of the corpus, on the model's device
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
        self.state = StateTensors.zeros(model.config, rows=rows).to(self.device)
        self.optimizers = make_optimizers(model, training)
        self._module = module or model
        self._words = words
        self._characters_needed = characters_needed
        self._probabilities = None
        if class_probabilities is not None:
            self._probabilities = torch.from_numpy(class_probabilities).float().to(self.device)
        self._transfer = _PinnedTransfer()
        self._graphs: dict[_Shape, _Graph] = {}

    def seed(self, number: int) -> None:
        """Decide what dropout draws next. torch.manual_seed would reach for every kind of device, at length."""
        if self.device.type == "cuda":
            torch.cuda.manual_seed(number)
        else:
            torch.default_generator.manual_seed(number)

    def step(self, windows: Sequence[Window], rate: float) -> StepResult:
        """Read the windows one after another and take one step along the mean of their gradients."""
        results = []
        total: dict[nn.Parameter, Tensor] = {}
        for window in windows:
            results.append(self._read(window))
            if len(windows) > 1:
                for parameter in self.model.parameters():
                    if parameter.grad is not None:
                        share = parameter.grad / len(windows)
                        total[parameter] = total[parameter] + share if parameter in total else share
        for parameter, gradient in total.items():
            parameter.grad = gradient
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.training.gradient_clip)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        return StepResult(torch.stack(results).mean(dim=0), norm)

    def _read(self, window: Window) -> Tensor:
        """(G,) the losses of one window; its gradients stand in the parameters, the state has gone on."""
        graphed = self.device.type == "cuda" and self._module is self.model
        shape = self._shape(window, block=WORDS_BLOCK if graphed else 1)
        packed = _packed(window, words=shape.words)
        if not graphed:
            self.model.zero_grad()
            return self._pass(torch.from_numpy(packed).to(self.device), shape)
        if shape not in self._graphs:
            self._graphs[shape] = _Graph(self, packed, shape)
        return self._graphs[shape].replay(packed)

    def _shape(self, window: Window, *, block: int) -> "_Shape":
        words = -(-len(window.types) // block) * block
        if self._characters_needed is None:
            return _Shape(words, None)
        longest = int(self._characters_needed[window.types].max())
        return _Shape(words, -(-longest // CHARACTERS_BLOCK) * CHARACTERS_BLOCK)

    def _pass(self, packed: Tensor, shape: "_Shape") -> Tensor:
        """Forward and backward, without a glance at any value, so that it can be captured."""
        places = (self.model.config.num_directions, self.training.window, self.state.rows)
        n = math.prod(places)
        sizes = [shape.words, n, n, 1, len(packed) - shape.words - 2 * n - 1]
        types, inputs, targets, tries, negatives = torch.split(packed.long(), sizes)
        words = self._words.select(types)
        if words.character_ids is not None:
            words = words._replace(character_ids=words.character_ids[:, : shape.width].long())
        losses: Tensor
        losses, after = self._module(
            words,
            inputs.view(places),
            targets.view(places),
            self.state,
            candidates=self._candidates(negatives, tries),
            dropout=self.training.dropout,
            dtype=getattr(torch, self.training.precision),
        )
        # The loss of a row's whole window, as in the original: its clip and its rate are made for that.
        torch.autograd.backward(losses.mean() * self.training.window)
        self.state.h.copy_(after.h)
        self.state.c.copy_(after.c)
        return losses.detach()

    def _candidates(self, negatives: Tensor, tries: Tensor) -> Candidates | None:
        if self._probabilities is None:
            return None
        return Candidates(negatives, log_expected_counts(self._probabilities, tries))


class _Shape(NamedTuple):
    """What a captured graph is made for."""

    words: int
    width: int | None  # how many characters the longest of them needs; None for all


def _packed(window: Window, *, words: int) -> NDArray[np.int32]:
    """All of a window in one piece: types, inputs, targets, tries, negatives.

    The types are filled up with type 0, which is encoded in vain: no input points to those places.
    """
    drawn = window.negatives
    parts = [window.types, np.zeros(words - len(window.types)), window.inputs.ravel(), window.targets.ravel()]
    parts += [np.array([drawn.tries]), drawn.classes] if drawn else [np.zeros(1)]
    return np.concatenate(parts, dtype=np.int32, casting="unsafe")


class _PinnedTransfer:
    """Brings arrays to the GPU while it works on others, through a few buffers in pinned memory."""

    def __init__(self, buffers: int = 4) -> None:
        self._buffers: deque[tuple[Tensor, torch.cuda.Event]] = deque(maxlen=buffers)

    def send(self, array: NDArray[np.int32], to: Tensor) -> None:
        """Copy into a tensor on the GPU, once it has come to that."""
        if len(self._buffers) < (self._buffers.maxlen or 0):
            buffer = torch.empty(0, dtype=torch.int32)
            sent = torch.cuda.Event()  # type: ignore[no-untyped-call]
        else:
            buffer, sent = self._buffers.popleft()
            sent.synchronize()
        if len(buffer) < len(array):
            buffer = torch.empty(len(array), dtype=torch.int32, pin_memory=True)
        buffer.numpy()[: len(array)] = array
        to.copy_(buffer[: len(array)], non_blocking=True)
        sent.record()
        self._buffers.append((buffer, sent))


class _Graph:
    """Forward and backward of windows of one shape, captured once."""

    def __init__(self, stepper: Stepper, packed: NDArray[np.int32], shape: _Shape) -> None:
        self._parameters = list(stepper.model.parameters())
        self._transfer = stepper._transfer
        self._packed = torch.from_numpy(packed).to(stepper.device)
        before = StateTensors(stepper.state.h.clone(), stepper.state.c.clone())
        drawn = torch.cuda.get_rng_state(stepper.device)
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(PASSES_BEFORE_CAPTURE):
                stepper.model.zero_grad()
                stepper._pass(self._packed, shape)
        torch.cuda.current_stream().wait_stream(aside)
        stepper.model.zero_grad()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._losses = stepper._pass(self._packed, shape)
        self._gradients = [parameter.grad for parameter in self._parameters]
        # The trial passes have moved the state on, and drawn for dropout; the capture itself computes nothing.
        stepper.state.h.copy_(before.h)
        stepper.state.c.copy_(before.c)
        torch.cuda.set_rng_state(drawn, stepper.device)

    def replay(self, packed: NDArray[np.int32]) -> Tensor:
        self._transfer.send(packed, self._packed)
        self._graph.replay()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return self._losses.clone()


def make_optimizers(model: LanguageModel, training: Training) -> list[torch.optim.Optimizer]:
    """The optimizers a recipe asks for, together responsible for all parameters."""
    rate = training.learning_rate
    if training.optimizer == "adagrad":
        # As in the original: accumulators start at one, so the first steps are no larger than later ones.
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
