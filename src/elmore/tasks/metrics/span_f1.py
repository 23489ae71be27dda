"""F1 of spans, as conlleval counts: a span is right when its label and both of its ends are.

Malformed tags count by conlleval's rules (`lenient_spans`), for predictions as for the gold tags.
"""

from collections import Counter
from collections.abc import Sequence

from elmore.errors import InputError
from elmore.tasks.metrics.score import Counts, Score, percentage
from elmore.tasks.readers.tag_schemes import lenient_spans

_UNLABELED = "_"  # as seqeval calls the spans of tags that are B and I alone


def span_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Score:
    """The F1 of the spans that tags mean, sentence by sentence; the two may be of different schemes.

    Parts: precision, recall, f1, gold, found and correct of all spans and, as LABEL.precision and so on, of each
    label; accuracy, the share of tokens whose tags are equal; tokens. The table is the text that conlleval prints.

    >>> score = span_scores([["B-PER", "I-PER", "O"]], [["B-PER", "I-PER", "B-LOC"]])
    >>> round(score.value, 2), score.parts["PER.recall"], score.parts["LOC.found"]
    (66.67, 100.0, 1.0)
    """
    if len(gold) != len(predicted):
        raise InputError(f"there are {len(gold)} sentences with gold tags, and {len(predicted)} predicted ones")
    counts: dict[str, Counter[str]] = {"gold": Counter(), "found": Counter(), "correct": Counter()}
    tokens = equal = 0
    for number, (gold_tags, tags) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(gold_tags) != len(tags):
            raise InputError(f"sentence {number} has {len(gold_tags)} gold tags, and {len(tags)} predicted ones")
        tokens += len(tags)
        equal += sum(one == other for one, other in zip(gold_tags, tags, strict=True))
        gold_spans, spans = set(lenient_spans(gold_tags)), set(lenient_spans(tags))
        for name, found in (("gold", gold_spans), ("found", spans), ("correct", gold_spans & spans)):
            counts[name].update(span.label or _UNLABELED for span in found)
    labels = sorted(counts["gold"] | counts["found"])
    classes = {label: Counts(*(counts[name][label] for name in Counts._fields)) for label in labels}
    total = Counts(*(counts[name].total() for name in Counts._fields))
    accuracy = percentage(equal, tokens)
    parts = total.named() | {"accuracy": accuracy, "tokens": float(tokens)}
    for label, one in classes.items():
        parts |= one.named(label)
    return Score("F1", total.f1, parts, _conlleval_table(total, classes, tokens, accuracy))


def _conlleval_table(total: Counts, classes: dict[str, Counts], tokens: int, accuracy: float) -> str:
    def shares(one: Counts) -> str:
        return f"precision: {one.precision:6.2f}%; recall: {one.recall:6.2f}%; FB1: {one.f1:6.2f}"

    return "\n".join(
        [
            f"processed {tokens} tokens with {total.gold} phrases; found: {total.found} phrases; "
            f"correct: {total.correct}.",
            f"accuracy: {accuracy:6.2f}%; {shares(total)}",
            *(f"{label:>17}: {shares(one)}  {one.found}" for label, one in classes.items()),
        ]
    )
