"""One step of the optimizer: forward, backward, clip, step.

On a GPU the forward and backward pass of a window are one CUDA graph: a single launch for a thousand small kernels. A
graph has fixed shapes, and windows differ in the number of distinct words and in the length of the longest word. Both
numbers are rounded up to a multiple of a block, and there is one graph for each pair of them.

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
from elmore.pretraining.row_adam import RowAdam
from elmore.pretraining.windows import Window, log_expected_counts

WORDS_BLOCK = 1024
CHARACTERS_BLOCK = 8
WARMUP_PASSES = 3


class StepResult:
    """Losses and gradient norm of a step. From a GPU they are copied in the background; reading them waits."""

    def __init__(self, losses: Tensor, norm: Tensor) -> None:
        values = torch.cat([losses, norm[None].to(losses.dtype)])
        self._values = values.to("cpu", non_blocking=True)
        self._copied: torch.cuda.Event | None = None
        if values.is_cuda:
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._copied.record()

    @property
    def losses(self) -> Tensor:
        """(G,) mean loss of each direction."""
        return self._synchronized()[:-1]

    @property
    def gradient_norm(self) -> Tensor:
        """() norm of all gradients, before clipping."""
        return self._synchronized()[-1]

    def _synchronized(self) -> Tensor:
        if self._copied is not None:
            # Synchronizing with the GPU itself would also wait for the steps launched since then.
            self._copied.synchronize()
        return self._values


class Stepper:
    """Makes optimizer steps; contains model, optimizers and the LSTM states of the rows."""

    def __init__(
        self,
        model: LanguageModel,
        words: WordIdTensors,  # of all types of the corpus, on the model's device
        training: Training,
        *,
        rows: int,
        characters_needed: NDArray[np.int64] | None = None,  # of all types
        class_probabilities: NDArray[np.float64] | None = None,  # (V,) of the sampler
        module: nn.Module | None = None,  # the model in DistributedDataParallel
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
        """Seed dropout. Faster than torch.manual_seed, which seeds every kind of device."""
        if self.device.type == "cuda":
            torch.cuda.manual_seed(number)
        else:
            torch.default_generator.manual_seed(number)

    def step(self, windows: Sequence[Window], rate: float) -> StepResult:
        """Make one step with the mean of the gradients of the windows."""
        results = []
        total: dict[nn.Parameter, Tensor] = {}
        for window in windows:
            results.append(self._forward_backward(window))
            if len(windows) > 1:
                for parameter in self.model.parameters():
                    if parameter.grad is not None:
                        share = parameter.grad / len(windows)
                        total[parameter] = total[parameter] + share if parameter in total else share
        for parameter, gradient in total.items():
            parameter.grad = gradient
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.training.max_grad_norm)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
        return StepResult(torch.stack(results).mean(dim=0), norm)

    def _forward_backward(self, window: Window) -> Tensor:
        """(G,) losses of one window. Sets the gradients of the parameters, and updates the LSTM states."""
        is_graphed = self.device.type == "cuda" and self._module is self.model
        shape = self._shape(window, block=WORDS_BLOCK if is_graphed else 1)
        packed = _packed(window, words=shape.words)
        if not is_graphed:
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
        """Forward and backward pass. Reads no values on the host, so that a graph can capture it."""
        shape_of_inputs = (self.model.config.num_directions, self.training.window, self.state.rows)
        n = math.prod(shape_of_inputs)
        sizes = [shape.words, n, n, 1, len(packed) - shape.words - 2 * n - 1]
        types, inputs, targets, tries, negatives = torch.split(packed.long(), sizes)
        words = self._words.select(types)
        if words.character_ids is not None:
            words = words._replace(character_ids=words.character_ids[:, : shape.width].long())
        losses: Tensor
        losses, final_state = self._module(
            words,
            inputs.view(shape_of_inputs),
            targets.view(shape_of_inputs),
            self.state,
            candidates=self._candidates(negatives, tries),
            dropout=self.training.dropout,
            dtype=getattr(torch, self.training.precision),
        )
        # The loss of a row's whole window, as in the original, for which gradient clipping and rate are tuned.
        torch.autograd.backward(losses.mean() * self.training.window)
        self.state.h.copy_(final_state.h)
        self.state.c.copy_(final_state.c)
        return losses.detach()

    def _candidates(self, negatives: Tensor, tries: Tensor) -> Candidates | None:
        if self._probabilities is None:
            return None
        return Candidates(negatives, log_expected_counts(self._probabilities, tries))


class _Shape(NamedTuple):
    """The sizes of a captured graph."""

    words: int
    width: int | None  # characters of the longest word; None: without limit


def _packed(window: Window, *, words: int) -> NDArray[np.int32]:
    """A window as one array: types, inputs, targets, tries, negatives.

    The types are padded with type 0, to which no input refers.
    """
    negatives = window.negatives
    parts = [window.types, np.zeros(words - len(window.types)), window.inputs.ravel(), window.targets.ravel()]
    parts += [np.array([negatives.tries]), negatives.classes] if negatives else [np.zeros(1)]
    return np.concatenate(parts, dtype=np.int32, casting="unsafe")


class _PinnedTransfer:
    """Copies arrays to the GPU in the background, through a few buffers in pinned memory."""

    def __init__(self, buffers: int = 4) -> None:
        self._buffers: deque[tuple[Tensor, torch.cuda.Event]] = deque(maxlen=buffers)

    def send(self, array: NDArray[np.int32], to: Tensor) -> None:
        """Copy into a tensor on the GPU, after the GPU's earlier work."""
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
    """The captured forward and backward pass of windows of one shape."""

    def __init__(self, stepper: Stepper, packed: NDArray[np.int32], shape: _Shape) -> None:
        self._parameters = list(stepper.model.parameters())
        self._transfer = stepper._transfer
        self._packed = torch.from_numpy(packed).to(stepper.device)
        before = StateTensors(stepper.state.h.clone(), stepper.state.c.clone())
        rng_state = torch.cuda.get_rng_state(stepper.device)
        side_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side_stream):
            for _ in range(WARMUP_PASSES):
                stepper.model.zero_grad()
                stepper._pass(self._packed, shape)
        torch.cuda.current_stream().wait_stream(side_stream)
        stepper.model.zero_grad()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._losses = stepper._pass(self._packed, shape)
        self._gradients = [parameter.grad for parameter in self._parameters]
        # The warmup passes changed LSTM states and random state. The capture itself computes nothing.
        stepper.state.h.copy_(before.h)
        stepper.state.c.copy_(before.c)
        torch.cuda.set_rng_state(rng_state, stepper.device)

    def replay(self, packed: NDArray[np.int32]) -> Tensor:
        self._transfer.send(packed, self._packed)
        self._graph.replay()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return self._losses.clone()


def make_optimizers(model: LanguageModel, training: Training) -> list[torch.optim.Optimizer]:
    """The optimizers of a recipe, together for all parameters."""
    rate = training.learning_rate
    if training.optimizer == "adagrad":
        # As in the original: accumulators start at 1, so that the first steps are not larger than later ones.
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
