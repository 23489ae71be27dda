"""Words in context: whether two uses of a word have the same sense.

Two methods (`[task] method`):

threshold    The uses have the same sense if the cosine of their vectors reaches a threshold. The threshold, and the
             layer if `elmo.layers` is "all", are those with the best score on the dev set; training pairs are not used.
classifier   A feed-forward network over [u; v; |u - v|; u * v], trained by gradients.

A use is the token that contains the word's characters, or the mean of several tokens. Scored by accuracy. A file of
SCWS, whose pairs have ratings instead of labels, can also be evaluated: by Spearman's rank correlation of the ratings
with the cosines, or with the classifier's probabilities.

B pairs, D size of a vector.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from elmore.errors import InputError
from elmore.fields import checked_field
from elmore.files.text_files import display_name, read_lines
from elmore.nn.devices import send
from elmore.tasks.core.config import TaskOptions, TaskRecipe
from elmore.tasks.core.results import tab_separated
from elmore.tasks.core.task import Batch, Dataset, Fit, FittedModel, Labels, Task, TaskModel
from elmore.tasks.inputs.embedder import TokenEmbedder
from elmore.tasks.inputs.tokenizer import StyledTokenizer, raw_text_tokenizer
from elmore.tasks.metrics.metric import Metric, Score
from elmore.tasks.metrics.scores import Accuracy, Spearman
from elmore.tasks.modules.ensembling import mean_scores
from elmore.tasks.modules.feed_forward import FeedForward
from elmore.tasks.senses.target_words import (
    TokenSpan,
    candidate_layers,
    check_input_only,
    cosines,
    covering_tokens,
    freeze,
    select_layer,
    span_means,
)
from elmore.tasks.senses.wic_reader import RatedPair, WicPair, WordInContext, parse_uses, read_scws, read_wic


@dataclass(frozen=True, kw_only=True)
class WicOptions(TaskOptions):
    """[task] of words in context."""

    method: Literal["threshold", "classifier"] = "threshold"
    hidden: tuple[int, ...] = checked_field((200,), at_least=1)  # layers of the classifier
    dropout: float = checked_field(0.5, at_least=0, at_most=0.95)  # after each of them


@dataclass(frozen=True, kw_only=True)
class WicRecipe(TaskRecipe):
    """Recipe of words in context."""

    task: WicOptions = WicOptions()


class TokenUse(NamedTuple):
    """A word among the tokens of a sentence."""

    tokens: Sequence[str]
    start: int
    end: int  # the token after the last
    characters: tuple[int, int]  # of the text, from the start of the first token to the end of the last


class UsePair(NamedTuple):
    """Two uses, and whether they have the same sense, or how similar people rate them."""

    first: TokenUse
    second: TokenUse
    label: bool | None = None
    rating: float | None = None  # from 0 to 10
    location: str = ""  # file and line, for messages


class PredictedPair(NamedTuple):
    """The prediction for two uses."""

    is_same: bool
    similarity: float  # a cosine, or a probability


@dataclass(frozen=True)
class Use:
    """A word in a text."""

    text: str
    word: str
    start: int  # characters of the text
    end: int


@dataclass(frozen=True)
class ComparedUses:
    """Two uses, and whether they have the same sense."""

    first: Use
    second: Use
    is_same: bool
    similarity: float  # a cosine, or a probability

    def __str__(self) -> str:
        texts = (f"{u.text[: u.start]}[{u.word}]{u.text[u.end :]}" for u in (self.first, self.second))
        return tab_separated(LABELS[self.is_same], f"{self.similarity:.3f}", *texts)


LABELS = {True: "same", False: "different"}


class CosineThreshold(FittedModel[UsePair, PredictedPair]):
    """Predicts the same sense if the cosine of two vectors reaches a threshold."""

    def __init__(self, embedder: TokenEmbedder) -> None:
        super().__init__()
        freeze(embedder)
        self.embedder = embedder
        self.threshold: Tensor
        self.register_buffer("threshold", torch.zeros(()))

    def fit(
        self,
        train: Iterable[Batch[UsePair]],  # noqa: ARG002  # the method uses the dev set only
        dev: Iterable[Batch[UsePair]],
        score: Callable[[Sequence[UsePair], Sequence[PredictedPair]], Score],
    ) -> Generator[None, None, Fit]:
        """Find the best threshold of every layer, and select the best layer."""
        candidates = candidate_layers(self.embedder)
        pairs: list[UsePair] = []
        similarities: dict[str, list[float]] = {name: [] for name in candidates}
        for batch in dev:
            pairs += batch.examples
            if unlabeled := [pair.location for pair in batch.examples if pair.label is None]:
                raise InputError(f"{unlabeled[0]}: has no label; the dev set needs labels to choose a threshold")
            for name, layer in candidates.items():
                select_layer(self.embedder, layer)
                similarities[name] += self._cosines(batch)
            yield
        gold = [bool(pair.label) for pair in pairs]
        # Rounded to float32, as it is saved.
        thresholds = {name: torch.tensor(best_threshold(values, gold)).item() for name, values in similarities.items()}
        scores = {
            name: score(pairs, [PredictedPair(cosine >= thresholds[name], cosine) for cosine in values])
            for name, values in similarities.items()
        }
        chosen = max(scores, key=lambda name: scores[name].value)
        select_layer(self.embedder, candidates[chosen])
        self.threshold.fill_(thresholds[chosen])
        return Fit(scores, chosen)

    def predict(self, batch: Batch[UsePair]) -> list[PredictedPair]:
        threshold = self.threshold.item()
        return [PredictedPair(cosine >= threshold, cosine) for cosine in self._cosines(batch)]

    def _cosines(self, batch: Batch[UsePair]) -> list[float]:
        values: list[float] = cosines(*use_vectors(self.embedder, batch)).tolist()
        return values


class PairClassifier(TaskModel[UsePair, PredictedPair]):
    """A feed-forward network over two uses."""

    def __init__(self, options: WicOptions, embedder: TokenEmbedder) -> None:
        super().__init__()
        check_input_only(embedder)
        self.embedder = embedder
        self.network = FeedForward(4 * embedder.input_dim, options.hidden, dropout=options.dropout, output_dim=1)

    def loss(self, batch: Batch[UsePair]) -> Tensor:
        logits = self._logits(batch)
        gold = send(torch.tensor([float(pair.label or 0) for pair in batch.examples]), logits.device)
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, gold) + self.embedder.penalty()

    @classmethod
    def predict_together(cls, members: Sequence[Self], batches: Sequence[Batch[UsePair]]) -> list[PredictedPair]:
        member_probabilities = [model._logits(batch).sigmoid() for model, batch in zip(members, batches, strict=True)]
        probabilities = mean_scores(member_probabilities).tolist()
        return [PredictedPair(probability >= 0.5, probability) for probability in probabilities]

    def _logits(self, batch: Batch[UsePair]) -> Tensor:  # (B,)
        u, v = use_vectors(self.embedder, batch)
        logits: Tensor = self.network(torch.cat([u, v, (u - v).abs(), u * v], dim=1)).squeeze(1).float()
        return logits


def use_vectors(embedder: TokenEmbedder, batch: Batch[UsePair]) -> tuple[Tensor, Tensor]:
    """(B, D) twice: the vectors of the first and of the second uses."""
    first, second = (
        span_means(embedder(inputs).input, [TokenSpan(row, use.start, use.end) for row, use in enumerate(uses)])
        for inputs, uses in zip(batch.inputs, zip(*(pair[:2] for pair in batch.examples), strict=True), strict=True)
    )
    return first, second


def best_threshold(similarities: Sequence[float], labels: Sequence[bool]) -> float:
    """The threshold with the best accuracy, halfway between two similarities; ties go to the lowest.

    >>> best_threshold([0.1, 0.4, 0.6, 0.9], [False, False, True, True])
    0.5
    """
    values, indices = np.unique(np.asarray(similarities, np.float64), return_inverse=True)
    is_same = np.asarray(labels, bool)
    same = np.bincount(indices[is_same], minlength=len(values))
    different = np.bincount(indices[~is_same], minlength=len(values))
    # For each position of the threshold (below the first value, between two, above the last): correct pairs.
    correct = np.concatenate([[0], np.cumsum(different)]) + same.sum() - np.concatenate([[0], np.cumsum(same)])
    between = np.concatenate([[values[0] - 1], (values[1:] + values[:-1]) / 2, [values[-1] + 1]])
    return float(between[correct.argmax()])


def read(paths: Sequence[str | Path], options: WicOptions, *, to_train: bool) -> Dataset[UsePair]:
    """Pairs of JSON lines, with labels; for evaluation also pairs of SCWS, with ratings."""
    tokenizer = raw_text_tokenizer(options)
    pairs: list[UsePair] = []
    for path in paths:
        name = display_name(path)
        first_line = next((line for line in read_lines(path) if line.strip()), "")
        has_ratings = "\t" in first_line and not first_line.lstrip().startswith("{")
        if has_ratings and to_train:
            raise InputError(f"{name}: has ratings, which can only be used for evaluation; training needs labels")
        for pair in read_scws(path) if has_ratings else read_wic(path):
            location = f"{name}, line {pair.line}"
            first, second = (token_use(use, tokenizer, location) for use in (pair.first, pair.second))
            rating = pair.rating if isinstance(pair, RatedPair) else None
            label = pair.label if isinstance(pair, WicPair) else None
            pairs.append(UsePair(first, second, label, rating, location))
    return Dataset(pairs)


def token_use(use: WordInContext, tokenizer: StyledTokenizer, location: str) -> TokenUse:
    """A use among the tokens of its text, which is one sentence."""
    sentence = tokenizer.tokens(use.text)
    span = covering_tokens(sentence.offsets, use.start, use.end)
    if span is None:
        raise InputError(f"{location}: the characters {use.start} to {use.end} of {use.text[:60]!r} contain no word")
    return TokenUse(sentence.tokens, *span, (sentence.offsets[span[0]][0], sentence.offsets[span[1] - 1][1]))


def build(options: WicOptions, known: Labels, embedder: TokenEmbedder) -> CosineThreshold | PairClassifier:  # noqa: ARG001
    return CosineThreshold(embedder) if options.method == "threshold" else PairClassifier(options, embedder)


class PairAccuracy(Accuracy[UsePair, PredictedPair]):
    """Accuracy of labels. Pairs with ratings instead of labels have the rank correlation."""

    alternatives = (Spearman[UsePair, PredictedPair](lambda pair: pair.rating or 0.0, lambda found: found.similarity),)

    def of(self, examples: Sequence[UsePair]) -> Metric[UsePair, PredictedPair]:
        rated = sum(pair.rating is not None for pair in examples)
        if 0 < rated < len(examples):
            raise InputError("some of these pairs have labels and others ratings; evaluate them separately")
        return self.alternatives[0] if rated else self


def from_text(text: str, tokenizer: StyledTokenizer) -> list[UsePair]:
    first, second = parse_uses(text)
    return [UsePair(token_use(first, tokenizer, "the first text"), token_use(second, tokenizer, "the second text"))]


def result(
    text: str,
    examples: Sequence[UsePair],
    predictions: Sequence[PredictedPair],
    known: Labels,  # noqa: ARG001
) -> ComparedUses:
    [pair], [prediction] = examples, predictions
    first, second = (
        Use(word.text, word.text[slice(*use.characters)], *use.characters)
        for word, use in zip(parse_uses(text), (pair.first, pair.second), strict=True)
    )
    return ComparedUses(first, second, prediction.is_same, prediction.similarity)


WIC: Task[UsePair, PredictedPair] = Task(
    name="wic",
    summary="whether two uses of a word have the same sense",
    recipe=WicRecipe,
    read=read,
    sentences=lambda pair: (pair.first.tokens, pair.second.tokens),
    labels=lambda examples, options: {"labels": list(LABELS.values())},  # noqa: ARG005
    check=lambda examples, known: None,  # noqa: ARG005  # the reader accepts only both labels
    build=build,
    metric=PairAccuracy(lambda pair: [LABELS[bool(pair.label)]], lambda prediction: [LABELS[prediction.is_same]]),
    parse=from_text,
    result=result,
)
