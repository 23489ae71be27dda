"""The `Task` record: a reader, a model, a metric and a recipe. Each task defines one.

E is the type of the task's examples, P the type of the prediction for an example.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from torch import Tensor, nn

from elmore.errors import FormatError
from elmore.fields import check_value
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.metrics.metric import Metric, Score

E = TypeVar("E")
P = TypeVar("P")
Tokens = Sequence[str]
Labels = Mapping[str, Any]  # plain JSON values


class Dataset(NamedTuple, Generic[E]):
    """The examples of some files, and notices about them."""

    examples: list[E]
    notices: tuple[str, ...] = ()  # numbers and reasons of skipped data


class Batch(NamedTuple, Generic[E]):
    """Examples, and their token sequences as inputs: one input for a tagger, two for paragraphs and questions.

    With `Task.reads_documents`, the sentences of the document are one input, or several if one is very long. With
    `Task.reads_as_one`, the first and second sequences of all examples are one input.
    """

    examples: Sequence[E]
    inputs: tuple[TokenInputs, ...]


class TaskModule(nn.Module, ABC, Generic[E, P]):
    """The model of a task: predictions for batches."""

    @abstractmethod
    def predict(self, batch: Batch[E]) -> list[P]:
        """A prediction for each example. The labels are not used."""

    @classmethod
    @abstractmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[E]]) -> list[P]:
        """The predictions of an ensemble. Each member has its own batch of the same examples."""


class TaskModel(TaskModule[E, P]):
    """A model that is trained by gradient descent."""

    def predict(self, batch: Batch[E]) -> list[P]:
        return self.predict_together([self], [batch])

    @abstractmethod
    def loss(self, batch: Batch[E]) -> Tensor:
        """() the mean loss of the examples."""


class Fit(NamedTuple):
    """The dev scores of all choices of a fitted model, and the best choice."""

    scores: Mapping[str, Score]
    chosen: str


# An error message begins with the model.
NO_ENSEMBLE = "is not trained by gradient descent and does not depend on a seed, so it cannot be part of an ensemble"


class FittedModel(TaskModule[E, P]):
    """A model without gradient descent: one pass over the training examples, and a choice by the dev score."""

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[E]]) -> list[P]:
        # Ensembles of fitted models are rejected in training and in `load`.
        [model], [batch] = members, batches
        return model.predict(batch)

    @abstractmethod
    def fit(
        self,
        train: Iterable[Batch[E]],
        dev: Iterable[Batch[E]],
        score: Callable[[Sequence[E], Sequence[P]], Score],
    ) -> Generator[None, None, Fit]:
        """Fit the model. Yields after each batch, for progress and for stopping.

        Batches are computed on request: unused batches cost nothing. `score` is the task's.
        """


class ReadExamples(Protocol[E]):
    """A task's reader."""

    def __call__(self, paths: Sequence[str | Path], options: Any, *, to_train: bool) -> Dataset[E]:
        """Examples from files; `options` is [task]. With `to_train`, some tasks return additional examples."""


@dataclass(frozen=True, kw_only=True)
class Task(Generic[E, P]):
    """The parts of a task."""

    name: str
    summary: str  # one line, for help
    recipe: type[TaskRecipe]
    read: "ReadExamples[E]"
    # Further files that `read` opens for these paths, such as keys; the second argument is [task].
    files_beside: Callable[[Sequence[str | Path], Any], Sequence[str | Path]] = lambda paths, options: ()  # noqa: ARG005
    # The token sequences of an example, each a sentence for the biLM: the same number for every example, or all
    # sentences of a document.
    sentences: Callable[[E], Sequence[Tokens]]
    # False for an example that is a part of another one, such as a phrase of a sentence.
    is_whole: Callable[[E], bool] = lambda example: True  # noqa: ARG005
    # The facts of the training data that the model stores, such as all labels, as JSON values; the second is [task].
    labels: Callable[[Sequence[E], Any], Labels]
    # The types of the values in `labels` that `build` and `check` use, as for `elmore.fields`.
    label_types: Mapping[str, Any] = field(default_factory=dict)
    # Raises InputError for examples that cannot be scored with the labels of the training data.
    check: Callable[[Sequence[E], Labels], None]
    # Notices about labels that `check` accepts but that the training data does not have: they count as wrong.
    unseen: Callable[[Sequence[E], Labels], Sequence[str]] = lambda examples, known: ()  # noqa: ARG005
    # A new model, from [task], the labels and the embedder.
    build: Callable[[Any, Labels, TokenEmbedder], TaskModel[E, P] | FittedModel[E, P]]
    metric: Metric[E, P]
    # The predictions in the file format of the task's official scorer; None if there is no such format.
    official: Callable[[Sequence[E], Sequence[P]], str] | None = None
    # An example is a document: a batch has one document, its sentences are one input, and `predict` reads whole files
    # and sets `name` in each result.
    reads_documents: bool = False
    # Fields of [task] that must be equal in the members of an ensemble, as task, labels and token style.
    ensemble_fields: Sequence[str] = ()
    # The token sequences of a batch are one input: the first sequences of all examples, then the second, and so on.
    reads_as_one: bool = False
    # Samples the part of an example for a training step; the second argument is [task]. None: the whole example.
    draw_part: Callable[[E, Any, np.random.Generator], E] | None = None
    # The unlabeled examples of one raw text, for `predict`.
    parse: Callable[[str, StyledTokenizer], list[E]]
    # The result of `predict` for one text: a record with the text, offsets and labels, from all its examples.
    result: Callable[[str, Sequence[E], Sequence[P], Labels], Any]


def check_labels(task: Task[E, P], known: Labels) -> None:
    """Raise FormatError for labels from a file that the task cannot have written."""
    for name, kind in task.label_types.items():
        if name not in known:
            raise FormatError(f"labels.{name} is missing; a model of {task.name} requires it")
        check_value(f"labels.{name}", known[name], kind)
        if not known[name] and isinstance(known[name], Sequence):
            raise FormatError(f"labels.{name} is empty; a model of {task.name} requires at least one label")


def token_sequences(task: Task[E, P], examples: Iterable[E]) -> list[Tokens]:
    """All token sequences of some examples. A shared sequence, such as a paragraph with questions, is returned once."""
    sequences = (tokens for example in examples for tokens in task.sentences(example))
    return list({id(tokens): tokens for tokens in sequences}.values())


def fine_tuning_sentences(task: Task[E, P], examples: Sequence[E]) -> list[Tokens]:
    """The sentences of some examples, for language model fine-tuning, without phrases that are parts of sentences."""
    # A small sample of the examples may contain only phrases.
    return token_sequences(task, [example for example in examples if task.is_whole(example)] or examples)
