"""Semantic roles: who did what to whom, for each predicate of a sentence.

The model of He et al., 2017, as Peters et al., 2018, A.5, have it: word vectors beside an embedding of whether the
token is the predicate, eight highway LSTMs in alternating directions, a softmax over BIO tags at each token, and
Viterbi over the tag sequences that are possible. One example is one predicate of one sentence. Scored as srl-eval.pl
does, with the predicates given.

On raw text the model finds the predicates itself (`role_labeling`).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.display import join_names, pluralize
from elmore.errors import InputError, InputWarning
from elmore.fields import checked_field
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.task import Dataset, Labels, Task
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.metrics.score import Counts, Score
from elmore.tasks.readers.conll2012 import VERB, argument_cells, propositions, read_conll2012
from elmore.tasks.readers.tag_schemes import Span, lenient_spans, tags_of
from elmore.tasks.srl.metric import arguments, srl_scores
from elmore.tasks.srl.model import PredictedRoles, RoleExample, RoleLabeler, RoleLabelerOptions

# Tokens of raw text. Of so many some 150 are predicates, and for each of those all are read: a minute on a CPU.
LONG_SENTENCE = 1000


@dataclass(frozen=True, kw_only=True)
class SrlOptions(RoleLabelerOptions):
    """[task] of semantic roles."""

    longest_sentence: int = checked_field(100, at_least=1)  # tokens; longer ones are not trained on


@dataclass(frozen=True, kw_only=True)
class SrlRecipe(TaskRecipe):
    """How roles are learnt."""

    task: SrlOptions = SrlOptions()


@dataclass(frozen=True)
class Argument:
    """What fills a role."""

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
class RoleText:
    """A text, its predicates and their arguments."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    sentences: tuple[int, ...]  # how many tokens each has
    predicates: tuple[Predicate, ...]

    def __str__(self) -> str:
        """A token a line: the word, the word again where it is a predicate, and a column of arguments for each."""
        lines, first = [], 0
        for length in self.sentences:
            offsets = self.offsets[first : first + length]
            own = [one for one in self.predicates if offsets and offsets[0][0] <= one.start < offsets[-1][1]]
            columns = [[self.text[start:end] for start, end in offsets], ["-"] * length]
            for predicate in own:
                columns[1][_tokens(predicate, offsets).start] = predicate.text
                columns.append(_column(predicate, offsets))
            lines += ["\t".join(row) for row in zip(*columns, strict=True)]
            lines.append("")
            first += length
        return "\n".join(lines)


def _tokens(found: Argument | Predicate, offsets: Sequence[tuple[int, int]]) -> Span:
    """Which of a sentence's tokens these characters are."""
    starts, ends = zip(*offsets, strict=True)
    label = found.label if isinstance(found, Argument) else VERB
    return Span(label, starts.index(found.start), len(ends) - ends[::-1].index(found.end))


def _column(predicate: Predicate, offsets: Sequence[tuple[int, int]]) -> list[str]:
    spans = [_tokens(argument, offsets) for argument in predicate.arguments]
    return _cells(spans, _tokens(predicate, offsets), len(offsets))


def _cells(spans: Sequence[Span], verb: Span, length: int) -> list[str]:
    """The column of a predicate; where an argument holds it, the file has no way to say both."""
    is_free = all(span.end <= verb.start or verb.end <= span.start for span in spans)
    return argument_cells([*spans, verb] if is_free else spans, length)


def read(paths: Sequence[str | Path], options: SrlOptions, *, to_train: bool) -> Dataset[RoleExample]:
    """The predicates of CoNLL-2012 files; a sentence without one is an example too, for the tagger of predicates."""
    examples: list[RoleExample] = []
    elsewhere = long = 0
    for sentence in (one for document in read_conll2012(paths) for one in document.sentences):
        if to_train and len(sentence.tokens) > options.longest_sentence:
            long += 1
            continue
        found = propositions(sentence)
        predicates = [one.predicate for one in found]
        for one in found:
            place = sentence.place(one.predicate)
            if to_train and not one.arguments:
                raise InputError(f"{place}: {_unlabelled(sentence.tokens[one.predicate])} to learn from")
            tags = tags_of(one.arguments, len(sentence.tokens), "bio") if one.arguments else []
            elsewhere += bool(tags) and not tags[one.predicate].endswith(f"-{VERB}")
            examples.append(RoleExample(sentence.tokens, one.predicate, predicates, tags, place=place))
        if not found:
            examples.append(RoleExample(sentence.tokens, None, [], place=sentence.place()))
    notices = []
    if long:
        notices.append(
            f"left out {pluralize(long, 'sentence')} of more than {options.longest_sentence} tokens "
            "(task.longest_sentence)"
        )
    if elsewhere:
        notices.append(
            f"{pluralize(elsewhere, 'predicate')} with {VERB} at another token; the token with the lemma is taken"
        )
    return Dataset(examples, tuple(notices))


def _unlabelled(predicate: str) -> str:
    return f"the predicate {predicate!r} has no column of arguments"


def labels(examples: Sequence[RoleExample], options: SrlOptions) -> Labels:  # noqa: ARG001  # every task has them
    """The roles, V among them."""
    roles = sorted({tag[2:] for example in examples for tag in example.tags if tag != "O"})
    if not roles:
        raise InputError("the training data has no predicates; expected columns of arguments, as CoNLL-2012 has them")
    return {"roles": roles}


