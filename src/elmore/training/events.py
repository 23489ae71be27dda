"""What a training run tells while it runs. Each event prints as a line for people; whoever runs it decides where."""

from collections.abc import Mapping
from typing import NamedTuple

from elmore.training.trainable import Evaluation, Step


class Started(NamedTuple):
    """Before the first step."""

    steps: int  # of the whole training
    done: int  # by an earlier try
    epochs: float
    processes: int
    is_finished: bool = False  # already, by an earlier try

    def __str__(self) -> str:
        if self.is_finished:
            return f"this run is finished, after {self.done:,} steps; its model is written again"
        processes = f", in {self.processes} processes" if self.processes > 1 else ""
        goes_on = f"; going on after step {self.done:,}" if self.done else ""
        return f"{self.steps:,} steps, {self.epochs:.2f} epochs{processes}{goes_on}"


class Estimated(NamedTuple):
    """Once the first steps of a phase have shown what the rest will take."""

    until: int  # the step with which the phase ends
    seconds: float  # up to there
    memory: int | None  # bytes that the training takes in this process, on its GPU if it has one; None: unknown

    def __str__(self) -> str:
        memory = "" if self.memory is None else f"; {self.memory / 2**30:.1f} GiB of memory"
        return f"about {duration(self.seconds)} to step {self.until:,} on this machine{memory}"


class Progressed(NamedTuple):
    """Now and then."""

    step: Step
    steps: int  # of the whole training
    epoch: float
    metrics: Mapping[str, Mapping[str, float]]
    tokens_per_second: float
    seconds_left: float
    logged: bool  # whether the step stands in the log; others only show that the run is alive

    @property
    def line(self) -> str:
        """The numbers of the step."""
        metrics = [
            f"{name.replace('_', ' ')} {' '.join(f'{value:.1f}' for value in values.values())}"
            for name, values in self.metrics.items()
        ]
        parts = [f"epoch {self.epoch:.2f}", f"loss {self.step.loss:.4f}", *metrics]
        return "  ".join([*parts, f"{self.tokens_per_second:,.0f} tokens/s"])

    def __str__(self) -> str:
        return f"step {self.step.number:,}/{self.steps:,}  {self.line}  {duration(self.seconds_left)} left"


class Evaluated(NamedTuple):
    """After an evaluation on held-out data."""

    number: int  # of the step
    evaluation: Evaluation
    is_baseline: bool  # of fine-tuning: whether this is the model as it came

    def __str__(self) -> str:
        baseline = ", before fine-tuning" if self.is_baseline else ""
        return f"step {self.number:,}  {self.evaluation.metric}{baseline}: {self.evaluation}"


class RolledBack(NamedTuple):
    """After a loss that was not finite, or that leapt."""

    number: int  # the step in question
    to: int  # the step the run went back to
    rate_share: float  # of the recipe's rate, from now on

    def __str__(self) -> str:
        slower = f", at {self.rate_share:.3g} of the rate" if self.rate_share < 1 else ""
        return (
            f"step {self.number:,}: the loss is not finite, or has leapt; back to step {self.to:,}, "
            f"leaving that one out{slower}"
        )


class Stopped(NamedTuple):
    """After the user asked for it; all is saved."""

    number: int

    def __str__(self) -> str:
        return f"stopped after step {self.number:,}, and saved"


RunEvent = Started | Estimated | Progressed | Evaluated | RolledBack | Stopped


def duration(seconds: float) -> str:
    """In words a person plans with.

    >>> duration(75), duration(7300)
    ('1 min 15 s', '2 h 1 min')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
