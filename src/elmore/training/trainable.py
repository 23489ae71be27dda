"""The interface between the training loop and the models it trains, and the records they exchange.

`loop.TrainingLoop` decides when to step, evaluate, save, roll back and stop. A `Trainable` contains the model and data.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from torch import Tensor

T = TypeVar("T")


class Step(NamedTuple):
    """The result of one optimizer step."""

    number: int  # from 1
    losses: tuple[float, ...]  # one, or one for each direction of a biLM
    gradient_norm: float  # of all gradients, before clipping
    learning_rate: float

    @property
    def loss(self) -> float:
        """The mean of the losses."""
        return sum(self.losses) / len(self.losses)

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


class Evaluation(NamedTuple):
    """A score on held-out data."""

    metric: str  # as in "held-out perplexity"
    score: float
    parts: Mapping[str, float]  # the numbers of each direction, or precision and recall
    tokens: int  # in the held-out data

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in self.parts.items())
        return f"{self.score:.2f} ({parts})" if parts else f"{self.score:.2f}"


class Trainable(Protocol):
    """A model with its data and optimizers."""

    @property
    def phase_ends(self) -> Sequence[int]:
        """The last step of each phase, such as a phase with frozen layers; the last phase ends the training.

        `train` is never called for steps of two phases.
        """

    @property
    def steps_per_epoch(self) -> float: ...

    @property
    def tokens_per_step(self) -> float: ...

    @property
    def baseline_at(self) -> int | None:
        """The step at which a pretrained model is still unchanged and is evaluated for comparison."""

    @property
    def should_stop(self) -> bool:
        """Whether early stopping ends the training after the latest evaluation."""

    def train(self, done: int, until: int, *, skipped: Collection[int], lr_scale: float) -> Iterator[Step]:
        """Make the steps after `done` up to `until`, except `skipped`, at the learning rate times `lr_scale`.

        Batches and random numbers of a step depend only on its number, so that a resumed run makes the same steps.
        """

    def is_loss_spike(self, step: Step) -> bool:
        """Whether the losses are so much higher than before that the run must roll back and reduce its rate."""

    def metrics(self, step: Step) -> Mapping[str, Mapping[str, float]]:
        """Numbers for the log and the progress line, in addition to the loss."""

    def evaluate(self) -> Evaluation | None:
        """Evaluate on held-out data; None without held-out data."""

    def state_dict(self) -> dict[str, Tensor]:
        """All tensors that training changes, on the CPU; every process calls this."""

    def load_state_dict(self, tensors: Mapping[str, Tensor], *, done: int) -> None:
        """Restore the tensors of `state_dict` after `done` steps."""

    def memory_bytes(self) -> int | None:
        """The memory that training has used in this process so far; None if unknown."""


class Snapshot(NamedTuple):
    """The content of a checkpoint: named tensors, and the progress of the run."""

    tensors: Mapping[str, Tensor]
    progress: Mapping[str, Any]


class World:
    """The processes that train one model: here a single one. `pretraining.distributed` has those of torchrun."""

    rank, size = 0, 1

    @property
    def is_rank_zero(self) -> bool:
        """Whether this process writes the run folder and prints messages."""
        return self.rank == 0

    def any(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        return flag

    def all_reduce_mean(self, values: Tensor) -> Tensor:
        """The mean over all processes."""
        return values

    def all_gather(self, tensor: Tensor, *, dim: int) -> Tensor:  # noqa: ARG002  # one process has nothing to join
        """The tensors of all processes, joined in the order of their ranks."""
        return tensor

    def on_rank_zero(self, work: Callable[[], T]) -> T:
        """Run a function in rank 0 and return its result in every process; an error ends all processes."""
        return work()

    def load_snapshot(self, read: Callable[[], Snapshot]) -> Snapshot:
        """A snapshot that only rank 0 reads."""
        return read()
