"""The model of a task as a `Trainable`: batches, training steps, and a dev score after each epoch.

The weights with the best dev score are saved; with `average_decay`, the moving average of the weights is scored and
saved instead. Training stops after `patience` epochs without a better dev score, or after all epochs.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from elmore.tasks.core.assembly import AssembledModel
from elmore.tasks.core.batching import BucketBatchSampler
from elmore.tasks.core.config import TaskRecipe, TrainingOptions
from elmore.tasks.core.task import Batch, TaskModel
from elmore.tasks.metrics.metric import Score
from elmore.training.checkpoints import joint_state_dict, load_joint_state_dict
from elmore.training.memory import MemoryMeter, training_state_bytes
from elmore.training.trainable import Evaluation, Step

E = TypeVar("E")
P = TypeVar("P")

BATCHES_AHEAD = 4
# Steps that are launched before the loss of the first is read, on devices that run asynchronously.
STEPS_AHEAD = {"cuda": 8}
# Prefixes of tensor names in checkpoints: the best weights, and their moving average.
BEST, AVERAGE = "best.", "average."


class TaskTraining(Generic[E, P]):
    """A task model, its optimizer and the state of its training."""

    def __init__(self, assembled: AssembledModel[E, P], *, train: Sequence[E], dev: Sequence[E]) -> None:
        self.assembled = assembled
        assert isinstance(assembled.model, TaskModel), "a fitted model has no gradient descent"
        self.task, self.model, self.maker = assembled.task, assembled.model, assembled.maker
        self.options = assembled.recipe.training
        self._train, self._dev = train, dev
        task, maker = self.task, self.maker
        self._memory = MemoryMeter(maker.device)
        lengths = [sum(map(len, task.sentences(example))) for example in train]
        self.batches = BucketBatchSampler(lengths, batch_size=self.options.batch_size, seed=self.options.seed)
        epoch = epoch_steps(self.batches.per_epoch, self.options)
        self.steps_per_epoch = float(epoch)
        self.tokens_per_step = sum(lengths) / self.batches.per_epoch
        self.phase_ends = (self.options.epochs * epoch,)
        self.baseline_at = None
        self.optimizer = make_optimizer(self.model, assembled.recipe)
        self.stopping = EarlyStopping(self.options.patience, self.options.plateau_factor, self.options.plateau_patience)
        decay = self.options.average_decay
        self.average = ExponentialMovingAverage(self.model, decay=decay) if decay else None
        self.best: dict[str, Tensor] = {}
        # For example word vectors from a file. Joint training unfreezes the biLM later.
        self._frozen = {
            name
            for name, parameter in self.model.named_parameters()
            if not parameter.requires_grad and ".joint." not in f".{name}"
        }

    @property
    def should_stop(self) -> bool:
        return self.stopping.should_stop

    def train(self, done: int, until: int, *, skipped: Collection[int] = (), lr_scale: float = 1.0) -> Iterator[Step]:
        """Run the steps after `done` up to `until`. Yields each step; on a GPU, some steps later."""
        self.model.train()
        waiting: deque[_PendingStep] = deque()
        for number, batch in self._batches_ahead(done, until, skipped):
            self._unfreeze((number - 1) / self.steps_per_epoch)
            # Dropout depends only on seed and step, so a resumed run gives the same weights as an uninterrupted run.
            torch.manual_seed(self.options.seed * 1_000_003 + number)
            rate = lr_scale * self.stopping.lr_scale * self.options.learning_rate
            waiting.append(self._step(number, batch, rate))
            while len(waiting) > STEPS_AHEAD.get(self.maker.device.type, 0):
                yield waiting.popleft().finished()
        while waiting:
            yield waiting.popleft().finished()

    def _step(self, number: int, batch: Batch[E], rate: float) -> "_PendingStep":
        with self.maker.autocast(self.options.precision):
            loss = self.model.loss(batch)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        self.optimizer.step()
        if self.average is not None:
            self.average.update(number)
        return _PendingStep.of(number, rate, torch.stack([loss.detach(), norm]))

    def _batches_ahead(self, done: int, until: int, skipped: Collection[int]) -> Iterator[tuple[int, Batch[E]]]:
        """The batches of these steps. A thread collates them ahead of their use."""

        def collate(number: int) -> Batch[E]:
            examples = [self._train[index] for index in self.batches.batch(number - 1)]
            if self.task.draw_part is not None:
                generator = np.random.default_rng([self.options.seed, number])
                options = self.assembled.recipe.task
                examples = [self.task.draw_part(example, options, generator) for example in examples]
            return self.maker.batch(examples)

        with ThreadPoolExecutor(1) as pool:
            waiting: deque[tuple[int, Future[Batch[E]]]] = deque()
            try:
                for number in range(done + 1, until + 1):
                    if number in skipped:
                        continue
                    waiting.append((number, pool.submit(collate, number)))
                    if len(waiting) > BATCHES_AHEAD:
                        first, batch = waiting.popleft()
                        yield first, batch.result()
                while waiting:
                    first, batch = waiting.popleft()
                    yield first, batch.result()
            finally:
                for _, batch in waiting:
                    batch.cancel()

    def _unfreeze(self, epoch: float) -> None:
        if self.maker.joint is not None:
            self.maker.joint.unfreeze(epoch)

    def is_loss_spike(self, step: Step) -> bool:  # noqa: ARG002  # the same for every step
        """Always False: one hard example raises the loss of its batch, and the best weights are saved anyway."""
        return False

    def metrics(self, step: Step) -> Mapping[str, Mapping[str, float]]:  # noqa: ARG002  # only the loss is logged
        return {}

    def evaluate(self) -> Evaluation | None:
        """Score the dev set, and save the weights if the score is the best so far."""
        with self.average.applied() if self.average is not None else nullcontext():
            score = self._score()
            if self.stopping.add(score.value):
                tensors = self.model.state_dict().items()
                self.best = {name: tensor.detach().clone() for name, tensor in tensors if name not in self._frozen}
        tokens = sum(len(tokens) for example in self._dev for tokens in self.task.sentences(example))
        # The totals of all classes. `elmore evaluate` prints the scores of each class.
        parts = {name: score.parts[name] for name in ("precision", "recall", "exact_match") if name in score.parts}
        return Evaluation(f"dev {score.metric}", score.value, parts, tokens)

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, moving average, optimizer state, best weights and early stopping."""
        tensors = joint_state_dict(self.model, [self.optimizer])
        tensors |= {f"{BEST}{name}": tensor.cpu() for name, tensor in self.best.items()}
        if self.average is not None:
            tensors |= {f"{AVERAGE}{name}": tensor for name, tensor in self.average.state_dict().items()}
        return {**tensors, "stopping": self.stopping.to_tensor()}

    def load_state_dict(self, tensors: Mapping[str, Tensor], *, done: int) -> None:
        self._unfreeze(done / self.steps_per_epoch)
        load_joint_state_dict(self.model, [self.optimizer], tensors)
        self.best = {name.removeprefix(BEST): tensor for name, tensor in tensors.items() if name.startswith(BEST)}
        if self.average is not None:
            self.average.load_state_dict({name.removeprefix(AVERAGE): tensor for name, tensor in tensors.items()})
        self.stopping.restore(tensors["stopping"])

    @property
    def examples(self) -> int:
        """The number of training examples."""
        return len(self._train)

    def score_best(self) -> Score:
        """Load the best weights into the model, and score them again."""
        if self.best:
            self.model.load_state_dict({**self.model.state_dict(), **self.best})
        return self._score()

    def _score(self) -> Score:
        predictions = self.maker.predict(self.model, self._dev, precision=self.options.precision)
        return self.task.metric.score(self._dev, predictions)

    def memory_bytes(self) -> int | None:
        return self._memory.peak_growth(training_state_bytes(self.model, [self.optimizer]))


