"""How far a run is, and what it has met on the way: what its checkpoints keep besides tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RunState:
    """The numbers of a run that change while it runs."""

    done: int = 0  # steps
    skipped: set[int] = field(default_factory=set)  # the numbers of steps that are left out
    rate_share: float = 1.0  # of the rate that the recipe asks for
    seconds: float = 0.0  # spent on steps

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps; the step it has from elsewhere."""
        return {"skipped_steps": sorted(self.skipped), "rate_share": self.rate_share, "seconds": self.seconds}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Go back to what a checkpoint kept, without forgetting which steps went wrong since, and how to avoid it."""
        self.done, self.seconds = values["step"], values["seconds"]
        self.skipped.update(values["skipped_steps"])
        self.rate_share = min(self.rate_share, values["rate_share"])
