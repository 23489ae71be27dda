"""Two tasks that give a text one label, with the same network.

classify   any labels, from a table with a text and a label in each row
sentiment  sentences of the Stanford Sentiment Treebank, five classes from very negative to very positive. Phrases of
           four or more tokens are also training examples; only whole sentences are scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from elmore.display import pluralize
from elmore.errors import InputError
from elmore.fields import checked_field
from elmore.tasks.classification.model import ClassifierOptions, LabeledTokens, PredictedLabel, TextClassifier
from elmore.tasks.classification.trees import read_trees
from elmore.tasks.core.config import TaskOptions, TaskRecipe
from elmore.tasks.core.labels import check_some_known, unseen_labels
from elmore.tasks.core.results import tab_separated
from elmore.tasks.core.task import Dataset, Labels, ReadExamples, Task
from elmore.tasks.inputs.tokenizer import StyledTokenizer, raw_text_tokenizer
from elmore.tasks.metrics.scores import Accuracy
from elmore.tasks.readers.tables import read_labeled_text


@dataclass(frozen=True)
class ClassifiedText:
    """A text, its label, and the probability of each label."""

    text: str
    label: str
    probabilities: dict[str, float]

    def __str__(self) -> str:
        return tab_separated(self.label, f"{self.probabilities[self.label]:.3f}", self.text)


@dataclass(frozen=True, kw_only=True)
class ClassifyOptions(ClassifierOptions):
    """[task] of classification."""

    text_column: int | str | None = None  # by name or number; None: detected
    label_column: int | str | None = None
    tokenized: bool = False  # the texts are tokens separated by spaces


@dataclass(frozen=True, kw_only=True)
class ClassifyRecipe(TaskRecipe):
    """Recipe of classification."""

    task: ClassifyOptions = ClassifyOptions()


@dataclass(frozen=True, kw_only=True)
class SentimentOptions(ClassifierOptions):
    """[task] of sentiment."""

    phrases: bool = True  # also train on the phrases of a sentence
    shortest_phrase: int = checked_field(4, at_least=1)  # in tokens; 1 includes all subtrees
    binary: bool = False  # positive and negative only; neutral phrases are left out


@dataclass(frozen=True, kw_only=True)
class SentimentRecipe(TaskRecipe):
    """Recipe of sentiment."""

    task: SentimentOptions = SentimentOptions()


def read_texts(
    paths: Sequence[str | Path],
    options: ClassifyOptions,
    *,
    to_train: bool,  # noqa: ARG001
) -> Dataset[LabeledTokens]:
    """All rows of some tables; each text is one sequence of tokens."""
    tokenizer = raw_text_tokenizer(options)
    examples = []
    for path in paths:
        for row in read_labeled_text(path, text_column=options.text_column, label_column=options.label_column):
            tokens = row.text.split(" ") if options.tokenized else tokenizer.tokens(row.text).tokens
            examples.append(LabeledTokens([token for token in tokens if token], row.label, f"{path}, line {row.line}"))
    return Dataset(examples)


def read_sentiment(paths: Sequence[str | Path], options: SentimentOptions, *, to_train: bool) -> Dataset[LabeledTokens]:
    """The sentences of some trees, and for training their phrases."""
    binary_labels = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
    examples: list[LabeledTokens] = []
    short = neutral = 0
    for path in paths:
        for tree in read_trees(path):
            for phrase in tree.phrases:
                if not phrase.is_root and not (to_train and options.phrases):
                    continue
                if not phrase.is_root and len(phrase.tokens) < options.shortest_phrase:
                    short += 1
                    continue
                label = binary_labels.get(phrase.label) if options.binary else phrase.label
                if label is None:
                    neutral += 1
                    continue
                examples.append(LabeledTokens(phrase.tokens, label, f"{path}, line {tree.line}", phrase.is_root))
    notices = []
    if short:
        notices.append(f"{pluralize(short, 'phrase')} of fewer than {options.shortest_phrase} tokens left out")
    if neutral:
        notices.append(f"{pluralize(neutral, 'neutral phrase')} left out")
    return Dataset(examples, tuple(notices))


class LabeledExample(Protocol):
    """An example with one label: a text or a pair of texts."""

    @property
    def label(self) -> str: ...

    @property
    def location(self) -> str: ...


def labels(examples: Sequence[LabeledExample], options: TaskOptions) -> Labels:  # noqa: ARG001
    distinct = sorted({example.label for example in examples})
    if len(distinct) < 2:
        raise InputError(f"the training data has only one label, {distinct[0]!r}; a classifier needs two")
    return {"labels": distinct}


def check(examples: Sequence[LabeledExample], known: Labels) -> None:
    check_some_known([example.label for example in examples], known["labels"], examples[0].location)


def unseen(examples: Sequence[LabeledExample], known: Labels) -> list[str]:
    return unseen_labels([example.label for example in examples], known["labels"], "example")


# The fields of `Task` that all tasks with one label for each example share.
LABEL_FIELDS: dict[str, Any] = {
    "labels": labels,
    "label_types": {"labels": tuple[str, ...]},
    "check": check,
    "unseen": unseen,
    "metric": Accuracy(gold=lambda example: [example.label], predicted=lambda prediction: [prediction.label]),
}


def from_text(text: str, tokenizer: StyledTokenizer) -> list[LabeledTokens]:
    return [LabeledTokens(tokenizer.tokens(text).tokens)]


def result(
    text: str,
    examples: Sequence[LabeledTokens],  # noqa: ARG001
    predictions: Sequence[PredictedLabel],
    known: Labels,
) -> ClassifiedText:
    [prediction] = predictions
    return ClassifiedText(text, prediction.label, dict(zip(known["labels"], prediction.probabilities, strict=True)))


def _task(
    name: str, summary: str, recipe: type[TaskRecipe], read: ReadExamples[LabeledTokens]
) -> Task[LabeledTokens, PredictedLabel]:
    return Task(
        name=name,
        summary=summary,
        recipe=recipe,
        read=read,
        sentences=lambda example: (example.tokens,),
        is_whole=lambda example: example.is_whole,
        build=lambda options, known, embedder: TextClassifier(options, known["labels"], embedder),
        parse=from_text,
        result=result,
        **LABEL_FIELDS,
    )


CLASSIFY = _task("classify", "one label for a text, from a table of texts and labels", ClassifyRecipe, read_texts)
SENTIMENT = _task(
    "sentiment",
    "sentiment of sentences, from trees of the Stanford Sentiment Treebank",
    SentimentRecipe,
    read_sentiment,
)
