"""What every metric gives."""

from collections.abc import Mapping
from typing import NamedTuple


class Score(NamedTuple):
    """A result, from 0 to 100, as the task's official scorer counts it."""

    metric: str  # what the value is: "F1", "accuracy"
    value: float
    # What it is made of, and how single classes fare, by name; shares from 0 to 100, counts as they are.
    parts: Mapping[str, float]
    table: str  # the same to be printed
    notices: tuple[str, ...] = ()  # of the data: what was left out or is odd, how often, and why


def percentage(part: float, whole: float) -> float:
    """So many per cent; 0 of nothing, as the official scorers have it."""
    return 100 * part / whole if whole else 0.0


class Counts(NamedTuple):
    """Of a class: how many there are, how many were found, and how many of those are right."""

    gold: int
    found: int
    correct: int

    @property
    def precision(self) -> float:
        return percentage(self.correct, self.found)

    @property
    def recall(self) -> float:
        return percentage(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of both, which needs neither: twice what is right of all there are and all found."""
        return percentage(2 * self.correct, self.gold + self.found)

    def named(self, name: str = "") -> dict[str, float]:
        """As parts of a score, their names behind that of the class."""
        values = {field: float(getattr(self, field)) for field in ("precision", "recall", "f1", *self._fields)}
        return {f"{name}.{field}" if name else field: value for field, value in values.items()}
