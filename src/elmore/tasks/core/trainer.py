"""Any task's model as a `Trainable`: batches, steps, a score after every epoch, the best weights kept.

Scored, and kept, are the weights, or with `average_decay` their moving average. The training ends when the score on the
dev set has not risen for `patience` epochs, or after all epochs.
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
# So many steps are launched before the loss of one is asked for, on devices that work while the host goes on.
STEPS_AHEAD = {"cuda": 8}
# What stands in checkpoints before the names of the best weights, and of the average of all so far.
BEST, AVERAGE = "best.", "average."


class TaskTraining(Generic[E, P]):
    """A task's model and all that changes with it in training."""

    def __init__(self, assembled: AssembledModel[E, P], *, train: Sequence[E], dev: Sequence[E]) -> None:
        self.assembled = assembled
        assert isinstance(assembled.model, TaskModel), "what is fitted is not trained"
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
        # Word vectors of a file, for example. Joint training unfreezes the biLM later.
        self._frozen = {
            name
            for name, parameter in self.model.named_parameters()
            if not parameter.requires_grad and ".joint." not in f".{name}"
        }

    @property
    def should_stop(self) -> bool:
        return self.stopping.should_stop

    def train(self, done: int, until: int, *, skipped: Collection[int] = (), lr_scale: float = 1.0) -> Iterator[Step]:
        """Take the steps after `done`; yield each, on a GPU a little later."""
        self.model.train()
        waiting: deque[_PendingStep] = deque()
        for number, batch in self._batches_ahead(done, until, skipped):
            self._unfreeze((number - 1) / self.steps_per_epoch)
            # Dropout depends on seed and step alone, so a run that was stopped goes on as if it had not been.
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
        """The batches of these steps, made by a thread while others are being used."""

        def make(number: int) -> Batch[E]:
            examples = [self._train[place] for place in self.batches.batch(number - 1)]
            if self.task.draw_part is not None:
                draw = np.random.default_rng([self.options.seed, number])
                examples = [self.task.draw_part(one, self.assembled.recipe.task, draw) for one in examples]
            return self.maker.batch(examples)

        with ThreadPoolExecutor(1) as pool:
            waiting: deque[tuple[int, Future[Batch[E]]]] = deque()
            try:
                for number in range(done + 1, until + 1):
                    if number in skipped:
                        continue
                    waiting.append((number, pool.submit(make, number)))
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

    def is_loss_spike(self, step: Step) -> bool:  # noqa: ARG002  # for every step the same
        """Always False: the loss of a batch with a hard example is far above others, and the best weights are saved."""
        return False

    def metrics(self, step: Step) -> Mapping[str, Mapping[str, float]]:  # noqa: ARG002  # there are none beside the loss
        return {}

    def evaluate(self) -> Evaluation | None:
        """The score on the dev set; where it is the best so far, the weights are kept."""
        with self.average.in_place() if self.average is not None else nullcontext():
            score = self._score()
            if self.stopping.add(score.value):
                tensors = self.model.state_dict().items()
                self.best = {name: tensor.detach().clone() for name, tensor in tensors if name not in self._frozen}
        tokens = sum(len(tokens) for example in self._dev for tokens in self.task.sentences(example))
        # Of all classes together; how single ones fare, `elmore evaluate` tells.
        parts = {name: score.parts[name] for name in ("precision", "recall", "exact_match") if name in score.parts}
        return Evaluation(f"dev {score.metric}", score.value, parts, tokens)

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, their average, the optimizer's memory, the best weights and how the score went."""
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
        """How many it is trained on."""
        return len(self._train)

    def score_best(self) -> Score:
        """Put the best weights into the model, and score them once more."""
        if self.best:
            self.model.load_state_dict({**self.model.state_dict(), **self.best})
        return self._score()

    def _score(self) -> Score:
        predictions = self.maker.predict(self.model, self._dev, precision=self.options.precision)
        return self.task.metric.score(self._dev, predictions)

    def memory_bytes(self) -> int | None:
        return self._memory.peak_growth(training_state_bytes(self.model, [self.optimizer]))


