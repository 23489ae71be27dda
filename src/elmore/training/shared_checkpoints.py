"""The checkpoints of a run of several processes: rank 0 reads and writes them, and all get what is in them."""

from typing import Any

from elmore.training.checkpoints import Snapshot, TrainingCheckpoints
from elmore.training.distributed import World


class SharedCheckpoints:
    """As `TrainingCheckpoints`, for several processes; each of them calls the same at the same time."""

    def __init__(self, checkpoints: TrainingCheckpoints, world: World) -> None:
        self._checkpoints, self._world = checkpoints, world

    def exist(self) -> bool:
        """Whether there is one to go on from."""
        return self._world.on_rank_zero(lambda: bool(self._checkpoints))

    def save(self, step: int, snapshot: Snapshot) -> None:
        """Write one; that of rank 0 is written."""
        self._world.on_rank_zero(lambda: self._checkpoints.save(step, snapshot))

    def newest(self) -> Snapshot:
        """The newest that can be read."""
        found: list[Snapshot] = []

        def read() -> dict[str, Any]:
            found.append(self._checkpoints.newest())
            return dict(found[0].progress)

        progress = self._world.on_rank_zero(read)
        return Snapshot(self._world.broadcast_tensors(found[0].tensors if found else {}), progress)
