"""F1 of semantic roles, as srl-eval.pl counts, the official script of CoNLL-2005 (Carreras and Màrquez).

An argument is right when its label and all of its spans are. The predicate itself, V, does not count. A span labelled
C-X goes on with the last argument X before it, so that both are one argument of two spans; where there is none, it is
an X itself.
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
    """The arguments that spans make, C- joined to what they go on with; V among them.

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
    return {Argument(label, tuple(places)) for label, places in found}


def srl_scores(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, sentences: int | None = None
) -> Score:
    """The F1 of the roles that tags mean, predicate by predicate.

    Parts: precision, recall, f1, gold, found and correct of all arguments and, as LABEL.precision and so on, of each
    label, V too; perfect, the share of predicates whose arguments are all right; predicates. The table is the text
    that srl-eval.pl prints; `sentences` is a number in it.

    >>> score = srl_scores([["B-ARG0", "B-V", "B-ARG1"]], [["B-ARG0", "B-V", "O"]])
    >>> round(score.value, 2), score.parts["recall"], score.parts["V.correct"]
    (66.67, 50.0, 1.0)
    """
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(gold)} predicates with gold tags, and {len(predicted)} predicted ones")
    counts: dict[str, Counter[str]] = {"gold": Counter(), "found": Counter(), "correct": Counter()}
    perfect = 0
    for number, (gold_tags, tags) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(gold_tags) != len(tags):
            raise InputError(f"predicate {number} has {len(gold_tags)} gold tags, and {len(tags)} predicted ones")
        there, found = arguments(lenient_spans(gold_tags)), arguments(lenient_spans(tags))
        for name, own in (("gold", there), ("found", found), ("correct", there & found)):
            counts[name].update(argument.label for argument in own)
        perfect += all(argument.label == EXCLUDED for argument in there ^ found)
    labels = sorted(counts["gold"] | counts["found"])
    classes = {label: Counts(*(counts[name][label] for name in Counts._fields)) for label in labels}
    others = [one for label, one in classes.items() if label != EXCLUDED]
    total = Counts(*map(sum, zip(*others, strict=True))) if others else Counts(0, 0, 0)
    parts = total.named() | {"perfect": percentage(perfect, len(gold)), "predicates": float(len(gold))}
    for label, one in classes.items():
        parts |= one.named(label)
    table = _script_table(total, classes, perfect=perfect, predicates=len(gold), sentences=sentences)
    return Score("F1", total.f1, parts, table)


def _script_table(
    total: Counts, classes: dict[str, Counts], *, perfect: int, predicates: int, sentences: int | None
) -> str:
    def row(label: str, one: Counts) -> str:
        # F1 by the script's own way, which may round its last bit otherwise.
        p, r = one.precision, one.recall
        f1 = 2 * p * r / (p + r) if p + r else 0.0
        numbers = f"{one.correct:6d}  {one.found - one.correct:6d}  {one.gold - one.correct:6d}"
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
            *(row(label, one) for label, one in classes.items() if label != EXCLUDED),
            line,
            *(row(label, one) for label, one in classes.items() if label == EXCLUDED),
            line,
        ]
    )
