"""Several processes that train one model, started by torchrun.

Rank 0 reads and writes the run folder, prints messages, and broadcasts the results of that work. An error in rank 0
ends all processes. If a process dies, the others end too, so that torchrun can restart all of them.
"""

import gc
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from elmore.errors import ElmoreError
from elmore.training.trainable import Snapshot, World

T = TypeVar("T")
GROUP_KEY = "elmore/group"  # in torchrun's store: the name of the process group of this try


class LostProcess(ElmoreError):
    """Another process of the same training run has ended."""


class ProcessGroup(World):
    """One of several processes in torch's default process group."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    def any(self, flag: bool) -> bool:
        return bool(self.all_reduce_mean(torch.tensor([float(flag)])).item())

    def all_reduce_mean(self, values: Tensor) -> Tensor:
        values = values.clone()
        dist.all_reduce(values)
        return values / self.size

    def all_gather(self, tensor: Tensor, *, dim: int) -> Tensor:
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts, dim=dim)

    def on_rank_zero(self, work: Callable[[], T]) -> T:
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
            # Without a message: rank 0 prints the error.
            raise SystemExit(1)
        received: T = result
        return received

    def load_snapshot(self, read: Callable[[], Snapshot]) -> Snapshot:
        snapshots: list[Snapshot] = []

        def read_progress() -> dict[str, Any]:
            snapshots.append(read())
            return dict(snapshots[0].progress)

        progress = self.on_rank_zero(read_progress)
        return Snapshot(self.broadcast_tensors(snapshots[0].tensors if snapshots else {}), progress)

    def broadcast_tensors(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The CPU tensors of rank 0, in every process; the argument of other ranks is not used."""
        shapes = self.on_rank_zero(lambda: {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()})
        received = {}
        for name, (shape, dtype) in shapes.items():
            received[name] = tensors[name].contiguous() if self.is_rank_zero else torch.empty(shape, dtype=dtype)
            dist.broadcast(received[name], src=0)
        return received


def world_from_environment() -> World:
    """The rank and number of processes that torchrun set, before the processes have connected."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    return ProcessGroup(int(os.environ.get("RANK", "0")), size) if size > 1 else World()


@contextmanager
def joined_process_group(device: torch.device) -> Iterator[World]:
    """Connect to the other processes that torchrun started, if any."""
    world = world_from_environment()
    if world.size == 1:
        yield world
        return
    try:
        _join_process_group(device)
        yield world
        # No process leaves before rank 0, which may still write files.
        world.on_rank_zero(lambda: None)
    except BaseException as error:
        # The frames of the traceback refer to objects that refer to the process group.
        traceback.clear_frames(error.__traceback__)
        # NCCL would wait for processes that have ended; the end of this process does not.
        if device.type != "cuda":
            _leave_process_group()
        if _is_loss_of_process(error):
            reason = str(error).splitlines()[0]
            raise LostProcess(f"process {world.rank} ends, because another process has ended ({reason})") from error
        raise
    _leave_process_group()


def _join_process_group(device: torch.device) -> None:
    """Join a process group that has a new name in each try.

    Torchrun uses one store for all tries. Under an old name a process could find the addresses of ended processes.
    """
    # Imported before the group exists: default arguments in this module are the group at the time of its import, which
    # would keep the group and its threads until the process ends. DistributedDataParallel imports it.
    import torch.distributed.nn.functional

    store, rank, size = next(iter(rendezvous("env://")))
    if rank == 0:
        store.set(GROUP_KEY, uuid4().hex)
    name = store.get(GROUP_KEY).decode()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=PrefixStore(name, store), rank=rank, world_size=size)
    # All processes have joined, so the next try must not find this name.
    dist.all_reduce(torch.zeros(1))
    if rank == 0:
        store.delete_key(GROUP_KEY)


def _leave_process_group() -> None:
    # DistributedDataParallel is part of a reference cycle. Uncollected, it would keep the group's threads alive until
    # Python ends, where a thread that still holds a tensor aborts the process.
    gc.collect()
    if dist.is_initialized():
        dist.destroy_process_group()


def _is_loss_of_process(error: BaseException) -> bool:
    # Gloo has no exception class; its messages contain its name.
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error).lower())


def is_restarted() -> bool:
    """Whether torchrun or Slurm has started this command before, without success."""
    return any(int(os.environ.get(name, "0")) > 0 for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"))
