"""Metrics: the score of predictions, and from the same rows its interval and the test of a difference.

A metric turns examples and predictions into rows, one for each scored unit: a sentence, a question, a document. All
results follow from the rows:

    score                the value of all rows
    bootstrap_interval   values of test sets that are drawn from the rows, with repetition (Efron, 1979)
    randomization_test   values after exchanging rows of two models at random (Noreen, 1989)

N rows, C columns, R shuffles or draws.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError

E = TypeVar("E")
P = TypeVar("P")

SHUFFLES = 10_000
DRAWS = 1_000
CHUNK = 500  # shuffles or draws computed at a time; bounds the memory
PERCENTILES = (2.5, 97.5)  # of the draws: the ends of an interval
_ROUNDING = 1e-9  # equal scores, from 0 to 100, may differ by this much

Array = NDArray[np.float64]


class Score(NamedTuple):
    """A result, from 0 to 100, as computed by the task's official scorer."""

    metric: str  # the name of the value: "F1", "accuracy"
    value: float
    # Components and scores of single classes, by name; percentages from 0 to 100, counts unchanged.
    parts: Mapping[str, float]
    table: str  # the score as text
    notices: tuple[str, ...] = ()  # on the data: numbers and reasons of skipped data


class Rows(NamedTuple):
    """The scored units of some predictions."""

    values: Array  # (N, C)
    by_class: Mapping[str, Array] = {}  # (C,) the sums of each class
    facts: Mapping[str, float] = {}  # other numbers for `parts` and `table`


class Metric(ABC, Generic[E, P]):
    """Computes a score from examples and predictions."""

    name: ClassVar[str]
    # Metrics of other kinds of data, such as ratings instead of labels; `of` chooses by the examples.
    alternatives: ClassVar[tuple["Metric[Any, Any]", ...]] = ()

    @abstractmethod
    def rows(self, examples: Sequence[E], predictions: Sequence[P]) -> Rows:
        """One row for each scored unit. Windows and parts of a unit are joined."""

    @abstractmethod
    def value(self, values: Array) -> Array:  # (..., N, C) -> (...)
        """The score of rows."""

    @abstractmethod
    def parts(self, rows: Rows) -> dict[str, float]:
        """Components of the score, by name."""

    @abstractmethod
    def table(self, rows: Rows) -> str:
        """The score as text, in the layout of the official scorer if there is one."""

    def of(self, examples: Sequence[E]) -> "Metric[E, P]":  # noqa: ARG002
        """The metric of these examples: this one, or one of `alternatives`."""
        return self

    def named(self, name: str) -> "Metric[E, P]":
        """The metric of a stored score; "" is this one."""
        return next((other for other in self.alternatives if other.name == name), self)

    def score(self, examples: Sequence[E], predictions: Sequence[P]) -> Score:
        """The score of predictions."""
        metric = self.of(examples)
        rows = metric.rows(examples, predictions)
        return metric.score_of(rows)

    def score_of(self, rows: Rows) -> Score:
        return Score(self.name, float(self.value(rows.values)), self.parts(rows), self.table(rows))

    def pooled(self, models: Sequence[Array]) -> Array:
        """The rows of two or more models for the same examples, combined into one array."""
        return np.sum(models, axis=0)  # type: ignore[no-any-return]

    def drawn(self, values: Array, draws: NDArray[np.int64]) -> Array:  # (N, C), (R, N) -> (R,)
        """The values of draws of rows, given as row numbers."""
        return self.value(values[draws])

    def exchanged(self, first: Array, second: Array, masks: NDArray[np.bool_]) -> tuple[Array, Array]:  # (R, N)
        """The values of two models after exchanging the masked rows."""
        wide = masks[..., None]
        return self.value(np.where(wide, second, first)), self.value(np.where(wide, first, second))


class SumMetric(Metric[E, P]):
    """A metric of sums over rows."""

    @abstractmethod
    def of_sums(self, sums: Array) -> Array:  # (..., C) -> (...)
        """The score of sums."""

    def value(self, values: Array) -> Array:
        return self.of_sums(_summed(values))

    def sums(self, rows: Rows) -> Array:  # (C,)
        return _summed(rows.values)

    def drawn(self, values: Array, draws: NDArray[np.int64]) -> Array:
        rows, number = draws.shape
        flat = draws + number * np.arange(rows)[:, None]
        times = np.bincount(flat.ravel(), minlength=rows * number).reshape(rows, number).astype(np.float64)
        return self.of_sums(times @ values)

    def exchanged(self, first: Array, second: Array, masks: NDArray[np.bool_]) -> tuple[Array, Array]:
        moved = masks.astype(np.float64) @ (first - second)  # (R, C)
        return self.of_sums(_summed(first) - moved), self.of_sums(_summed(second) + moved)


