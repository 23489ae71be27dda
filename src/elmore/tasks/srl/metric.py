"""F1 of semantic roles, as in srl-eval.pl, the official script of CoNLL-2005 (Carreras and Màrquez).

An argument is correct if its label and all of its spans are. The predicate (V) does not count. A span with the label
C-X continues the last argument X before it: both are one argument of two spans. Without an X before it, it is an X.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from elmore.errors import InputError
from elmore.tasks.metrics.metric import Counts, F1Metric, Rows, array_of, check_lengths, percentage
from elmore.tasks.metrics.scores import class_sums
from elmore.tasks.readers.tag_schemes import Span, lenient_spans

E = TypeVar("E")
P = TypeVar("P")

EXCLUDED = "V"
CONTINUED = "C-"


class Argument(NamedTuple):
    """A role, and the spans that fill it."""

    label: str
    spans: tuple[tuple[int, int], ...]


def arguments(spans: Iterable[Span]) -> set[Argument]:
    """The arguments of these spans, including V; C- spans are joined to the argument that they continue.

    >>> sorted(arguments([Span("ARG1", 0, 2), Span("V", 2, 3), Span("C-ARG1", 4, 6)]))
    [Argument(label='ARG1', spans=((0, 2), (4, 6))), Argument(label='V', spans=((2, 3),))]
    """
    found: list[tuple[str, list[tuple[int, int]]]] = []
    last: dict[str, list[tuple[int, int]]] = {}
    for label, start, end in sorted(spans, key=lambda span: (span.start, -span.end)):
        role = label.removeprefix(CONTINUED)
        if role != label and role in last:
            last[role].append((start, end))
        else:
            last[role] = [(start, end)]
            found.append((role, last[role]))
    return {Argument(label, tuple(parts)) for label, parts in found}


class RoleF1(F1Metric[E, P]):
    """The F1 of the roles of tags, with one row for each example: a predicate, or a sentence without predicates.

    `gold` and `predicted` return the tags of a predicate; None for a sentence without predicates. Parts: precision,
    recall, f1, gold, found and correct of all arguments and, as LABEL.precision and so on, of each label, including V;
    perfect, the percentage of predicates whose arguments are all correct; predicates. The table is the output of
    srl-eval.pl.

    >>> score = RoleF1().score([["B-ARG0", "B-V", "B-ARG1"]], [["B-ARG0", "B-V", "O"]])
    >>> round(score.value, 2), score.parts["recall"], score.parts["V.correct"]
    (66.67, 50.0, 1.0)
    """

    def tags(self, example: E, prediction: P) -> tuple[Sequence[str], Sequence[str]] | None:
        """The gold and the predicted tags of a predicate; None of a sentence without predicates."""
        return example, prediction  # type: ignore[return-value]

    def facts(self, examples: Sequence[E], predictions: Sequence[P]) -> dict[str, float]:  # noqa: ARG002
        """More parts of the score."""
        return {}

    def rows(self, examples: Sequence[E], predictions: Sequence[P]) -> Rows:
        check_lengths(examples, predictions, "predicates")
        values = []
        labels: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())  # gold, found, correct
        perfect = predicates = 0
        for example, prediction in zip(examples, predictions, strict=True):
            gold: set[Argument] = set()
            found: set[Argument] = set()
            if (tags := self.tags(example, prediction)) is not None:
                predicates += 1
                if len(tags[0]) != len(tags[1]):
                    raise InputError(
                        f"predicate {predicates} has {len(tags[0])} gold tags and {len(tags[1])} predicted"
                    )
                gold, found = (arguments(lenient_spans(side)) for side in tags)
                perfect += all(argument.label == EXCLUDED for argument in gold ^ found)
            kinds = (gold, found, gold & found)
            values.append([sum(argument.label != EXCLUDED for argument in kind) for kind in kinds])
            for counter, kind in zip(labels, kinds, strict=True):
                counter.update(argument.label for argument in kind)
        facts = {"perfect": percentage(perfect, predicates), "predicates": float(predicates)}
        return Rows(array_of(values, 3), class_sums(*labels), facts | self.facts(examples, predictions))

    def table(self, rows: Rows) -> str:
        classes, line = self.classes(rows), "-" * 60
        sentences = rows.facts.get("sentences")
        return "\n".join(
            [
                *([] if sentences is None else [f"Number of Sentences    :      {sentences:6.0f}"]),
                f"Number of Propositions :      {rows.facts['predicates']:6.0f}",
                f"Percentage of perfect props : {rows.facts['perfect']:6.2f}",
                "",
                f"{'':10}   {'corr.':>6}  {'excess':>6}  {'missed':>6}   {'prec.':>6}  {'rec.':>6}  {'F1':>6}",
                line,
                _table_row("Overall", self.total(rows)),
                "-" * 10,
                *(_table_row(label, counts) for label, counts in classes.items() if label != EXCLUDED),
                line,
                *(_table_row(label, counts) for label, counts in classes.items() if label == EXCLUDED),
                line,
            ]
        )


def _table_row(label: str, counts: Counts) -> str:
    # F1 as computed by the script, which may round the last bit differently.
    p, r = counts.precision, counts.recall
    f1 = 2 * p * r / (p + r) if p + r else 0.0
    numbers = (counts.correct, counts.found - counts.correct, counts.gold - counts.correct)
    return f"{label:>10}   {'  '.join(f'{number:6.0f}' for number in numbers)}   {p:6.2f}  {r:6.2f}  {f1:6.2f}"