class _PendingStep(NamedTuple):
    """A step whose loss may still have to be computed."""

    number: int
    rate: float
    numbers: Tensor  # (2,) loss and norm of the gradients, in ordinary memory
    is_there: torch.cuda.Event | None  # when they are

    @classmethod
    def of(cls, number: int, rate: float, numbers: Tensor) -> "_PendingStep":
        # Sent for at once: a copy that is asked for later would wait for all steps that were launched in between.
        copied = numbers.to("cpu", non_blocking=True)
        if not numbers.is_cuda:
            return cls(number, rate, copied, None)
        # Who waits for it sleeps: else every training would keep a core busy, which others beside it may need.
        is_there = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
        is_there.record(torch.cuda.current_stream(numbers.device))
        return cls(number, rate, copied, is_there)

    def finished(self) -> Step:
        if self.is_there is not None:
            self.is_there.synchronize()
        loss, norm = self.numbers.tolist()
        return Step(self.number, (loss,), norm, self.rate)


def epoch_steps(batches: int, options: TrainingOptions) -> int:
    """The steps of an epoch over so many batches: those that read each as often, and are enough.

    >>> epoch_steps(4, TrainingOptions(min_epoch_steps=50))
    52
    """
    return batches * -(-options.min_epoch_steps // batches)


class EarlyStopping:
    """Follows a score: the best evaluation, when the learning rate falls, and when training stops.

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
        self._evaluations_without_gain = 0  # as since the best, but a score of 0 after 0 counts

    def add(self, score: float) -> bool:
        """Count a score; return whether it is the best so far."""
        self.evaluations += 1
        self._evaluations_without_gain = 0 if score > self.best else self._evaluations_without_gain + 1
        # At 0 the model has not learned anything that the metric can measure, for example only that labels are rare.
        # The weights after more training are the better ones, but patience is not extended.
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
        """The number of the evaluation that was best, from 1."""
        return self.evaluations - self._evaluations_since_best

    def to_tensor(self) -> Tensor:
        """For a checkpoint; exact."""
        counts = [self._evaluations_since_best, self._evaluations_at_this_rate, self._evaluations_without_gain]
        return torch.tensor([self.best, self.lr_scale, self.evaluations, *counts], dtype=torch.float64)

    def restore(self, tensor: Tensor) -> None:
        self.best, self.lr_scale, *counts = tensor.tolist()
        self.evaluations, self._evaluations_since_best, self._evaluations_at_this_rate, *more = map(int, counts)
        # Checkpoints of older versions have no sixth number.
        self._evaluations_without_gain = more[0] if more else self._evaluations_since_best


def make_optimizer(model: nn.Module, recipe: TaskRecipe) -> torch.optim.Optimizer:
    """The optimizer of a recipe; a biLM that is trained with the task has a rate of its own."""
    options = recipe.training
    parameters = dict(model.named_parameters())
    bilm = [parameter for name, parameter in parameters.items() if ".joint." in f".{name}"]
    others = [parameter for parameter in parameters.values() if not any(parameter is one for one in bilm)]
    groups: list[dict[str, Any]] = [{"params": others, "rate": 1.0}]
    if bilm:
        groups.append({"params": bilm, "rate": recipe.elmo.learning_rate / options.learning_rate})
    rate, decay = options.learning_rate, options.weight_decay
    # One kernel for all parameters; on a CPU it would be another sum, and no faster.
    fused = all(parameter.is_cuda for parameter in parameters.values())
    match options.optimizer:
        case "adam":
            return torch.optim.Adam(groups, lr=rate, weight_decay=decay, fused=fused)
        case "adamw":
            return torch.optim.AdamW(groups, lr=rate, weight_decay=decay, fused=fused)
        case "adadelta":
            # As the paper's models have it; torch's own rho is 0.9.
            return torch.optim.Adadelta(groups, lr=rate, rho=0.95, eps=1e-6, weight_decay=decay)
        case "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=0.9, weight_decay=decay)


class ExponentialMovingAverage:
    """The average of all weights that are trained, or may be later.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> average = ExponentialMovingAverage(layer, decay=0.999)
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
