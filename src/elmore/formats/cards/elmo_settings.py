"""How an `Elmo` was made, as the card of a saved one keeps it."""

from dataclasses import dataclass

from elmore.config import Normalization
from elmore.fields import check_fields, checked_field


@dataclass(frozen=True, kw_only=True)
class MixSettings:
    """One mix, but for the numbers it learns."""

    normalize: Normalization | None = None
    train_weights: bool = True
    train_gamma: bool = True

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class ElmoSettings:
    """All of an `Elmo` that is neither its biLM nor learnt."""

    dropout: float = checked_field(0.5, at_least=0, at_most=1)
    boundaries: bool = False
    projection: int | None = checked_field(None, at_least=1)
    mixes: tuple[MixSettings, ...] = (MixSettings(),)

    def __post_init__(self) -> None:
        check_fields(self)
