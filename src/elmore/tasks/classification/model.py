"""The biattentive classification network, for one text.

    X = biLSTM(feed-forward(inputs)),  concatenated with extra vectors if there are any
    C = softmax by row of (X X^T) @ X
    Z = biLSTM([X; X - C; X * C])
    logits = output network([max Z; min Z; mean Z; self-attentive average of Z])

McCann et al., 2017, with a maxout output network. Peters et al., 2018, A.8, use ReLU there and append a second mix of
ELMo's layers to the first biLSTM's output. B texts, T tokens, D size of the input, E size of extra vectors, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from elmore.fields import checked_field
from elmore.nn.devices import send
from elmore.tasks.core.config import TaskOptions
from elmore.tasks.core.task import Batch, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.modules.attention import BiAttention, SelfAttentivePooling, masked_max, masked_mean, masked_min
from elmore.tasks.modules.ensembling import mean_of_probabilities
from elmore.tasks.modules.feed_forward import FeedForward, Maxout
from elmore.tasks.modules.rnn import BiLstm, append_extra


class LabeledTokens(NamedTuple):
    """A text as tokens, and its label."""

    tokens: Sequence[str]
    label: str = ""
    location: str = ""  # file and line, for messages
    is_whole: bool = True  # false for a phrase of another text


class PredictedLabel(NamedTuple):
    """The most probable label, and the probability of each label."""

    label: str
    probabilities: Sequence[float]  # in the order of the model's labels


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions(TaskOptions):
    """[task] of a classifier of texts."""

    hidden: int = checked_field(300, at_least=1)
    output_dims: tuple[int, ...] = checked_field((1200, 600), at_least=1)  # hidden layers of the output network
    maxout: bool = False  # instead of ReLU in the output network
    input_dropout: float = checked_field(0.25, at_least=0, at_most=0.95)
    feed_forward_dropout: float = checked_field(0.25, at_least=0, at_most=0.95)
    pooled_dropout: float = checked_field(0.1, at_least=0, at_most=0.95)
    output_dropout: float = checked_field(0.2, at_least=0, at_most=0.95)


class ClassifierDropout(NamedTuple):
    """Dropout probabilities, from input to output; the defaults are those of AllenNLP's model without ELMo."""

    inputs: float = 0.25
    feed_forward: float = 0.25
    pooled: float = 0.1
    output: float | tuple[float, ...] = (0.2, 0.3)  # after each hidden layer of the output network


class BiattentiveClassifier(nn.Module):
    """Logits of a text's classes.

    `extra_dim` is the size of the vectors that are concatenated to the first biLSTM's output. No dropout is applied to
    them here. With `maxout` all layers of the output network are maxout layers, also the last one.

    >>> classifier = BiattentiveClassifier(7, num_classes=5, hidden=4, output_dims=(6, 3))
    >>> classifier(torch.ones(1, 2, 7), torch.ones(1, 2, dtype=torch.bool), [2]).shape
    torch.Size([1, 5])
    """

    def __init__(
        self,
        input_dim: int,
        num_classes: int,
        *,
        extra_dim: int = 0,
        hidden: int = 300,
        output_dims: Sequence[int] = (1200, 600),
        maxout: bool = False,
        dropout: ClassifierDropout = ClassifierDropout(),  # noqa: B008  # a tuple of numbers
    ) -> None:
        super().__init__()
        self.extra_dim = extra_dim
        self.input_dropout = nn.Dropout(dropout.inputs)
        self.feed_forward = FeedForward(input_dim, (hidden,), dropout=dropout.feed_forward)
        self.encoder = BiLstm(hidden, hidden)
        self.attention = BiAttention()
        self.integrator = BiLstm(3 * (self.encoder.output_dim + extra_dim), hidden)
        self.self_attentive = SelfAttentivePooling(self.integrator.output_dim)
        self.pooled_dropout = nn.Dropout(dropout.pooled)
        pooled_dim = 4 * self.integrator.output_dim
        output_dropout = dropout.output
        if maxout:
            if not isinstance(output_dropout, tuple):
                output_dropout = (output_dropout,) * len(output_dims)
            self.output: nn.Module = Maxout(pooled_dim, (*output_dims, num_classes), dropout=(*output_dropout, 0.0))
        else:
            self.output = FeedForward(pooled_dim, output_dims, dropout=output_dropout, output_dim=num_classes)

    def forward(
        self, x: Tensor, mask: Tensor, lengths: Sequence[int] | Tensor, extra: Tensor | None = None
    ) -> Tensor:  # (B, T, D), (B, T), B on the CPU, (B, T, E) -> (B, K)
        x = self.encoder(self.feed_forward(self.input_dropout(x)), lengths)
        x = append_extra(x, extra, self.extra_dim)
        attended = self.attention.attend_self(x, mask)
        z = self.integrator(torch.cat([x, x - attended, x * attended], dim=2), lengths)
        pooled = [masked_max(z, mask), masked_min(z, mask), masked_mean(z, mask), self.self_attentive(z, mask)]
        logits: Tensor = self.output(self.pooled_dropout(torch.cat(pooled, dim=1)))
        return logits


class TextClassifier(TaskModel[LabeledTokens, PredictedLabel]):
    """One label for a text."""

    def __init__(self, options: ClassifierOptions, labels: Sequence[str], embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.labels = tuple(labels)
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
        gold = [example.label for example in batch.examples]
        return label_loss(self._logits(inputs).float(), gold, self.labels) + self.embedder.penalty()

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[LabeledTokens]]) -> list[PredictedLabel]:
        logits = [model._logits(batch.inputs[0]).float() for model, batch in zip(members, batches, strict=True)]
        return most_probable(mean_of_probabilities(logits), members[0].labels)

    def _logits(self, inputs: TokenInputs) -> Tensor:  # (B, K)
        vectors = self.embedder(inputs)
        logits: Tensor = self.classifier(vectors.input, inputs.mask, inputs.lengths, vectors.output)
        return logits


def label_loss(logits: Tensor, gold: Sequence[str], labels: Sequence[str]) -> Tensor:  # (B, K), B -> ()
    """The mean cross entropy of the gold labels."""
    numbers = {label: number for number, label in enumerate(labels)}
    targets = send(torch.tensor([numbers[label] for label in gold]), logits.device)
    return nn.functional.cross_entropy(logits, targets)


def most_probable(logits: Tensor, labels: Sequence[str]) -> list[PredictedLabel]:  # (B, K)
    """The best label of each row, and the probabilities of all labels."""
    probabilities = logits.softmax(dim=-1).tolist()
    return [PredictedLabel(labels[max(range(len(row)), key=row.__getitem__)], row) for row in probabilities]