class _PendingStep(NamedTuple):
    """A launched step, whose loss may not be computed yet."""

    number: int
    rate: float
    numbers: Tensor  # (2,) loss and gradient norm, in host memory
    ready: torch.cuda.Event | None  # None: `numbers` is valid

    @classmethod
    def of(cls, number: int, rate: float, numbers: Tensor) -> "_PendingStep":
        # The copy is queued now: a later copy would wait for all steps that were launched in between.
        copied = numbers.to("cpu", non_blocking=True)
        if not numbers.is_cuda:
            return cls(number, rate, copied, None)
        # A blocking event: busy waiting would occupy a CPU core for each training process.
        ready = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        ready.record(torch.cuda.current_stream(numbers.device))
        return cls(number, rate, copied, ready)

    def finished(self) -> Step:
        if self.ready is not None:
            self.ready.synchronize()
        loss, norm = self.numbers.tolist()
        return Step(self.number, (loss,), norm, self.rate)


def epoch_steps(batches: int, options: TrainingOptions) -> int:
    """The number of steps of an epoch: the smallest multiple of `batches` that is at least `min_epoch_steps`.

    >>> epoch_steps(4, TrainingOptions(min_epoch_steps=50))
    52
    """
    return batches * -(-options.min_epoch_steps // batches)


class EarlyStopping:
    """Tracks the dev score: the best evaluation, the factor of the learning rate, and whether training should stop.

    >>> stopping = EarlyStopping(patience=2, factor=0.5, plateau_patience=1)
    >>> [stopping.add(score) for score in (80.0, 82.0, 81.0, 81.5)], stopping.lr_scale, stopping.should_stop
    ([True, True, False, False], 0.25, True)
    """

    def __init__(self, patience: int, factor: float, plateau_patience: int) -> None:
        self._patience, self._factor, self._plateau_patience = patience, factor, plateau_patience
        self.best = float("-inf")
        self.lr_scale = 1.0
        self.evaluations = 0
        self._evaluations_since_best = 0
        self._evaluations_at_this_rate = 0  # without a better score
        self._evaluations_without_gain = 0  # like `_evaluations_since_best`, but a score of 0 after 0 is no gain

    def add(self, score: float) -> bool:
        """Add a score. Returns whether it is the best so far."""
        self.evaluations += 1
        self._evaluations_without_gain = 0 if score > self.best else self._evaluations_without_gain + 1
        # A score of 0 measures nothing: the model may have learned, for example, that labels are rare. After a second
        # score of 0, the later weights are saved, but patience is not extended.
        if score > self.best or self.best == score == 0:
            self.best, self._evaluations_since_best, self._evaluations_at_this_rate = score, 0, 0
            return True
        self._evaluations_since_best += 1
        self._evaluations_at_this_rate += 1
        if self._evaluations_at_this_rate >= self._plateau_patience:
            self.lr_scale *= self._factor
            self._evaluations_at_this_rate = 0
        return False

    @property
    def should_stop(self) -> bool:
        return self._patience > 0 and self._evaluations_without_gain >= self._patience

    @property
    def best_evaluation(self) -> int:
        """The number of the best evaluation, from 1."""
        return self.evaluations - self._evaluations_since_best

    def to_tensor(self) -> Tensor:
        """The state for a checkpoint, exact."""
        counts = [self._evaluations_since_best, self._evaluations_at_this_rate, self._evaluations_without_gain]
        return torch.tensor([self.best, self.lr_scale, self.evaluations, *counts], dtype=torch.float64)

    def restore(self, tensor: Tensor) -> None:
        self.best, self.lr_scale, *counts = tensor.tolist()
        self.evaluations, self._evaluations_since_best, self._evaluations_at_this_rate, *more = map(int, counts)
        # Checkpoints of older versions have no sixth number.
        self._evaluations_without_gain = more[0] if more else self._evaluations_since_best


def make_optimizer(model: nn.Module, recipe: TaskRecipe) -> torch.optim.Optimizer:
    """The optimizer of a recipe. A biLM in joint training has a separate learning rate."""
    options = recipe.training
    parameters = dict(model.named_parameters())
    bilm = [parameter for name, parameter in parameters.items() if ".joint." in f".{name}"]
    others = [parameter for parameter in parameters.values() if not any(parameter is one for one in bilm)]
    groups: list[dict[str, Any]] = [{"params": others, "rate": 1.0}]
    if bilm:
        groups.append({"params": bilm, "rate": recipe.elmo.learning_rate / options.learning_rate})
    rate, decay = options.learning_rate, options.weight_decay
    # One kernel for all parameters on a GPU. On a CPU it is not faster, and its rounding differs.
    fused = all(parameter.is_cuda for parameter in parameters.values())
    match options.optimizer:
        case "adam":
            return torch.optim.Adam(groups, lr=rate, weight_decay=decay, fused=fused)
        case "adamw":
            return torch.optim.AdamW(groups, lr=rate, weight_decay=decay, fused=fused)
        case "adadelta":
            # As in the paper's models. The default rho of torch is 0.9.
            return torch.optim.Adadelta(groups, lr=rate, rho=0.95, eps=1e-6, weight_decay=decay)
        case "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=0.9, weight_decay=decay)


class ExponentialMovingAverage:
    """The moving average of all weights that are trained now or later.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> average = ExponentialMovingAverage(layer, decay=0.999)
    >>> before = layer.weight.item()
    >>> layer.weight.data += 11
    >>> average.update(1)  # d is 2 / 11
    >>> with average.applied():
    ...     round(layer.weight.item() - before, 4)
    9.0
    """

    def __init__(self, model: nn.Module, *, decay: float) -> None:
        self._decay = decay
        # Without frozen parameters, except the biLM's: joint training unfreezes them later.
        self._parameters = {
            name: parameter
            for name, parameter in model.named_parameters()
            if parameter.requires_grad or ".joint." in f".{name}"
        }
        self._average = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the weights after this step, counted from 1."""
        decay = min(self._decay, (1 + step) / (10 + step))
        # One GPU kernel for all weights.
        torch._foreach_lerp_(list(self._average.values()), list(self._parameters.values()), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average into the model inside the context. Afterwards the weights are restored exactly."""
        weights = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self._put(self._average)
        try:
            yield
        finally:
            self._put(weights)

    @torch.no_grad()
    def _put(self, values: Mapping[str, Tensor]) -> None:
        torch._foreach_copy_(list(self._parameters.values()), [values[name] for name in self._parameters])

    def state_dict(self) -> dict[str, Tensor]:
        """The average, for a checkpoint."""
        return {name: tensor.cpu() for name, tensor in self._average.items()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        for name, average in self._average.items():
            average.copy_(tensors[name])
