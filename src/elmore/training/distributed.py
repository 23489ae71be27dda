"""Several processes that train one model, as torchrun starts them; one process needs none of this."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Team:
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def gather(self, tensor: Tensor, *, dim: int) -> Tensor:
        """The tensors of all processes, joined in the order of their ranks."""
        if self.size == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim=dim)

    def mean(self, values: Tensor) -> Tensor:
        """The mean over all processes."""
        if self.size == 1:
            return values
        values = values.clone()
        dist.all_reduce(values)
        return values / self.size

    def wait(self) -> None:
        """Until all have come this far."""
        if self.size > 1:
            dist.barrier()


@contextmanager
def joined_team(device: torch.device) -> Iterator[Team]:
    """Meet the other processes that torchrun started, if it did."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Team()
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Team(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()


def own_device(asked: str | None) -> torch.device:
    """The device asked for; else a GPU of this process's own; else the CPU."""
    if asked is not None:
        return torch.device(asked)
    if torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")
