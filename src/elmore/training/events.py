"""The events of a training run, in pre-training and in tasks. The text of an event (`str`) is a line for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmore.training.trainable import Evaluation, Step


@dataclass(frozen=True, kw_only=True)
class Configured:
    """Before the first step: what is trained. Each kind of training adds its facts in a subclass."""

    parameters: int  # that are trained
    notices: tuple[str, ...] = ()  # warnings about data and recipe


class Message(NamedTuple):
    """Work beside the steps, in words."""

    text: str

    def __str__(self) -> str:
        return self.text


class Started(NamedTuple):
    """Before the first step of this process."""

    steps: int  # of the whole training
    done: int  # steps before a resumed run was stopped
    epochs: float
    processes: int
    is_finished: bool = False  # whether a resumed run has no steps left

    def __str__(self) -> str:
        if self.is_finished:
            return f"the run is finished after {self.done:,} steps; its model is written again"
        processes = f", in {self.processes} processes" if self.processes > 1 else ""
        resumed = f"; resumed after step {self.done:,}" if self.done else ""
        return f"{self.steps:,} steps, {self.epochs:.2f} epochs{processes}{resumed}"


class Estimated(NamedTuple):
    """An estimate of the duration, once in each phase."""

    until: int  # last step of the phase
    seconds: float  # up to that step
    memory: int | None  # bytes that training uses, on its GPU if it has one; None: unknown

    def __str__(self) -> str:
        memory = "" if self.memory is None else f"; {self.memory / 2**30:.1f} GiB of memory"
        return f"about {duration(self.seconds)} to step {self.until:,} on this machine{memory}"


class Progressed(NamedTuple):
    """A logged step, or another step after some seconds without output."""

    step: Step
    steps: int  # of the whole training
    epoch: float
    metrics: Mapping[str, Mapping[str, float]]
    tokens_per_second: float
    seconds_left: float
    logged: bool  # whether the log contains the step

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
    """An evaluation on held-out data."""

    number: int  # of the step
    evaluation: Evaluation
    is_baseline: bool  # whether this is a pretrained model before fine-tuning

    def __str__(self) -> str:
        baseline = ", before fine-tuning" if self.is_baseline else ""
        return f"step {self.number:,}  {self.evaluation.metric}{baseline}: {self.evaluation}"


class RolledBack(NamedTuple):
    """The return to a checkpoint after a loss that was not finite, or after a loss spike."""

    number: int  # the failed step, which is skipped from now on
    to: int  # the step of the checkpoint
    lr_scale: float  # factor of the learning rate from now on

    def __str__(self) -> str:
        slower = f", at {self.lr_scale:.3g} of the learning rate" if self.lr_scale < 1 else ""
        return (
            f"step {self.number:,}: the loss is not finite, or far above the losses before; rolled back to step "
            f"{self.to:,}, step {self.number:,} is skipped{slower}"
        )


class Stopped(NamedTuple):
    """The end of a run that was stopped and saved."""

    number: int

    def __str__(self) -> str:
        return f"stopped and saved after step {self.number:,}"


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The last event: the model is written. Each kind of training adds its results in a subclass."""

    model: Path


RunEvent = Configured | Message | Started | Estimated | Progressed | Evaluated | RolledBack | Stopped | Finished


def duration(seconds: float) -> str:
    """A duration in words.

    >>> duration(75), duration(7300)
    ('1 min 15 s', '2 h 1 min')
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