def check(examples: Sequence[RoleExample], known: Labels) -> None:
    """Refuse data without roles, or all of another set; and predicates to be labelled, which cannot be scored."""
    if all(example.predicate is None for example in examples):
        raise InputError(
            f"{examples[0].place}: no predicates follow; expected columns of arguments, as CoNLL-2012 has them"
        )
    for example in examples:
        if example.predicate is not None and not example.tags:
            raise InputError(
                f"{example.place}: {_unlabelled(example.tokens[example.predicate])} to score by; for predictions alone "
                "take elmore predict --official"
            )
    there = {tag[2:] for example in examples for tag in example.tags if tag != "O"} - {VERB}
    if there and there.isdisjoint(known["roles"]):
        raise InputError(
            f"{examples[0].place}: none of the roles {', '.join(sorted(there))} is in the training data, which has "
            f"{', '.join(known['roles'])}"
        )


def unseen(examples: Sequence[RoleExample], known: Labels) -> list[str]:
    """How many arguments have rare roles that were never seen."""
    roles = [span.label for example in examples for span in lenient_spans(example.tags)]
    missed = [role for role in roles if role not in known["roles"]]
    if not missed:
        return []
    verb = "has a role" if len(missed) == 1 else "have roles"
    return [
        f"{pluralize(len(missed), 'argument')} {verb} that the training data does not have, and can only be missed: "
        f"{join_names(sorted(set(missed)))}"
    ]


def bio_tags(known: Labels) -> list[str]:
    return ["O", *(f"{prefix}-{role}" for role in known["roles"] for prefix in "BI")]


def score(examples: Sequence[RoleExample], predictions: Sequence[PredictedRoles]) -> Score:
    """The official score of roles with given predicates; beside it, how well predicates would have been found."""
    gold, predicted = [], []
    finding = Counts(0, 0, 0)
    for example, prediction in zip(examples, predictions, strict=True):
        if example.predicate is not None:
            gold.append(example.tags)
            predicted.append(prediction.frames[0].tags)
        if example.stands_for_sentence:
            there, found = set(example.predicates or ()), set(prediction.predicates)
            finding = Counts(*(a + b for a, b in zip(finding, map(len, (there, found, there & found)), strict=True)))
    sentences = sum(example.stands_for_sentence for example in examples)
    found_score = srl_scores(gold, predicted, sentences=sentences)
    table = (
        f"{found_score.table}\npredicates, which were given, found by the model itself: precision "
        f"{finding.precision:.2f}; recall {finding.recall:.2f}; F1 {finding.f1:.2f}"
    )
    return found_score._replace(parts={**found_score.parts, **finding.named("predicate_tagger")}, table=table)


def counts(example: RoleExample, prediction: PredictedRoles) -> Counts:
    """Arguments that are there, were predicted, and are right."""
    tags = prediction.frames[0].tags if example.predicate is not None else []
    gold, found = (
        {argument for argument in arguments(lenient_spans(own)) if argument.label != VERB}
        for own in (example.tags, tags)
    )
    return Counts(gold=len(gold), found=len(found), correct=len(gold & found))


def official(examples: Sequence[RoleExample], predictions: Sequence[PredictedRoles]) -> str:
    """What srl-eval.pl takes beside the key: the predicates that were given, and the arguments found for each."""
    lines: list[str] = []
    columns: list[list[str]] = []
    for example, prediction in zip(examples, predictions, strict=True):
        length = len(example.tokens)
        if example.stands_for_sentence:
            lines += _rows(columns)
            columns = [["-"] * length]
        for frame in prediction.frames:
            columns[0][frame.predicate] = example.tokens[frame.predicate]
            spans = [span for span in lenient_spans(frame.tags) if span.label != VERB]
            columns.append(_cells(spans, Span(VERB, frame.predicate, frame.predicate + 1), length))
    return "\n".join([*lines, *_rows(columns)])


def _rows(columns: Sequence[Sequence[str]]) -> list[str]:
    """Columns as lines, and a blank one behind them."""
    return ["\t".join(row) for row in zip(*columns, strict=True)] + [""] if columns else []


def parse(text: str, tokenizer: StyledTokenizer) -> list[RoleExample]:
    """The sentences of a text."""
    found = [RoleExample(cut.tokens, offsets=cut.offsets) for cut in tokenizer.sentences(text) if cut.tokens]
    longest = max((len(one.tokens) for one in found), default=0)
    if longest > LONG_SENTENCE:
        warnings.warn(
            f"{tokenizer.name}: a sentence has {longest:,} tokens, which takes long: it is read once for each of its "
            "predicates. If it is several sentences, write each on a line of its own",
            InputWarning,
            stacklevel=2,
        )
    return found


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
    return RoleText(
        text,
        tokens=tuple(token for example in examples for token in example.tokens),
        offsets=tuple(span for example in examples for span in example.offsets),
        sentences=tuple(len(example.tokens) for example in examples),
        predicates=tuple(predicates),
    )


SRL: Task[RoleExample, PredictedRoles] = Task(
    name="srl",
    summary="semantic roles: who did what to whom",
    recipe=SrlRecipe,
    read=read,
    sentences=lambda example: (example.tokens,),
    labels=labels,
    label_types={"roles": tuple[str, ...]},
    check=check,
    unseen=unseen,
    build=lambda options, known, embedder: RoleLabeler(options, bio_tags(known), embedder),
    score=score,
    counts=counts,
    official=official,
    parse=parse,
    result=result,
)
