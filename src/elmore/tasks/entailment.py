"""Entailment: whether a hypothesis follows from a premise, contradicts it, or neither, as SNLI and MultiNLI have it.

The model is ESIM (Chen et al., 2017), as Peters et al., 2018, A.3, have it: ELMo enters beside the word vectors and at
the output of the first biLSTM. Scored by accuracy; pairs on which the annotators did not agree are left out.

B pairs, K classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import torch
from torch import Tensor

from elmore.display import pluralize
from elmore.errors import InputError
from elmore.fields import checked_field
from elmore.files.text_files import display_name
from elmore.nn.devices import send
from elmore.tasks.classification import task as classification
from elmore.tasks.classification.task import PredictedLabel, most_probable
from elmore.tasks.core.config import TaskOptions, TaskRecipe
from elmore.tasks.core.results import tab_separated
from elmore.tasks.core.task import Batch, Dataset, Labels, Task, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.tokenizer import StyledTokenizer
from elmore.tasks.modules.encoder_inputs import EncoderInputs
from elmore.tasks.modules.ensembling import mean_of_probabilities
from elmore.tasks.modules.esim import Esim, EsimDropout
from elmore.tasks.readers.sentence_pairs import NO_CONSENSUS, PairColumns, parse_pair, read_sentence_pairs


@dataclass(frozen=True, kw_only=True)
class EntailmentOptions(TaskOptions):
    """[task] of entailment."""

    hidden: int = checked_field(300, at_least=1)
    dropout: float = checked_field(0.5, at_least=0, at_most=0.95)  # on the inputs of both biLSTMs, and in the output
    attended_dropout: float = checked_field(0.0, at_least=0, at_most=0.95)  # behind the attention
    premise_column: int | str | None = None  # by name or number; found out where it is left out
    hypothesis_column: int | str | None = None
    label_column: int | str | None = None


@dataclass(frozen=True, kw_only=True)
class EntailmentRecipe(TaskRecipe):
    """How entailment is learnt."""

    task: EntailmentOptions = EntailmentOptions()


class PairedTokens(NamedTuple):
    """Two sentences as tokens, and the label of the pair."""

    premise: Sequence[str]
    hypothesis: Sequence[str]
    label: str = ""
    place: str = ""  # file and line, for complaints


@dataclass(frozen=True)
class JudgedPair:
    """Two sentences, the label of the pair, and how probable each label is."""

    premise: str
    hypothesis: str
    label: str
    probabilities: dict[str, float]

    def __str__(self) -> str:
        probability = self.probabilities[self.label]
        return tab_separated(self.label, f"{probability:.3f}", self.premise, self.hypothesis)


class EntailmentModel(TaskModel[PairedTokens, PredictedLabel]):
    """One label for two sentences."""

    def __init__(self, options: EntailmentOptions, labels: Sequence[str], embedder: TokenEmbedder) -> None:
        super().__init__()
        self.embedder = embedder
        self.labels = tuple(labels)
        self._numbers = {label: number for number, label in enumerate(labels)}
        self.esim = Esim(
            embedder.input_dim,
            len(labels),
            extra_dim=embedder.output_dim,
            hidden=options.hidden,
            dropout=EsimDropout(options.dropout, options.attended_dropout, options.dropout),
        )

    def loss(self, batch: Batch[PairedTokens]) -> Tensor:
        logits = self._logits(batch)
        gold = send(torch.tensor([self._numbers[example.label] for example in batch.examples]), logits.device)
        return torch.nn.functional.cross_entropy(logits, gold) + self.embedder.penalty()

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[PairedTokens]]) -> list[PredictedLabel]:
        logits = [one._logits(batch) for one, batch in zip(members, batches, strict=True)]
        return most_probable(mean_of_probabilities(logits), members[0].labels)

    def _logits(self, batch: Batch[PairedTokens]) -> Tensor:  # (B, K)
        (pairs,) = batch.inputs
        vectors = self.embedder(pairs)
        logits: Tensor = self.esim(EncoderInputs(vectors.input, pairs.mask, pairs.lengths, vectors.output))
        return logits.float()


def read(paths: Sequence[str | Path], options: EntailmentOptions, *, to_train: bool) -> Dataset[PairedTokens]:  # noqa: ARG001
    """All pairs of some files on which the annotators agreed."""
    tokenizer = StyledTokenizer("moses" if options.token_style == "auto" else options.token_style)
    columns = PairColumns(options.premise_column, options.hypothesis_column, options.label_column)
    examples, left_out = [], 0
    for path in paths:
        for pair in read_sentence_pairs(path, columns):
            if pair.label in NO_CONSENSUS:
                left_out += 1
                continue
            place = f"{display_name(path)}, line {pair.line}"
            premise, hypothesis = (_tokens(text, tokenizer, place) for text in (pair.premise, pair.hypothesis))
            examples.append(PairedTokens(premise, hypothesis, pair.label, place))
    what = f"{pluralize(left_out, 'pair')} left out whose label is -: the annotators did not agree on one"
    return Dataset(examples, (what,) if left_out else ())


def _tokens(text: str, tokenizer: StyledTokenizer, place: str) -> list[str]:
    tokens = tokenizer.tokens(text).tokens
    if not tokens:
        raise InputError(f"{place}: there are no words in {text[:60]!r}")
    return tokens


def build(options: EntailmentOptions, known: Labels, embedder: TokenEmbedder) -> EntailmentModel:
    return EntailmentModel(options, known["labels"], embedder)


def parse(text: str, tokenizer: StyledTokenizer) -> list[PairedTokens]:
    premise, hypothesis = parse_pair(text)
    return [PairedTokens(_tokens(premise, tokenizer, "the premise"), _tokens(hypothesis, tokenizer, "the hypothesis"))]


def result(
    text: str,
    examples: Sequence[PairedTokens],  # noqa: ARG001
    predictions: Sequence[PredictedLabel],
    known: Labels,
) -> JudgedPair:
    [prediction] = predictions
    shares = dict(zip(known["labels"], prediction.probabilities, strict=True))
    return JudgedPair(*parse_pair(text), prediction.label, shares)


ENTAILMENT: Task[PairedTokens, PredictedLabel] = Task(
    name="entailment",
    summary="whether a sentence follows from another, contradicts it, or neither",
    recipe=EntailmentRecipe,
    read=read,
    sentences=lambda pair: (pair.premise, pair.hypothesis),
    reads_as_one=True,
    labels=classification.labels,
    label_types=classification.LABEL_TYPES,
    check=classification.check,
    build=build,
    score=classification.score,
    counts=classification.counts,
    parse=parse,
    result=result,
)
