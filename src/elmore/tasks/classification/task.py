"""What classifiers of texts share: a text with a label, the model, and what a user gets.

The model is the biattentive classification network of McCann et al., 2017, as Peters et al., 2018, A.8, have it.
B texts, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from elmore.errors import InputError
from elmore.fields import checked_field
from elmore.nn.devices import send
from elmore.tasks.classification.model import BiattentiveClassifier, ClassifierDropout
from elmore.tasks.core.config import TaskOptions, TaskRecipe
from elmore.tasks.core.results import tab_separated
from elmore.tasks.core.task import Batch, Labels, ReadExamples, Task, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.metrics.accuracy import accuracy
from elmore.tasks.metrics.score import Counts, Score
from elmore.tasks.modules.ensembling import mean_of_probabilities


class LabeledTokens(NamedTuple):
    """A text as tokens, and its label."""

    tokens: Sequence[str]
    label: str = ""
    place: str = ""  # file and line, for complaints
    is_whole: bool = True  # and no phrase of another text


class LabeledExample(Protocol):
    """Anything with a label, a text or a pair of them."""

    @property
    def label(self) -> str: ...

    @property
    def place(self) -> str: ...


class PredictedLabel(NamedTuple):
    """The most probable label, and the probability of each."""

    label: str
    probabilities: Sequence[float]  # in the order of the model's labels


@dataclass(frozen=True)
class ClassifiedText:
    """A text, its label, and how probable each label is."""

    text: str
    label: str
    probabilities: dict[str, float]

    def __str__(self) -> str:
        return tab_separated(self.label, f"{self.probabilities[self.label]:.3f}", self.text)


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions(TaskOptions):
    """[task] of a classifier of texts."""

    hidden: int = checked_field(300, at_least=1)
    output_dims: tuple[int, ...] = checked_field((1200, 600), at_least=1)  # hidden layers of the output network
    maxout: bool = False  # instead of ReLU there
    input_dropout: float = checked_field(0.25, at_least=0, at_most=0.95)
    feed_forward_dropout: float = checked_field(0.25, at_least=0, at_most=0.95)
    pooled_dropout: float = checked_field(0.1, at_least=0, at_most=0.95)
    output_dropout: float = checked_field(0.2, at_least=0, at_most=0.95)


class TextClassifier(TaskModel[LabeledTokens, PredictedLabel]):
    """One label for a text."""

    def __init__(self, options: ClassifierOptions, labels: Sequence[str], embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.labels = tuple(labels)
        self._numbers = {label: number for number, label in enumerate(labels)}
        self.classifier = BiattentiveClassifier(
            embedder.input_dim,
            len(labels),
            extra_dim=embedder.output_dim,
            hidden=options.hidden,
            output_dims=options.output_dims,
            maxout=options.maxout,
            dropout=ClassifierDropout(
                options.input_dropout, options.feed_forward_dropout, options.pooled_dropout, options.output_dropout
            ),
        )

    def loss(self, batch: Batch[LabeledTokens]) -> Tensor:
        (inputs,) = batch.inputs
        gold = send(torch.tensor([self._numbers[example.label] for example in batch.examples]), inputs.mask.device)
        return torch.nn.functional.cross_entropy(self._logits(inputs).float(), gold) + self.embedder.penalty()

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[LabeledTokens]]) -> list[PredictedLabel]:
        logits = [one._logits(batch.inputs[0]).float() for one, batch in zip(members, batches, strict=True)]
        return most_probable(mean_of_probabilities(logits), members[0].labels)

    def _logits(self, inputs: TokenInputs) -> Tensor:  # (B, K)
        vectors = self.embedder(inputs)
        logits: Tensor = self.classifier(vectors.input, inputs.mask, inputs.lengths, vectors.output)
        return logits


def most_probable(logits: Tensor, labels: Sequence[str]) -> list[PredictedLabel]:  # (B, K)
    """The best label of each row, and the probabilities of all."""
    probabilities = logits.softmax(dim=-1).tolist()
    return [PredictedLabel(labels[max(range(len(row)), key=row.__getitem__)], row) for row in probabilities]


def classification_task(
    name: str, summary: str, recipe: type[TaskRecipe], read: ReadExamples[LabeledTokens]
) -> Task[LabeledTokens, PredictedLabel]:
    """A task of this network, which differs from others in its data alone."""
    return Task(
        name=name,
        summary=summary,
        recipe=recipe,
        read=read,
        sentences=lambda example: (example.tokens,),
        is_whole=lambda example: example.is_whole,
        labels=labels,
        label_types=LABEL_TYPES,
        check=check,
        build=build,
        score=score,
        counts=counts,
        parse=parse,
        result=result,
    )


LABEL_TYPES = {"labels": tuple[str, ...]}


def labels(examples: Sequence[LabeledExample], options: TaskOptions) -> Labels:  # noqa: ARG001  # as in every task
    found = sorted({example.label for example in examples})
    if len(found) < 2:
        raise InputError(f"the training data has one label, {found[0]!r}; there is nothing to tell apart")
    return {"labels": found}


def check(examples: Sequence[LabeledExample], known: Labels) -> None:
    """Refuse examples with labels that the training data did not have."""
    for example in examples:
        if example.label not in known["labels"]:
            raise InputError(
                f"{example.place}: the label {example.label!r} is not in the training data, which has "
                f"{', '.join(known['labels'])}"
            )


def build(options: ClassifierOptions, known: Labels, embedder: TokenEmbedder) -> TextClassifier:
    return TextClassifier(options, known["labels"], embedder)


def score(examples: Sequence[LabeledExample], predictions: Sequence[PredictedLabel]) -> Score:
    return accuracy([example.label for example in examples], [prediction.label for prediction in predictions])


def counts(example: LabeledExample, prediction: PredictedLabel) -> Counts:
    return Counts(gold=1, found=1, correct=int(example.label == prediction.label))


def parse(text: str, tokenizer: StyledTokenizer) -> list[LabeledTokens]:
    return [LabeledTokens(tokenizer.tokens(text).tokens)]


def result(
    text: str,
    examples: Sequence[LabeledTokens],  # noqa: ARG001
    predictions: Sequence[PredictedLabel],
    known: Labels,
) -> ClassifiedText:
    (prediction,) = predictions
    shares = dict(zip(known["labels"], prediction.probabilities, strict=True))
    return ClassifiedText(text, prediction.label, shares)
