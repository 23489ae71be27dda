"""What a run asks of whatever it trains: a biLM in pre-training, a tagger or a classifier in a task.

The run (see `run`) knows neither models nor data. It decides when to go on, evaluate, save, go back and stop.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor


class Step(NamedTuple):
    """What happened in one step of the optimizer."""

    number: int  # how many steps there have been with it
    losses: tuple[float, ...]  # one or several, as of the directions of a biLM
    gradient_norm: float  # of all gradients, before clipping
    learning_rate: float

    @property
    def loss(self) -> float:
        """The mean of all losses."""
        return sum(self.losses) / len(self.losses)

    @property
    def finite(self) -> bool:
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


class Evaluation(NamedTuple):
    """How good it has become, on data that it is not trained on."""

    metric: str  # in words, as in "held-out perplexity"
    score: float  # one number
    parts: Mapping[str, float]  # the numbers behind it: directions, or precision and recall
    tokens: int  # how many were read

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {value:.2f}" for name, value in self.parts.items())
        return f"{self.score:.2f} ({parts})" if parts else f"{self.score:.2f}"


class Trainable(Protocol):
    """Something that learns in steps, and can be put back to where it was."""

    @property
    def phase_ends(self) -> Sequence[int]:
        """The steps after which a phase ends, as that of a frozen part; the last is the end of the training.

        The losses of two phases are not compared, and `train` is never asked to cross from one to the next.
        """

    @property
    def steps_per_epoch(self) -> float: ...

    @property
    def tokens_per_step(self) -> float: ...

    @property
    def baseline_at(self) -> int | None:
        """The step at which the model is still as it came from elsewhere, and worth an evaluation to compare with."""

    @property
    def loss_may_leap(self) -> bool:
        """Whether a loss far above the last ones is nothing odd, as where small batches of examples differ much.

        Elsewhere it sends the run back as one that is not finite does.
        """

    @property
    def is_converged(self) -> bool:
        """Whether further steps would be in vain, as early stopping finds by an evaluation; the run then ends."""

    def train(self, done: int, until: int, *, skipped: Collection[int], rate_share: float) -> Iterator[Step]:
        """Go on after `done` steps up to `until`, but for those that are `skipped`, at a share of the rate.

        What a step reads and draws follows from its number alone, so that it does not matter where a run was stopped.
        """

    def metrics(self, step: Step) -> Mapping[str, Mapping[str, float]]:
        """What the log and the progress line tell of a step besides its loss."""

    def evaluate(self) -> Evaluation | None:
        """Measure on held-out data; None where there is none."""

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes in training, by name, on the CPU; every process is asked."""

    def load_state_dict(self, tensors: Mapping[str, Tensor], *, done: int) -> None:
        """Put back what `state_dict` gave after `done` steps."""

    def memory_bytes(self) -> int | None:
        """The memory that the training takes in this process so far; None where nobody knows."""
