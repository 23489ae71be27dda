"""Collate examples into batches on a device, and predict with them. Training, evaluation and prediction use this."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Generic, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.engine.rows import bucket_by_length
from elmore.nn.devices import allow_forked_process
from elmore.progress import progress_bar
from elmore.tasks.core.task import Batch, Task, TaskModule, token_sequences
from elmore.tasks.inputs.bilm import JointElmo
from elmore.tasks.inputs.layer_cache import LayerCache, LayerSource, RecentLayers
from elmore.tasks.inputs.token_batch import TokenInputs
from elmore.tasks.inputs.vocabulary import TokenVocabulary

E = TypeVar("E")
P = TypeVar("P")

PREDICTION_BATCH_TOKENS = 4096
MAX_PADDED_TOKENS = 2**14  # in one padded group of the sentences of a document


@dataclass(frozen=True)
class Collator(Generic[E]):
    """Collates examples: numbers of words and characters, and the layers of a frozen biLM."""

    task: Task[E, Any]
    vocabulary: TokenVocabulary
    device: torch.device
    layers: LayerSource | None = None  # of a frozen biLM
    joint: JointElmo | None = None  # a biLM that is trained with the task; a part of the model

    def batch(self, examples: Sequence[E]) -> Batch[E]:
        """The batch of these examples, on the device."""
        columns: Iterable[Sequence[Sequence[str]]]
        if self.task.reads_documents:
            (document,) = examples
            columns = _padding_groups(self.task.sentences(document))
        else:
            columns = zip(*(self.task.sentences(example) for example in examples), strict=True)
        if self.task.reads_as_one:
            columns = [list(chain.from_iterable(columns))]
        inputs = []
        for sentences in columns:
            layers = None if self.layers is None else _layers_once(self.layers, sentences)
            pinned = self.device.type == "cuda"
            inputs.append(TokenInputs.of(sentences, self.vocabulary, layers, pinned=pinned).to(self.device))
        return Batch(examples, tuple(inputs))

    def requires_encoding(self, examples: Sequence[E]) -> bool:
        """Whether a frozen biLM has to encode any of these examples, because their layers are not all cached."""
        sentences = token_sequences(self.task, examples)
        return self.layers is not None and not (isinstance(self.layers, LayerCache) and self.layers.contains(sentences))

    def fill_cache(self, examples: Sequence[E], stop_requested: Callable[[], bool] = lambda: False) -> bool:
        """Add the layers of these examples to the cache, if any. Returns False if stopped; finished parts are saved."""
        if not isinstance(self.layers, LayerCache):
            return True
        sentences = token_sequences(self.task, examples)
        with progress_bar("encoding with ELMo", total=len(sentences)) as progress:
            for part in self.layers.add_in_parts(sentences):
                progress.advance(*part)
                if stop_requested():
                    return False
        return True

    def predict(
        self, model: TaskModule[E, P], examples: Sequence[E], *, precision: Literal["float32", "bfloat16"] = "float32"
    ) -> list[P]:
        """The model's predictions, in the order of the examples."""
        return predict_together([(self, model)], examples, precision=precision)

    def groups(self, examples: Sequence[E]) -> Iterator[list[int]]:
        """Batches of example indexes. A batch has examples of similar length, or a single document."""
        if self.task.reads_documents:
            return ([index] for index in range(len(examples)))
        lengths = (max((len(tokens) for tokens in self.task.sentences(example)), default=0) + 1 for example in examples)
        return iter(bucket_by_length(lengths, tokens=PREDICTION_BATCH_TOKENS))

    def autocast(self, precision: Literal["float32", "bfloat16"]) -> AbstractContextManager[object]:
        """A context for mixed precision, on a GPU only."""
        if precision == "float32" or self.device.type != "cuda":
            return nullcontext()
        return torch.autocast("cuda", torch.bfloat16)