class Counts(NamedTuple):
    """Gold, predicted and correct items."""

    gold: float
    found: float  # predicted
    correct: float

    @property
    def precision(self) -> float:
        return percentage(self.correct, self.found)

    @property
    def recall(self) -> float:
        return percentage(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return percentage(2 * self.correct, self.gold + self.found)

    def __add__(self, other: tuple[float, ...]) -> "Counts":  # type: ignore[override]
        return Counts(*(count + added for count, added in zip(self, other, strict=True)))

    def named(self, name: str = "") -> dict[str, float]:
        """The values as parts of a score. Names have the prefix `name`, the name of a class."""
        values = {field: float(getattr(self, field)) for field in ("precision", "recall", "f1", *self._fields)}
        return {f"{name}.{field}" if name else field: value for field, value in values.items()}


class F1Metric(SumMetric[E, P]):
    """F1, from the columns gold, found (predicted) and correct.

        F1 = 100 * 2 * correct / (gold + found)

    If each gold item has one prediction, such as the tag of a token, F1 is the accuracy.
    """

    name = "F1"

    def of_sums(self, sums: Array) -> Array:
        above, below = 200 * sums[..., 2], sums[..., 0] + sums[..., 1]
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

    def parts(self, rows: Rows) -> dict[str, float]:
        """Counts and percentages of all classes, the facts, and counts and percentages of each class."""
        parts = {**self.total(rows).named(), **rows.facts}
        for label, counts in self.classes(rows).items():
            parts |= counts.named(label)
        return parts

    def total(self, rows: Rows) -> Counts:
        return Counts(*self.sums(rows).tolist()[:3])

    def classes(self, rows: Rows) -> dict[str, Counts]:
        return {label: Counts(*sums.tolist()) for label, sums in rows.by_class.items()}


def percentage(part: float, whole: float) -> float:
    """100 * part / whole; 0 of 0, as in the official scorers."""
    return 100 * part / whole if whole else 0.0


def array_of(rows: Sequence[Sequence[float]], columns: int) -> Array:
    """Rows as an array, of shape (0, C) without rows."""
    return np.array(rows, np.float64).reshape(len(rows), columns)


def check_lengths(gold: Sequence[Any], predicted: Sequence[Any], what: str) -> None:
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(gold)} gold {what}, but {len(predicted)} predicted {what}")


def _summed(values: Array) -> Array:  # (..., N, C) -> (..., C)
    if not values.shape[-2]:
        return np.zeros((*values.shape[:-2], values.shape[-1]))
    # Sequential, as in the official scripts: np.sum may differ in the last digit.
    return values.cumsum(axis=-2)[..., -1, :]


def randomization_test(
    metric: Metric[Any, Any], first: NDArray[Any], second: NDArray[Any], *, shuffles: int = SHUFFLES, seed: int = 1
) -> float:
    """The two-sided p-value of the difference between two models' rows, (N, C) each, of the same examples.

    Under the null hypothesis predictions are exchangeable: each shuffle exchanges each row with probability 1/2. The
    rows of repeated training runs are pooled first, because their predictions for an example are not independent.
    The original order counts as one of the shuffles, so p is never 0.

    >>> from elmore.tasks.metrics.scores import SpanF1
    >>> good, bad = np.array([[1, 1, 1]] * 20), np.array([[1, 1, 1]] * 10 + [[1, 1, 0]] * 10)
    >>> randomization_test(SpanF1(), good, bad) < 0.01, randomization_test(SpanF1(), good, good)
    (True, 1.0)
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    difference = abs(metric.value(first) - metric.value(second))
    # Exchanging equal rows changes nothing.
    changed = np.flatnonzero((first != second).any(axis=1))
    generator = np.random.default_rng(seed)
    as_large = 0
    for count in _chunks(shuffles):
        masks = np.zeros((count, len(first)), np.bool_)
        masks[:, changed] = generator.integers(0, 2, size=(count, len(changed)), dtype=np.int8)
        first_values, second_values = metric.exchanged(first, second, masks)
        as_large += int((np.abs(first_values - second_values) >= difference - _ROUNDING).sum())
    return (as_large + 1) / (shuffles + 1)


def bootstrap_interval(
    metric: Metric[Any, Any],
    first: NDArray[Any],
    second: NDArray[Any] | None = None,
    *,
    draws: int = DRAWS,
    seed: int = 1,
) -> tuple[float, float]:
    """The interval that contains 95 % of the values of draws; with a second model, of the differences.

    >>> from elmore.tasks.metrics.scores import SpanF1
    >>> good = np.array([[1, 1, 1]] * 80 + [[1, 1, 0]] * 20)
    >>> bootstrap_interval(SpanF1(), good), bootstrap_interval(SpanF1(), good, good)
    ((71.0, 87.0), (0.0, 0.0))
    """
    first = first.astype(np.float64)
    generator = np.random.default_rng(seed)
    values = []
    for count in _chunks(draws):
        rows = generator.integers(0, len(first), size=(count, len(first)))
        drawn = metric.drawn(first, rows)
        values.append(drawn if second is None else drawn - metric.drawn(second.astype(np.float64), rows))
    low, high = np.percentile(np.concatenate(values), PERCENTILES).tolist()
    return low, high


def _chunks(number: int) -> Iterator[int]:
    for start in range(0, number, CHUNK):
        yield min(CHUNK, number - start)
