"""What a task is: a reader, a model, a metric and a recipe, put together in one file for each task.

E is the task's example, as its reader gives it; P what its model predicts for one.
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
    """The examples of some files, and what there is to say of them."""

    examples: list[E]
    notices: tuple[str, ...] = ()  # what was left out, how often, and why


class Batch(NamedTuple, Generic[E]):
    """Examples that are read together, and their token sequences: one for a tagger, two for a paragraph and a question.

    Of a document, which is read alone, all sentences are one, or some in a row where one is very long; so are both of a
    pair that a model reads alike.
    """

    examples: Sequence[E]
    inputs: tuple[TokenInputs, ...]


class TaskModule(nn.Module, ABC, Generic[E, P]):
    """What a task's model is once it has learnt, in whichever way."""

    @abstractmethod
    def predict(self, batch: Batch[E]) -> list[P]:
        """What the model says of each example, without looking at its labels."""

    @classmethod
    @abstractmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[E]]) -> list[P]:
        """What several models say of the same examples together; each has them as a batch of its own making."""


class TaskModel(TaskModule[E, P]):
    """A model that is trained by gradients, epoch after epoch."""

    def predict(self, batch: Batch[E]) -> list[P]:
        return self.predict_together([self], [batch])

    @abstractmethod
    def loss(self, batch: Batch[E]) -> Tensor:
        """() the loss of a batch, its mean over examples."""


class Fit(NamedTuple):
    """What came of fitting a model: the choices that were tried on the dev set, and the one that was taken."""

    scores: Mapping[str, Score]
    chosen: str


# Of a fitted model, where several are to decide together.
NO_ENSEMBLE = "is read off the data, without chance, and decides alone; only methods that are trained have ensembles"


class FittedModel(TaskModule[E, P]):
    """A model that needs no gradients: it reads the training examples once, and chooses by the dev set."""

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[E]]) -> list[P]:
        # Several are refused where they are trained, and where they are loaded.
        [alone], [batch] = members, batches
        return alone.predict(batch)

    @abstractmethod
    def fit(
        self,
        train: Iterable[Batch[E]],
        dev: Iterable[Batch[E]],
        score: Callable[[Sequence[E], Sequence[P]], Score],
    ) -> Generator[None, None, Fit]:
        """Learn all there is to learn; yield after each batch, so that whoever waits can be told, or can stop.

        A batch is read when it is asked for: what is not needed costs nothing. `score` is the task's.
        """


class ReadExamples(Protocol[E]):
    """A task's reader."""

    def __call__(self, paths: Sequence[str | Path], options: Any, *, to_train: bool) -> Dataset[E]:
        """Examples from files, as the options of [task] say; some tasks train on more than they are scored by."""


@dataclass(frozen=True, kw_only=True)
class Task(Generic[E, P]):
    """All that the frame needs to know of a task."""

    name: str
    summary: str  # one line, for help
    recipe: type[TaskRecipe]
    read: "ReadExamples[E]"
    # Files that are read beside these ones, such as keys; [task] is the second.
    files_beside: Callable[[Sequence[str | Path], Any], Sequence[str | Path]] = lambda paths, options: ()  # noqa: ARG005
    # The token sequences of an example, each to be read by the biLM as a sentence: as many for every example, or where
    # an example is a document as many as it has.
    sentences: Callable[[E], Sequence[Tokens]]
    # Whether an example is no part of another one, as phrases of a sentence are.
    is_whole: Callable[[E], bool] = lambda example: True  # noqa: ARG005
    # What a model must know of the data it is trained on, such as all labels, as JSON values; [task] is the second.
    labels: Callable[[Sequence[E], Any], Labels]
    # Those of their values that `build` and `check` go by, as types that `fields` reads.
    label_types: Mapping[str, Any] = field(default_factory=dict)
    # Refuses examples with labels that the training data did not have.
    check: Callable[[Sequence[E], Labels], None]
    # What there is to say of labels that `check` lets pass all the same: a model can only miss them.
    unseen: Callable[[Sequence[E], Labels], Sequence[str]] = lambda examples, known: ()  # noqa: ARG005
    # A new model, from [task], the labels, and where tokens get their vectors.
    build: Callable[[Any, Labels, TokenEmbedder], TaskModel[E, P] | FittedModel[E, P]]
    metric: Metric[E, P]
    # Predictions for files of data, as the file that the task's official scorer takes; None where there is none.
    official: Callable[[Sequence[E], Sequence[P]], str] | None = None
    # An example is a document: it makes a batch by itself, its sentences one input, and `predict` reads whole files
    # and gives each result the name of its own.
    reads_documents: bool = False
    # Fields of [task] that models which decide together have alike, beside task, labels and token style.
    ensemble_fields: Sequence[str] = ()
    # The token sequences of a batch are one input: the first ones of all examples, then the second ones, and so on.
    reads_as_one: bool = False
    # What of an example one step of training reads, drawn anew for each; [task] is the second. None: all of it.
    draw_part: Callable[[E, Any, np.random.Generator], E] | None = None
    # Examples without labels from one raw text, for `predict`.
    parse: Callable[[str, StyledTokenizer], list[E]]
    # What the user gets: a record with text, places and labels, made of all examples of one text.
    result: Callable[[str, Sequence[E], Sequence[P], Labels], Any]


def check_labels(task: Task[E, P], known: Labels) -> None:
    """Refuse labels, read from a file, that the task could not have made."""
    for name, kind in task.label_types.items():
        if name not in known:
            raise FormatError(f"labels.{name} is missing; a model of {task.name} has it")
        check_value(f"labels.{name}", known[name], kind)
        if not known[name] and isinstance(known[name], Sequence):
            raise FormatError(f"labels.{name} is empty; a model of {task.name} has learnt one label at least")


def token_sequences(task: Task[E, P], examples: Iterable[E]) -> list[Tokens]:
    """All token sequences of some examples; one that several share, as questions do a paragraph, comes once."""
    sequences = (tokens for example in examples for tokens in task.sentences(example))
    return list({id(tokens): tokens for tokens in sequences}.values())


def fine_tuning_sentences(task: Task[E, P], examples: Sequence[E]) -> list[Tokens]:
    """What a language model learns from some examples: their sentences, and not once more the phrases of these."""
    # Of a small share of the examples there may be phrases alone.
    return token_sequences(task, [example for example in examples if task.is_whole(example)] or examples)
