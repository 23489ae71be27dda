"""F1 of semantic roles, as in srl-eval.pl, the official script of CoNLL-2005 (Carreras and Màrquez).

An argument is correct if its label and all of its spans are. The predicate (V) does not count. A span with the label
C-X continues the last argument X before it: both are one argument of two spans. Without an X before it, it is an X.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from elmore.errors import InputError
from elmore.tasks.metrics.score import Counts, Score, percentage
from elmore.tasks.readers.tag_schemes import Span, lenient_spans

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


def srl_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, sentences: int | None = None
) -> Score:
    """The F1 of the roles of tags, with one sequence of tags for each predicate.

    Parts: precision, recall, f1, gold, found and correct of all arguments and, as LABEL.precision and so on, of each
    label, including V; perfect, the share of predicates whose arguments are all correct; predicates. The table is the
    output of srl-eval.pl; `sentences` is a number in it.

    >>> score = srl_scores([["B-ARG0", "B-V", "B-ARG1"]], [["B-ARG0", "B-V", "O"]])
    >>> round(score.value, 2), score.parts["recall"], score.parts["V.correct"]
    (66.67, 50.0, 1.0)
    """
    if len(gold) != len(predicted):
        raise InputError(f"there are gold tags of {len(gold)} predicates, and predicted tags of {len(predicted)}")
    counts: dict[str, Counter[str]] = {"gold": Counter(), "found": Counter(), "correct": Counter()}
    perfect = 0
    for number, (gold_tags, tags) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(gold_tags) != len(tags):
            raise InputError(f"predicate {number} has {len(gold_tags)} gold tags, and {len(tags)} predicted ones")
        expected, found = arguments(lenient_spans(gold_tags)), arguments(lenient_spans(tags))
        for name, group in (("gold", expected), ("found", found), ("correct", expected & found)):
            counts[name].update(argument.label for argument in group)
        perfect += all(argument.label == EXCLUDED for argument in expected ^ found)
    labels = sorted(counts["gold"] | counts["found"])
    classes = {label: Counts(*(counts[name][label] for name in Counts._fields)) for label in labels}
    roles = [row for label, row in classes.items() if label != EXCLUDED]
    total = Counts(*map(sum, zip(*roles, strict=True))) if roles else Counts(0, 0, 0)
    parts = total.named() | {"perfect": percentage(perfect, len(gold)), "predicates": float(len(gold))}
    for label, row in classes.items():
        parts |= row.named(label)
    table = _script_table(total, classes, perfect=perfect, predicates=len(gold), sentences=sentences)
    return Score("F1", total.f1, parts, table)


def _script_table(
    total: Counts, classes: dict[str, Counts], *, perfect: int, predicates: int, sentences: int | None
) -> str:
    def row(label: str, counts: Counts) -> str:
        # The script's formula of F1, whose last bit may differ from `Counts.f1`.
        p, r = counts.precision, counts.recall
        f1 = 2 * p * r / (p + r) if p + r else 0.0
        numbers = f"{counts.correct:6d}  {counts.found - counts.correct:6d}  {counts.gold - counts.correct:6d}"
        return f"{label:>10}   {numbers}   {p:6.2f}  {r:6.2f}  {f1:6.2f}"

    line = "-" * 60
    return "\n".join(
        [
            *([] if sentences is None else [f"Number of Sentences    :      {sentences:6d}"]),
            f"Number of Propositions :      {predicates:6d}",
            f"Percentage of perfect props : {percentage(perfect, predicates):6.2f}",
            "",
            f"{'':10}   {'corr.':>6}  {'excess':>6}  {'missed':>6}   {'prec.':>6}  {'rec.':>6}  {'F1':>6}",
            line,
            row("Overall", total),
            "-" * 10,
            *(row(label, counts) for label, counts in classes.items() if label != EXCLUDED),
            line,
            *(row(label, counts) for label, counts in classes.items() if label == EXCLUDED),
            line,
        ]
    )
