"""Semantic roles: who did what to whom, for each predicate of a sentence.

The model of He et al., 2017, as in Peters et al., 2018, A.5: word vectors and an embedding that marks the predicate,
eight highway LSTMs in alternating directions, a softmax over BIO tags at each token, and Viterbi decoding over valid
tag sequences. One example is one predicate of one sentence. Scored as in srl-eval.pl, with gold predicates. In raw text
the model also predicts the predicates (`model`).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.display import pluralize
from elmore.errors import InputError, InputWarning
from elmore.fields import checked_field
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.labels import check_some_known, unseen_labels
from elmore.tasks.core.results import TokenizedText, token_fields
from elmore.tasks.core.task import Dataset, Labels, Task
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.metrics.metric import Counts, Rows
from elmore.tasks.readers.conll2012 import VERB, argument_cells, propositions, read_conll2012
from elmore.tasks.readers.tag_schemes import Span, lenient_spans, tags_of
from elmore.tasks.srl.metric import RoleF1
from elmore.tasks.srl.model import PredictedRoles, RoleExample, RoleLabeler, RoleLabelerOptions

# The time of a sentence grows with the square of its length, because the LSTM runs over the sentence once for each
# predicate. A longer sentence would take minutes on a CPU.
MAX_SENTENCE = 1000  # tokens of raw text; longer sentences are divided
DIVIDED_LENGTH = 250  # tokens of each part


@dataclass(frozen=True, kw_only=True)
class SrlOptions(RoleLabelerOptions):
    """[task] of semantic roles."""

    longest_sentence: int = checked_field(100, at_least=1)  # tokens; longer sentences are left out of training


@dataclass(frozen=True, kw_only=True)
class SrlRecipe(TaskRecipe):
    """Recipe of semantic roles."""

    task: SrlOptions = SrlOptions()


@dataclass(frozen=True)
class Argument:
    """The text that fills a role."""

    text: str
    label: str
    start: int  # characters of the whole text
    end: int


@dataclass(frozen=True)
class Predicate:
    """A predicate in a text, and its arguments."""

    text: str
    start: int
    end: int
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class RoleText(TokenizedText):
    """A text, its predicates and their arguments."""

    predicates: tuple[Predicate, ...]

    def __str__(self) -> str:
        """One token per line: the word, the word again if it is a predicate, and a column for each predicate."""
        lines = []
        for sentence in self.sentence_slices():
            offsets = self.offsets[sentence]
            columns = [[self.text[start:end] for start, end in offsets], ["-"] * len(offsets)]
            for predicate in self.predicates:
                if offsets and offsets[0][0] <= predicate.start < offsets[-1][1]:
                    verb = _token_span(predicate, offsets)
                    columns[1][verb.start] = predicate.text
                    spans = [_token_span(argument, offsets) for argument in predicate.arguments]
                    columns.append(_argument_column(spans, verb, len(offsets)))
            lines += _rows(columns)
        return "\n".join(lines)


def _token_span(located: Argument | Predicate, offsets: Sequence[tuple[int, int]]) -> Span:
    """The tokens of a sentence at these characters."""
    starts, ends = zip(*offsets, strict=True)
    label = located.label if isinstance(located, Argument) else VERB
    return Span(label, starts.index(located.start), len(ends) - ends[::-1].index(located.end))


def _argument_column(spans: Sequence[Span], verb: Span, length: int) -> list[str]:
    """The column of a predicate. V is left out if an argument contains it: the format cannot express both."""
    is_separate = all(span.end <= verb.start or verb.end <= span.start for span in spans)
    return argument_cells([*spans, verb] if is_separate else spans, length)


def _rows(columns: Sequence[Sequence[str]]) -> list[str]:
    """Columns as lines, followed by a blank line."""
    return ["\t".join(row) for row in zip(*columns, strict=True)] + [""] if columns else []


def read(paths: Sequence[str | Path], options: SrlOptions, *, to_train: bool) -> Dataset[RoleExample]:
    """The predicates of CoNLL-2012 files. A sentence without predicates is an example for the tagger of predicates."""
    examples: list[RoleExample] = []
    elsewhere = long = 0
    for sentence in (sentence for document in read_conll2012(paths) for sentence in document.sentences):
        if to_train and len(sentence.tokens) > options.longest_sentence:
            long += 1
            continue
        found = propositions(sentence)
        predicates = [proposition.predicate for proposition in found]
        for predicate, _, spans in found:
            location = sentence.location(predicate)
            if to_train and not spans:
                raise InputError(
                    f"{location}: {_unlabeled(sentence.tokens[predicate])} and cannot be used for training"
                )
            tags = tags_of(spans, len(sentence.tokens), "bio") if spans else []
            elsewhere += bool(tags) and not tags[predicate].endswith(f"-{VERB}")
            examples.append(RoleExample(sentence.tokens, predicate, predicates, tags, location=location))
        if not found:
            examples.append(RoleExample(sentence.tokens, None, [], location=sentence.location()))
    notices = []
    if long:
        notices.append(
            f"left out {pluralize(long, 'sentence')} of more than {options.longest_sentence} tokens "
            "(task.longest_sentence)"
        )
    if elsewhere:
        notices.append(
            f"{pluralize(elsewhere, 'predicate')} with {VERB} at another token; the token with the lemma is used"
        )
    return Dataset(examples, tuple(notices))


def _unlabeled(predicate: str) -> str:
    return f"the predicate {predicate!r} has no column of arguments"


def _roles(examples: Sequence[RoleExample]) -> list[str]:
    """The role of every argument, including V."""
    return [span.label for example in examples for span in lenient_spans(example.tags)]


def labels(examples: Sequence[RoleExample], options: SrlOptions) -> Labels:  # noqa: ARG001
    """The roles, including V."""
    roles = sorted(set(_roles(examples)))
    if not roles:
        raise InputError("the training data has no predicates; expected columns of arguments, as in CoNLL-2012")
    return {"roles": roles}


def check(examples: Sequence[RoleExample], known: Labels) -> None:
    """Reject data that cannot be scored: no predicates, unlabeled predicates, or unknown roles only."""
    if all(example.predicate is None for example in examples):
        raise InputError(
            f"{examples[0].location}: the data has no predicates; expected columns of arguments, as in CoNLL-2012"
        )
    for example in examples:
        if example.predicate is not None and not example.tags:
            raise InputError(
                f"{example.location}: {_unlabeled(example.tokens[example.predicate])} and cannot be scored; for "
                "predictions only, run elmore predict --official"
            )
    check_some_known(sorted(set(_roles(examples)) - {VERB}), known["roles"], examples[0].location)


def build(options: SrlOptions, known: Labels, embedder: TokenEmbedder) -> RoleLabeler:
    return RoleLabeler(options, ["O", *(f"{prefix}-{role}" for role in known["roles"] for prefix in "BI")], embedder)


class PropositionF1(RoleF1[RoleExample, PredictedRoles]):
    """The official score of roles with gold predicates, and the score of the tagger of predicates."""

    def tags(self, example: RoleExample, prediction: PredictedRoles) -> tuple[Sequence[str], Sequence[str]] | None:
        return None if example.predicate is None else (example.tags, prediction.frames[0].tags)

    def facts(self, examples: Sequence[RoleExample], predictions: Sequence[PredictedRoles]) -> dict[str, float]:
        predicates = Counts(0, 0, 0)
        sentences = 0
        for example, prediction in zip(examples, predictions, strict=True):
            if example.is_first_of_sentence:
                sentences += 1
                expected, found = set(example.predicates or ()), set(prediction.predicates)
                predicates += Counts(len(expected), len(found), len(expected & found))
        return {"sentences": float(sentences), **predicates.named("predicate_tagger")}

    def table(self, rows: Rows) -> str:
        tagger = {name: rows.facts[f"predicate_tagger.{name}"] for name in ("precision", "recall", "f1")}
        return (
            f"{super().table(rows)}\nthe model's tagger of predicates (the roles above are of gold predicates): "
            f"precision {tagger['precision']:.2f}; recall {tagger['recall']:.2f}; F1 {tagger['f1']:.2f}"
        )


def official(examples: Sequence[RoleExample], predictions: Sequence[PredictedRoles]) -> str:
    """The predictions in the format of srl-eval.pl: the gold predicates, and a column of arguments for each."""
    lines: list[str] = []
    columns: list[list[str]] = []
    for example, prediction in zip(examples, predictions, strict=True):
        length = len(example.tokens)
        if example.is_first_of_sentence:
            lines += _rows(columns)
            columns = [["-"] * length]
        for frame in prediction.frames:
            columns[0][frame.predicate] = example.tokens[frame.predicate]
            spans = [span for span in lenient_spans(frame.tags) if span.label != VERB]
            columns.append(_argument_column(spans, Span(VERB, frame.predicate, frame.predicate + 1), length))
    return "\n".join([*lines, *_rows(columns)])


def from_text(text: str, tokenizer: StyledTokenizer) -> list[RoleExample]:
    """The sentences of a text; very long sentences are divided into parts."""
    examples = []
    longest = 0
    for tokens, offsets in tokenizer.sentences(text):
        longest = max(longest, len(tokens))
        size = len(tokens) if len(tokens) <= MAX_SENTENCE else DIVIDED_LENGTH
        for start in range(0, len(tokens), max(size, 1)):
            part = slice(start, start + size)
            examples.append(RoleExample(tokens[part], offsets=offsets[part]))
    if longest > MAX_SENTENCE:
        warnings.warn(
            f"{tokenizer.name}: a sentence has {longest:,} tokens. Sentences of more than {MAX_SENTENCE:,} tokens are "
            f"divided into parts of {DIVIDED_LENGTH}; no argument is found across parts. If the text has several "
            "sentences, write each on a separate line",
            InputWarning,
            stacklevel=2,
        )
    return examples


def result(
    text: str,
    examples: Sequence[RoleExample],
    predictions: Sequence[PredictedRoles],
    labels: Labels,  # noqa: ARG001
) -> RoleText:
    """The predicates of one text and their arguments."""
    predicates = []
    for example, prediction in zip(examples, predictions, strict=True):
        for frame in prediction.frames:
            found = []
            for label, first, stop in lenient_spans(frame.tags):
                start, end = example.offsets[first][0], example.offsets[stop - 1][1]
                if label != VERB:
                    found.append(Argument(text[start:end], label, start, end))
            start, end = example.offsets[frame.predicate]
            predicates.append(Predicate(text[start:end], start, end, tuple(found)))
    return RoleText(text, **token_fields(examples), predicates=tuple(predicates))


SRL: Task[RoleExample, PredictedRoles] = Task(
    name="srl",
    summary="semantic roles: who did what to whom",
    recipe=SrlRecipe,
    read=read,
    sentences=lambda example: (example.tokens,),
    labels=labels,
    label_types={"roles": tuple[str, ...]},
    check=check,
    unseen=lambda examples, known: unseen_labels(_roles(examples), known["roles"], "argument"),
    build=build,
    metric=PropositionF1(),
    official=official,
    parse=from_text,
    result=result,
)
