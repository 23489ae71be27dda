"""Several processes that train one model, as torchrun starts them; one process needs none of this.

Rank 0 alone reads and writes the run's folder and speaks, and tells the others what it found. What goes wrong there
ends them all; a process that dies takes the others with it, so that torchrun can start them all again.
"""

import gc
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from elmore.errors import ElmoreError
from elmore.nn.devices import choose_device

T = TypeVar("T")
GROUP_KEY = "elmore/group"  # in torchrun's store, where the processes of one try agree on a name


class LostProcess(ElmoreError):
    """Another process of the same training has ended."""


@dataclass(frozen=True)
class World:
    """Which of how many processes this is."""

    rank: int = 0
    size: int = 1

    @property
    def is_rank_zero(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def all_gather(self, tensor: Tensor, *, dim: int) -> Tensor:
        """The tensors of all processes, joined in the order of their ranks."""
        if self.size == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim=dim)

    def all_reduce_mean(self, values: Tensor) -> Tensor:
        """The mean over all processes."""
        if self.size == 1:
            return values
        values = values.clone()
        dist.all_reduce(values)
        return values / self.size

    def any(self, flag: bool) -> bool:
        """Whether it is so in any process."""
        return bool(self.all_reduce_mean(torch.tensor([float(flag)])).item())

    def on_rank_zero(self, work: Callable[[], T]) -> T:
        """Have rank 0 do something, and broadcast what came of it; where it fails, all of them end."""
        if self.size == 1:
            return work()
        message: list[Any] = [None]
        if self.is_rank_zero:
            try:
                message = [("done", work())]
            except ElmoreError:
                dist.broadcast_object_list([("failed", None)])
                raise
        dist.broadcast_object_list(message)
        outcome, result = message[0]
        if outcome == "failed":
            # Without a word: rank 0 has it.
            raise SystemExit(1)
        found: T = result
        return found

    def broadcast_tensors(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The tensors of rank 0, which lie in ordinary memory; the others need bring none."""
        if self.size == 1:
            return tensors
        shapes = self.on_rank_zero(lambda: {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()})
        received = {}
        for name, (shape, dtype) in shapes.items():
            received[name] = tensors[name].contiguous() if self.is_rank_zero else torch.empty(shape, dtype=dtype)
            dist.broadcast(received[name], src=0)
        return received


def world_from_environment() -> World:
    """What torchrun says of this process, before it has met the others."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    return World(int(os.environ.get("RANK", "0")), size) if size > 1 else World()


@contextmanager
def joined_process_group(device: torch.device) -> Iterator[World]:
    """Meet the other processes that torchrun started, if it did."""
    world = world_from_environment()
    if world.size == 1:
        yield world
        return
    try:
        _join_process_group(device)
        yield world
        # Nobody leaves before rank 0, which still writes when the others have nothing left to do.
        world.on_rank_zero(lambda: None)
    except BaseException as error:
        # It holds on to all that the functions it passed through had, and so to the group.
        traceback.clear_frames(error.__traceback__)
        # With NCCL, to take leave of those who have gone would wait for them; the end of the process does not.
        if device.type != "cuda":
            _leave_process_group()
        if _is_loss_of_process(error):
            reason = str(error).splitlines()[0]
            raise LostProcess(
                f"process {world.rank} ends, because another one of this training has ended ({reason})"
            ) from error
        raise
    _leave_process_group()


def _join_process_group(device: torch.device) -> None:
    """Join the process group, under a name of its own for each try.

    Torchrun keeps one store for all its tries, so that after a restart a process may find the addresses of the dead.
    """
    # Before there is a group: what is a default argument in there is the group at the time of the import, which would
    # then be kept, and its threads with it, to the end of the process. What wraps a model imports it.
    import torch.distributed.nn.functional

    store, rank, size = next(iter(rendezvous("env://")))
    if rank == 0:
        store.set(GROUP_KEY, uuid4().hex)
    name = store.get(GROUP_KEY).decode()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=PrefixStore(name, store), rank=rank, world_size=size)
    # All are in, so the next try must not find it.
    dist.all_reduce(torch.zeros(1))
    if rank == 0:
        store.delete_key(GROUP_KEY)


def _leave_process_group() -> None:
    # What wraps a model for many processes refers to itself, and would keep the group's threads alive until the very
    # end, where one that still holds a tensor aborts the process.
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()


def _is_loss_of_process(error: BaseException) -> bool:
    # Gloo has no exception of its own; it names itself in the message.
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error).lower())


def process_device(asked: str | torch.device | None) -> torch.device:
    """The device that this process trains on, made the current one."""
    device = choose_device(asked)
    if device.type == "cuda":
        # Streams, events and kernels of our own go to the current one.
        torch.cuda.set_device(device)
    return device


def started_again() -> bool:
    """Whether torchrun or Slurm has started this very command before, and it was cut short."""
    return any(int(os.environ.get(name, "0")) > 0 for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"))
