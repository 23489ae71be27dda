"""What a training will take, time and memory: measured on a few updates, which the caller takes back."""

import time
from functools import partial

import torch

from elmore.pretraining.loop import train
from elmore.pretraining.stepping import Stepper
from elmore.pretraining.windows import Windows
from elmore.training.distributed import Team

# The first updates pay for setting up, and of a few one may be held up by other programs: rounds of 1, 2, 4 and more.
LEAST_ROUNDS = 3
MOST_UPDATES = 32
SECONDS = 3.0


def seconds_per_update(stepper: Stepper, windows: Windows, team: Team, *, done: int, left: int) -> float:
    """How long one update takes, once all is set up. Everything that the stepper holds has moved on afterwards."""
    if stepper.device.type == "cuda":
        # New shapes of windows are captured as they come up, so only the second round over the same is believed.
        count = min(MOST_UPDATES, left)
        seconds = [_time_of(stepper, windows, done, team.rank, count) for _ in range(2)][1]
        return team.led(lambda: seconds / count)
    count, spent, rounds = 1, 0.0, 0
    while True:
        # Whole loops only: they end when the last loss is known, so the device has then done its work.
        seconds = _time_of(stepper, windows, done, team.rank, count)
        spent, rounds = spent + seconds, rounds + 1
        enough = count >= min(MOST_UPDATES, left) or (rounds >= LEAST_ROUNDS and spent > SECONDS)
        if team.led(partial(bool, enough)):
            return team.led(partial(float, seconds / count))
        count = min(2 * count, left)


def _time_of(stepper: Stepper, windows: Windows, done: int, rank: int, count: int) -> float:
    began = time.monotonic()
    for _ in train(stepper, windows, done=done, until=done + count, updates=done + count, rank=rank):
        pass
    return time.monotonic() - began


def most_memory(device: torch.device) -> int | None:
    """The most bytes that this process has held so far: on its GPU, or in all; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    try:
        import resource  # only on Unix
    except ImportError:
        return None
    import sys

    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
