"""The card of a model."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from elmore.formats.cards.elmo_settings import ElmoSettings
from elmore.text.style import TextStyle


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is known of a model beside its numbers."""

    name: str = ""
    description: str = ""
    licence: str = ""
    source: str = ""  # where it came from: the path or address it was first read from
    format: str = ""  # the format it had there
    text: TextStyle = TextStyle()
    start_state: Literal["zeros", "warm"] = "zeros"  # warm: the stored state; start_state_from says how it was made
    start_state_from: str = ""
    elmo: ElmoSettings | None = None  # of a saved `Elmo`: how it was made
    extra: Mapping[str, Any] = field(default_factory=dict)  # what a source says of itself, kept as it is

    def to_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        return {name: value for name, value in asdict(self).items() if value is not None}
