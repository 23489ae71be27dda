"""What a training run tells while it runs. Whoever runs it decides what to print."""

from pathlib import Path
from typing import NamedTuple

from elmore.pretraining.evaluation import HeldOut
from elmore.pretraining.loop import Update


class Started(NamedTuple):
    """Before the first update."""

    tokens: int
    types: int
    unknown_share: float
    parameters: int
    softmax_parameters: int
    updates: int
    epochs: float
    seconds: float  # an estimate, from a few updates that were timed and taken back
    done: int  # updates that an earlier try had made


class Logged(NamedTuple):
    """Now and then."""

    update: Update
    updates: int
    epoch: float
    tokens_per_second: float
    seconds_left: float


class Evaluated(NamedTuple):
    """After an evaluation on the held-out part."""

    number: int
    held_out: HeldOut


class RolledBack(NamedTuple):
    """After a loss that was not finite."""

    number: int  # the update in question
    to: int  # the update the run went back to


class Finished(NamedTuple):
    """At the end."""

    model: Path
    held_out: HeldOut | None


Event = Started | Logged | Evaluated | RolledBack | Finished
