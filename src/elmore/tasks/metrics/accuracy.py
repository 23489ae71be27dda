"""Accuracy: the share of labels that are right."""

from collections import Counter
from collections.abc import Sequence

from elmore.errors import InputError
from elmore.tasks.metrics.score import Counts, Score, percentage


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> Score:
    """How many of the predicted labels are the gold ones, in per cent.

    Parts: gold (how many labels there are), correct, and of each class CLASS.precision, .recall, .f1, .gold, .found
    and .correct. The table has the same by class.

    >>> score = accuracy(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    >>> score.value, score.parts["a.recall"], score.parts["b.recall"]
    (75.0, 50.0, 100.0)
    """
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(gold)} gold labels, and {len(predicted)} predicted ones")
    pairs = list(zip(gold, predicted, strict=True))
    there, found = Counter(gold), Counter(predicted)
    correct = Counter(one for one, other in pairs if one == other)
    classes = {label: Counts(there[label], found[label], correct[label]) for label in sorted(there | found)}
    parts = {"gold": float(len(pairs)), "correct": float(correct.total())}
    for label, one in classes.items():
        parts |= one.named(label)
    value = percentage(correct.total(), len(pairs))
    return Score("accuracy", value, parts, _table(classes, value, len(pairs), correct.total()))


def _table(classes: dict[str, Counts], value: float, labels: int, correct: int) -> str:
    width = max(map(len, ["class", *classes]))
    lines = [f"accuracy: {value:.2f}%; {correct:,} of {labels:,} are right"]
    lines.append(f"{'class':<{width}}  precision   recall      F1     gold    found  correct")
    for label, one in classes.items():
        shares = f"{one.precision:8.2f}%  {one.recall:6.2f}%  {one.f1:6.2f}"
        lines.append(f"{label:<{width}}  {shares}  {one.gold:7,}  {one.found:7,}  {one.correct:7,}")
    return "\n".join(lines)
