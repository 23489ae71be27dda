"""How a run is run: how often it looks, speaks and saves. Nothing here changes the numbers."""

from dataclasses import dataclass

from elmore.fields import check_fields, checked_field


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Kept in the run's folder, so that a run that goes on keeps them; a training adds its own in a class below it."""

    log_every: int = checked_field(50, at_least=1)  # steps
    checkpoint_every: int = checked_field(1000, at_least=1)  # steps
    checkpoint_seconds: float = checked_field(0.0, at_least=0)  # that pass between two checkpoints, whatever is due
    evaluate_every: int = checked_field(0, at_least=0)  # steps; 0 means after each epoch
    keep: int = checked_field(2, at_least=1)  # checkpoints
    tensorboard: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
