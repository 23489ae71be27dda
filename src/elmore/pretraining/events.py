"""What a training run tells while it runs. Whoever runs it decides what to print."""

from pathlib import Path
from typing import NamedTuple

from elmore.pretraining.evaluation import HeldOut
from elmore.pretraining.loop import Update


class Started(NamedTuple):
    """Before the first update."""

    tokens: int
    types: int  # distinct words
    unknown_share: float
    sampled: bool  # whether the losses of training are those of a sampled softmax
    parameters: int
    softmax_parameters: int
    memory: int | None  # bytes that this process needs, on its GPU if it has one; None where nobody knows
    updates: int
    frozen_updates: int  # the first of them, which move the softmax only
    epochs: float
    seconds: float  # an estimate, from a few updates that were timed and taken back
    processes: int
    done: int  # updates that an earlier try had made


class Progressed(NamedTuple):
    """Now and then."""

    update: Update
    updates: int
    epoch: float
    tokens_per_second: float
    seconds_left: float
    logged: bool  # whether the update stands in the log; others only show that the run is alive


class Evaluated(NamedTuple):
    """After an evaluation on the held-out part."""

    number: int
    held_out: HeldOut
    before: bool  # of fine-tuning: whether this is the model as it came


class RolledBack(NamedTuple):
    """After a loss that was not finite, or that leapt."""

    number: int  # the update in question
    to: int  # the update the run went back to
    rate_share: float  # of the recipe's rate, from now on


class Stopped(NamedTuple):
    """After the user asked for it; all is saved."""

    number: int


class Finished(NamedTuple):
    """At the end."""

    model: Path
    hdf5: Path | None
    held_out: HeldOut | None
    before: HeldOut | None


Event = Started | Progressed | Evaluated | RolledBack | Stopped | Finished
