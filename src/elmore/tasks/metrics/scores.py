"""Metrics that tasks share: accuracy of labels, F1 of spans, and rank correlation."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError
from elmore.tasks.metrics.metric import Array, Counts, F1Metric, Metric, Rows, array_of, check_lengths, percentage
from elmore.tasks.readers.tag_schemes import lenient_spans

E = TypeVar("E")
P = TypeVar("P")
UNLABELED = "_"  # the label of spans whose tags are only B and I, as in seqeval


class Accuracy(F1Metric[E, P]):
    """The percentage of correct labels. `gold` and `predicted` return the labels of an example, such as its tags.

    Parts: gold (the number of labels), correct, and for each class CLASS.precision, .recall, .f1, .gold, .found and
    .correct. The table has the same values by class.

    >>> score = Accuracy(gold=list, predicted=list).score(["a", "a", "b", "b"], ["a", "b", "b", "b"])
    >>> score.value, score.parts["a.recall"], score.parts["b.recall"]
    (75.0, 50.0, 100.0)
    """

    name = "accuracy"

    def __init__(self, gold: Callable[[E], Sequence[str]], predicted: Callable[[P], Sequence[str]]) -> None:
        self._gold, self._predicted = gold, predicted

    def rows(self, examples: Sequence[E], predictions: Sequence[P]) -> Rows:
        check_lengths(examples, predictions, "labels")
        values = []
        gold_labels: Counter[str] = Counter()
        found_labels: Counter[str] = Counter()
        correct_labels: Counter[str] = Counter()
        for example, prediction in zip(examples, predictions, strict=True):
            gold, found = self._gold(example), self._predicted(prediction)
            correct = [label for label, other in zip(gold, found, strict=True) if label == other]
            values.append((len(gold), len(found), len(correct)))
            gold_labels.update(gold)
            found_labels.update(found)
            correct_labels.update(correct)
        return Rows(array_of(values, 3), class_sums(gold_labels, found_labels, correct_labels))

    def parts(self, rows: Rows) -> dict[str, float]:
        total = self.total(rows)
        parts = {"gold": total.gold, "correct": total.correct}
        for label, counts in self.classes(rows).items():
            parts |= counts.named(label)
        return parts

    def table(self, rows: Rows) -> str:
        total, classes = self.total(rows), self.classes(rows)
        width = max(map(len, ["class", *classes]))
        value = float(self.value(rows.values))
        lines = [f"accuracy: {value:.2f}%; {total.correct:,.0f} of {total.gold:,.0f} are correct"]
        lines.append(f"{'class':<{width}}  precision   recall      F1     gold    found  correct")
        for label, counts in classes.items():
            shares = f"{counts.precision:8.2f}%  {counts.recall:6.2f}%  {counts.f1:6.2f}"
            numbers = "  ".join(f"{number:7,.0f}" for number in counts)
            lines.append(f"{label:<{width}}  {shares}  {numbers}")
        return "\n".join(lines)


class SpanF1(F1Metric[E, P]):
    """F1 of the spans of tags, as in conlleval: a span is correct if its label and both of its ends are.

    `gold` and `predicted` return the tags of a sentence; the two may have different schemes. Malformed tags count by
    the rules of conlleval (`lenient_spans`). Parts: precision, recall, f1, gold, found and correct of all spans and, as
    LABEL.precision and so on, of each label; accuracy, the percentage of equal tags; tokens. The table is the text
    that conlleval prints.

    >>> score = SpanF1().score([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]])
    >>> round(score.value, 2), score.parts["PER.recall"], score.parts["LOC.found"]
    (66.67, 100.0, 1.0)
    """

    def __init__(
        self,
        gold: Callable[[E], Sequence[str]] = lambda tags: tags,  # type: ignore[assignment,return-value]
        predicted: Callable[[P], Sequence[str]] = lambda tags: tags,  # type: ignore[assignment,return-value]
    ) -> None:
        self._gold, self._predicted = gold, predicted

    def rows(self, examples: Sequence[E], predictions: Sequence[P]) -> Rows:
        check_lengths(examples, predictions, "sentences")
        values = []
        labels: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())  # gold, found, correct
        tokens = equal = 0
        for number, (example, prediction) in enumerate(zip(examples, predictions, strict=True), start=1):
            gold_tags, tags = self._gold(example), self._predicted(prediction)
            if len(gold_tags) != len(tags):
                raise InputError(f"sentence {number} has {len(gold_tags)} gold tags, but {len(tags)} predicted tags")
            tokens += len(tags)
            equal += sum(tag == other for tag, other in zip(gold_tags, tags, strict=True))
            gold, found = set(lenient_spans(gold_tags)), set(lenient_spans(tags))
            kinds = (gold, found, gold & found)
            values.append(tuple(map(len, kinds)))
            for counter, spans in zip(labels, kinds, strict=True):
                counter.update(span.label or UNLABELED for span in spans)
        facts = {"accuracy": percentage(equal, tokens), "tokens": float(tokens)}
        return Rows(array_of(values, 3), class_sums(*labels), facts)

    def table(self, rows: Rows) -> str:
        def shares(counts: Counts) -> str:
            return f"precision: {counts.precision:6.2f}%; recall: {counts.recall:6.2f}%; FB1: {counts.f1:6.2f}"

        total = self.total(rows)
        phrases = f"{total.gold:.0f} phrases; found: {total.found:.0f} phrases; correct: {total.correct:.0f}."
        lines = [f"processed {rows.facts['tokens']:.0f} tokens with {phrases}"]
        lines.append(f"accuracy: {rows.facts['accuracy']:6.2f}%; {shares(total)}")
        for label, counts in self.classes(rows).items():
            lines.append(f"{label:>17}: {shares(counts)}  {counts.found:.0f}")
        return "\n".join(lines)


def class_sums(gold: Mapping[str, int], found: Mapping[str, int], correct: Mapping[str, int]) -> dict[str, Array]:
    """The counts of each class, in the order of their names."""
    labels = sorted({*gold, *found})
    return {
        label: np.array([gold.get(label, 0), found.get(label, 0), correct.get(label, 0)], float) for label in labels
    }


class Spearman(Metric[E, P]):
    """Spearman's rank correlation, in percent. Columns: the gold rating and the predicted value.

    >>> Spearman(gold=float, predicted=float).score([1, 2, 3, 4], [10, 20, 40, 30]).value
    80.0
    """

    name = "Spearman"

    def __init__(self, gold: Callable[[E], float], predicted: Callable[[P], float]) -> None:
        self._gold, self._predicted = gold, predicted

    def rows(self, examples: Sequence[E], predictions: Sequence[P]) -> Rows:
        check_lengths(examples, predictions, "values")
        pairs = zip(map(self._gold, examples), map(self._predicted, predictions), strict=True)
        return Rows(array_of(list(pairs), 2))

    def value(self, values: Array) -> Array:  # (..., N, 2 M) of M models, whose correlations are averaged
        correlations = [
            rank_correlation(values[..., 2 * model], values[..., 2 * model + 1])
            for model in range(values.shape[-1] // 2)
        ]
        return 100 * np.mean(correlations, axis=0)  # type: ignore[no-any-return]

    def pooled(self, models: Sequence[Array]) -> Array:
        return np.concatenate(models, axis=-1)

    def parts(self, rows: Rows) -> dict[str, float]:
        return {"gold": float(len(rows.values))}

    def table(self, rows: Rows) -> str:
        return f"Spearman: {float(self.value(rows.values)):.2f} over {len(rows.values):,} pairs"


def rank_correlation(first: NDArray[Any], second: NDArray[Any]) -> Array:  # (..., N), (..., N) -> (...)
    """Pearson's correlation of the ranks, from -1 to 1. Equal values share the mean of their ranks.

    0 if all values of one side are equal.

    >>> float(rank_correlation(np.array([1, 2, 3, 4]), np.array([10, 20, 40, 30])))
    0.8
    """
    mean = (first.shape[-1] + 1) / 2
    one, other = ranks(first) - mean, ranks(second) - mean
    spread = np.sqrt((one * one).sum(axis=-1) * (other * other).sum(axis=-1))
    products = (one * other).sum(axis=-1)
    correlation: Array = np.divide(products, spread, out=np.zeros_like(products), where=spread > 0)
    return correlation


def ranks(values: NDArray[Any]) -> Array:  # (..., N)
    """The rank of each value, from 1 for the smallest; equal values share the mean of their ranks.

    >>> ranks(np.array([0.5, 2.0, 0.5, -1.0])).tolist()
    [2.5, 4.0, 2.5, 1.0]
    """
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    number = values.shape[-1]
    positions = np.arange(number)
    is_new = np.ones(values.shape, np.bool_)
    is_new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    is_last = np.ones(values.shape, np.bool_)
    is_last[..., :-1] = is_new[..., 1:]
    first = np.maximum.accumulate(np.where(is_new, positions, 0), axis=-1)
    last = np.minimum.accumulate(np.where(is_last, positions, number)[..., ::-1], axis=-1)[..., ::-1]
    result = np.empty(values.shape)
    np.put_along_axis(result, order, (first + last) / 2 + 1, axis=-1)
    return result
