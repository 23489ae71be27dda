"""What a training will take, time and memory: measured on a few updates, which the caller takes back."""

import time
from functools import partial

import torch

from elmore.pretraining.loop import train
from elmore.pretraining.stepping import Stepper
from elmore.pretraining.windows import Windows
from elmore.training.distributed import Team

# On a GPU so many that the loop, which runs ahead of it, counts for little; on a CPU as many as fit into a few seconds.
MOST_UPDATES = 32
SECONDS = 2.0


def seconds_per_update(stepper: Stepper, windows: Windows, team: Team, *, done: int, left: int) -> float:
    """How long one update takes, once all is set up. Everything that the stepper holds has moved on afterwards."""
    # Whole loops only: they end when the last loss is known, so the device has then done its work.
    timed = partial(_time_of, stepper, windows, done, team.rank)
    first = timed(1)
    if stepper.device.type == "cuda":
        count = min(MOST_UPDATES, left)
        timed(count)  # captures the graphs
    else:
        count = team.led(lambda: max(1, min(MOST_UPDATES, left, int(SECONDS / first))))
    seconds = timed(count)
    return team.led(lambda: seconds / count)


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