def predict_together(
    members: Sequence[tuple[Collator[E], TaskModule[E, P]]],
    examples: Sequence[E],
    *,
    precision: Literal["float32", "bfloat16"] = "float32",
) -> list[P]:
    """The predictions of one model or of an ensemble, in the order of the examples. Each member makes its batches."""
    first, models = members[0][0], [model.eval() for _, model in members]
    allow_forked_process(first.device)
    # Members with the same biLM share its layers.
    sources = {id(maker.layers): maker.layers for maker, _ in members if maker.layers is not None}
    recent = {number: RecentLayers(source, tokens=PREDICTION_BATCH_TOKENS) for number, source in sources.items()}
    makers = [replace(maker, layers=recent.get(id(maker.layers))) for maker, _ in members]
    predictions: list[P | None] = [None] * len(examples)
    with torch.inference_mode(), first.autocast(precision):
        for indexes in first.groups(examples):
            group = [examples[index] for index in indexes]
            results = models[0].predict_together(models, [maker.batch(group) for maker in makers])
            for index, prediction in zip(indexes, results, strict=True):
                predictions[index] = prediction
    return predictions  # type: ignore[return-value]  # the groups contain all examples


def _padding_groups(sentences: Sequence[Sequence[str]]) -> list[list[Sequence[str]]]:
    """The sentences of a document in their order, in groups of at most `MAX_PADDED_TOKENS` tokens with padding.

    Sentences of a group are padded to the longest. Usually all sentences are one group; one very long sentence among
    hundreds of short ones would use too much memory.
    """
    groups: list[list[Sequence[str]]] = [[]]
    longest = 0
    for sentence in sentences:
        longest = max(longest, len(sentence))
        if groups[-1] and (len(groups[-1]) + 1) * longest > MAX_PADDED_TOKENS:
            groups.append([])
            longest = len(sentence)
        groups[-1].append(sentence)
    return groups


def _layers_once(source: LayerSource, sentences: Sequence[Sequence[str]]) -> list[NDArray[np.floating]]:
    """The layers of each sentence. Equal sentences, such as a paragraph with several questions, are encoded once."""
    distinct = list({tuple(sentence): None for sentence in sentences})
    layers = dict(zip(distinct, source.layers(distinct), strict=True))
    return [layers[tuple(sentence)] for sentence in sentences]


BATCHES_SORTED_TOGETHER = 20  # the examples of this many batches are sorted by length, for less padding


class BucketBatchSampler:
    """The batches of each epoch, as indexes of examples.

    >>> batches = BucketBatchSampler([3, 1, 2, 5, 4], batch_size=2, seed=1)
    >>> sorted(index for batch in batches.epoch(0) for index in batch)
    [0, 1, 2, 3, 4]
    """

    def __init__(self, lengths: Sequence[int], *, batch_size: int, seed: int) -> None:
        self._lengths = np.array(lengths)
        self._size, self._seed = batch_size, seed
        self.per_epoch = -(-len(lengths) // batch_size)
        self.epoch = lru_cache(maxsize=2)(self._epoch)

    def batch(self, number: int) -> list[int]:
        """Batch `number` of the training run, from 0."""
        epoch, index = divmod(number, self.per_epoch)
        return self.epoch(epoch)[index]

    def _epoch(self, number: int) -> list[list[int]]:
        generator = np.random.default_rng([self._seed, number])
        shuffled = generator.permutation(len(self._lengths))
        batches = []
        for start in range(0, len(shuffled), self._size * BATCHES_SORTED_TOGETHER):
            group = shuffled[start : start + self._size * BATCHES_SORTED_TOGETHER]
            ordered = group[np.argsort(self._lengths[group], kind="stable")]
            batches += [ordered[first : first + self._size].tolist() for first in range(0, len(ordered), self._size)]
        # The last batch of the last group may be smaller. All batches are shuffled.
        return [batches[index] for index in generator.permutation(len(batches))]
