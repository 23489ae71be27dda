"""Entailment: whether a hypothesis follows from a premise, contradicts it, or neither, as in SNLI and MultiNLI.

The model is ESIM (Chen et al., 2017):

    a = biLSTM(premise),  b = biLSTM(hypothesis)    with shared weights, concatenated with extra vectors
    a~ = softmax by row of (a b^T) @ b,   b~ = softmax by row of (b a^T) @ a
    m = relu(W [v; v~; v - v~; v * v~])             for both a and b
    logits = feed-forward([mean; max] of biLSTM(m_a), [mean; max] of biLSTM(m_b))

Peters et al., 2018, A.3, append a second mix of ELMo's layers to the first biLSTM's output and add dropout after the
attention. Scored by accuracy; pairs on which the annotators did not agree are left out.

B pairs, T tokens, D size of the input, E size of extra vectors, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from elmore.display import pluralize
from elmore.errors import InputError
from elmore.fields import checked_field
from elmore.files.text_files import display_name
from elmore.tasks.classification.model import PredictedLabel, label_loss, most_probable
from elmore.tasks.classification.task import LABEL_FIELDS
from elmore.tasks.core.config import TaskOptions, TaskRecipe
from elmore.tasks.core.results import tab_separated
from elmore.tasks.core.task import Batch, Dataset, Labels, Task, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.tokenizer import StyledTokenizer, raw_text_tokenizer
from elmore.tasks.modules.attention import BiAttention, masked_max, masked_mean
from elmore.tasks.modules.ensembling import mean_of_probabilities
from elmore.tasks.modules.feed_forward import FeedForward
from elmore.tasks.modules.rnn import BiLstm, EncoderInputs, VariationalDropout, append_extra
from elmore.tasks.readers.tables import NO_CONSENSUS, PairColumns, parse_pair, read_sentence_pairs

# Attention scores of a batch that are computed with common padding. A batch with more is computed without padding the
# shorter sentences; results agree up to rounding.
MAX_PADDED_SCORES = 2**24


@dataclass(frozen=True, kw_only=True)
class EntailmentOptions(TaskOptions):
    """[task] of entailment."""

    hidden: int = checked_field(300, at_least=1)
    dropout: float = checked_field(0.5, at_least=0, at_most=0.95)  # on the inputs of both biLSTMs, and in the output
    attended_dropout: float = checked_field(0.0, at_least=0, at_most=0.95)  # after the attention
    premise_column: int | str | None = None  # by name or number; None: detected
    hypothesis_column: int | str | None = None
    label_column: int | str | None = None


@dataclass(frozen=True, kw_only=True)
class EntailmentRecipe(TaskRecipe):
    """Recipe of entailment."""

    task: EntailmentOptions = EntailmentOptions()


class PairedTokens(NamedTuple):
    """Two sentences as tokens, and the label of the pair."""

    premise: Sequence[str]
    hypothesis: Sequence[str]
    label: str = ""
    location: str = ""  # file and line, for messages


@dataclass(frozen=True)
class JudgedPair:
    """Two sentences, the label of the pair, and the probability of each label."""

    premise: str
    hypothesis: str
    label: str
    probabilities: dict[str, float]

    def __str__(self) -> str:
        probability = self.probabilities[self.label]
        return tab_separated(self.label, f"{probability:.3f}", self.premise, self.hypothesis)


class EsimDropout(NamedTuple):
    """Dropout probabilities, from input to output."""

    encoders: float = 0.5  # on the inputs of both biLSTMs, variational
    attended: float = 0.0  # on [v; v~; v - v~; v * v~], variational
    output: float = 0.5  # before both layers of the output network


class Esim(nn.Module):
    """Logits of the relations of two sentences.

    `extra_dim` is the size of the vectors that are concatenated to the first biLSTM's output.

    >>> pair = EncoderInputs(torch.ones(2, 5, 7), torch.ones(2, 5, dtype=torch.bool), (5, 5))
    >>> Esim(7, num_classes=3, hidden=4)(pair).shape
    torch.Size([1, 3])
    """

    def __init__(
        self,
        input_dim: int,
        num_classes: int,
        *,
        extra_dim: int = 0,
        hidden: int = 300,
        dropout: EsimDropout = EsimDropout(),  # noqa: B008  # a tuple of numbers
    ) -> None:
        super().__init__()
        self.extra_dim = extra_dim
        self.encoder = BiLstm(input_dim, hidden, input_dropout=dropout.encoders)
        self.attention = BiAttention()
        self.attended_dropout = VariationalDropout(dropout.attended)
        self.projection = FeedForward(4 * (self.encoder.output_dim + extra_dim), (hidden,))
        self.composition = BiLstm(hidden, hidden, input_dropout=dropout.encoders)
        self.pooled_dropout = nn.Dropout(dropout.output)
        pooled_dim = 4 * self.composition.output_dim
        self.output = FeedForward(pooled_dim, (hidden,), dropout=dropout.output, output_dim=num_classes)

    def forward(self, sentences: EncoderInputs) -> Tensor:  # 2 B -> (B, K)
        """From the premises of all pairs, followed by their hypotheses."""
        v = append_extra(self.encoder(sentences.x, sentences.lengths), sentences.extra, self.extra_dim)
        mask, lengths = sentences.mask, sentences.lengths
        pairs, width = len(v) // 2, v.shape[1]
        if pairs * width**2 <= MAX_PADDED_SCORES:
            attended = torch.cat(self.attention(*v.chunk(2), *mask.chunk(2)))
            pooled = list(self._pooled(v, attended, mask, lengths).chunk(2))
        else:
            sides = [slice(0, pairs), slice(pairs, None)]
            widths = [max(lengths[side]) for side in sides]
            vectors, masks = ([x[side, :w] for side, w in zip(sides, widths, strict=True)] for x in (v, mask))
            attended_sides = self.attention(*vectors, *masks)
            pooled = [
                self._pooled(*tensors, lengths[side])
                for side, tensors in zip(sides, zip(vectors, attended_sides, masks, strict=True), strict=True)
            ]
        logits: Tensor = self.output(self.pooled_dropout(torch.cat(pooled, dim=1)))
        return logits

    def _pooled(self, v: Tensor, attended: Tensor, mask: Tensor, lengths: tuple[int, ...]) -> Tensor:
        """(B, 4 hidden), from v and v~."""
        compared = torch.cat([v, attended, v - attended, v * attended], dim=2)
        z = self.composition(self.projection(self.attended_dropout(compared)), lengths)
        return torch.cat([masked_mean(z, mask), masked_max(z, mask)], dim=1)


class EntailmentModel(TaskModel[PairedTokens, PredictedLabel]):
    """One label for two sentences."""

    def __init__(self, options: EntailmentOptions, labels: Sequence[str], embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.labels = tuple(labels)
        self.esim = Esim(
            embedder.input_dim,
            len(labels),
            extra_dim=embedder.output_dim,
            hidden=options.hidden,
            dropout=EsimDropout(options.dropout, options.attended_dropout, options.dropout),
        )

    def loss(self, batch: Batch[PairedTokens]) -> Tensor:
        gold = [example.label for example in batch.examples]
        return label_loss(self._logits(batch), gold, self.labels) + self.embedder.penalty()

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[PairedTokens]]) -> list[PredictedLabel]:
        logits = [model._logits(batch) for model, batch in zip(members, batches, strict=True)]
        return most_probable(mean_of_probabilities(logits), members[0].labels)

    def _logits(self, batch: Batch[PairedTokens]) -> Tensor:  # (B, K)
        (pairs,) = batch.inputs
        vectors = self.embedder(pairs)
        logits: Tensor = self.esim(EncoderInputs(vectors.input, pairs.mask, pairs.lengths, vectors.output))
        return logits.float()


def read(
    paths: Sequence[str | Path],
    options: EntailmentOptions,
    *,
    to_train: bool,  # noqa: ARG001
) -> Dataset[PairedTokens]:
    """All pairs of some files on which the annotators agreed."""
    tokenizer = raw_text_tokenizer(options)
    columns = PairColumns(options.premise_column, options.hypothesis_column, options.label_column)
    examples, left_out = [], 0
    for path in paths:
        for pair in read_sentence_pairs(path, columns):
            if pair.label in NO_CONSENSUS:
                left_out += 1
                continue
            location = f"{display_name(path)}, line {pair.line}"
            premise, hypothesis = (_tokens(text, tokenizer, location) for text in (pair.premise, pair.hypothesis))
            examples.append(PairedTokens(premise, hypothesis, pair.label, location))
    notice = f"{pluralize(left_out, 'pair')} with the label - left out: the annotators did not agree"
    return Dataset(examples, (notice,) if left_out else ())


def _tokens(text: str, tokenizer: StyledTokenizer, location: str) -> list[str]:
    tokens = tokenizer.tokens(text).tokens
    if not tokens:
        raise InputError(f"{location}: {text[:60]!r} has no words")
    return tokens


def from_text(text: str, tokenizer: StyledTokenizer) -> list[PairedTokens]:
    premise, hypothesis = parse_pair(text)
    return [PairedTokens(_tokens(premise, tokenizer, "the premise"), _tokens(hypothesis, tokenizer, "the hypothesis"))]


def result(
    text: str,
    examples: Sequence[PairedTokens],  # noqa: ARG001
    predictions: Sequence[PredictedLabel],
    known: Labels,
) -> JudgedPair:
    [prediction] = predictions
    probabilities = dict(zip(known["labels"], prediction.probabilities, strict=True))
    return JudgedPair(*parse_pair(text), prediction.label, probabilities)


ENTAILMENT: Task[PairedTokens, PredictedLabel] = Task(
    name="entailment",
    summary="whether a sentence follows from another, contradicts it, or neither",
    recipe=EntailmentRecipe,
    read=read,
    sentences=lambda pair: (pair.premise, pair.hypothesis),
    reads_as_one=True,
    build=lambda options, known, embedder: EntailmentModel(options, known["labels"], embedder),
    parse=from_text,
    result=result,
    **LABEL_FIELDS,
)
