"""Examples become batches on a device, and batches predictions: what training, scoring and predicting share."""

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

PREDICTION_BATCH_TOKENS = 4096  # when predicting
PLACES_TOGETHER = 2**14  # for tokens and padding, that the sentences of a document are laid out in


@dataclass(frozen=True)
class Collator(Generic[E]):
    """Numbers tokens, and brings the layers of a frozen biLM along."""

    task: Task[E, Any]
    vocabulary: TokenVocabulary
    device: torch.device
    layers: LayerSource | None = None  # of a frozen biLM
    joint: JointElmo | None = None  # a biLM that is trained with the task, and part of the model

    def batch(self, examples: Sequence[E]) -> Batch[E]:
        """These examples, on the device."""
        columns: Iterable[Sequence[Sequence[str]]]
        if self.task.reads_documents:
            (document,) = examples
            columns = _laid_out_together(self.task.sentences(document))
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

    def is_to_read(self, examples: Sequence[E]) -> bool:
        """Whether a frozen biLM has to read any of these, or their layers are all in a cache."""
        sentences = token_sequences(self.task, examples)
        return self.layers is not None and not (isinstance(self.layers, LayerCache) and self.layers.holds(sentences))

    def fill_cache(self, examples: Sequence[E], stop_requested: Callable[[], bool] = lambda: False) -> bool:
        """Have the layers of all these in the cache, if there is one; False if it was stopped: what it read is kept."""
        if not isinstance(self.layers, LayerCache):
            return True
        sentences = token_sequences(self.task, examples)
        with progress_bar("reading with ELMo", total=len(sentences)) as progress:
            for part in self.layers.add_in_parts(sentences):
                progress.advance(*part)
                if stop_requested():
                    return False
        return True

    def predict(
        self, model: TaskModule[E, P], examples: Sequence[E], *, precision: Literal["float32", "bfloat16"] = "float32"
    ) -> list[P]:
        """The model's predictions, in the order of the examples, whatever is batched with what."""
        return predict_together([(self, model)], examples, precision=precision)

    def groups(self, examples: Sequence[E]) -> Iterator[list[int]]:
        """The numbers of examples of like length, which make a batch with little padding; documents one by one."""
        if self.task.reads_documents:
            return ([number] for number in range(len(examples)))
        lengths = (max((len(tokens) for tokens in self.task.sentences(example)), default=0) + 1 for example in examples)
        return iter(bucket_by_length(lengths, tokens=PREDICTION_BATCH_TOKENS))

    def autocast(self, precision: Literal["float32", "bfloat16"]) -> AbstractContextManager[object]:
        """Mixed precision, which a GPU gains by."""
        if precision == "float32" or self.device.type != "cuda":
            return nullcontext()
        return torch.autocast("cuda", torch.bfloat16)


def predict_together(
    members: Sequence[tuple[Collator[E], TaskModule[E, P]]],
    examples: Sequence[E],
    *,
    precision: Literal["float32", "bfloat16"] = "float32",
) -> list[P]:
    """What one or several models of a task say of examples, in their order; each makes its own batches of them."""
    first, models = members[0][0], [model.eval() for _, model in members]
    allow_forked_process(first.device)
    # Models with one biLM read with it together.
    sources = {id(maker.layers): maker.layers for maker, _ in members if maker.layers is not None}
    recent = {number: RecentLayers(source, tokens=PREDICTION_BATCH_TOKENS) for number, source in sources.items()}
    makers = [replace(maker, layers=recent.get(id(maker.layers))) for maker, _ in members]
    predictions: list[P | None] = [None] * len(examples)
    with torch.inference_mode(), first.autocast(precision):
        for numbers in first.groups(examples):
            some = [examples[number] for number in numbers]
            found = models[0].predict_together(models, [maker.batch(some) for maker in makers])
            for number, prediction in zip(numbers, found, strict=True):
                predictions[number] = prediction
    return predictions  # type: ignore[return-value]  # each has its own by now


def _laid_out_together(sentences: Sequence[Sequence[str]]) -> list[list[Sequence[str]]]:
    """The sentences of a document, in their order: all together, unless one is so much longer than the others.

    They are padded to its length: one of thousands of tokens among hundreds would fill as much memory as hundreds.
    """
    groups: list[list[Sequence[str]]] = [[]]
    longest = 0
    for sentence in sentences:
        longest = max(longest, len(sentence))
        if groups[-1] and (len(groups[-1]) + 1) * longest > PLACES_TOGETHER:
            groups.append([])
            longest = len(sentence)
        groups[-1].append(sentence)
    return groups


def _layers_once(source: LayerSource, sentences: Sequence[Sequence[str]]) -> list[NDArray[np.floating]]:
    """The layers of each sentence; one that comes again, as a paragraph with several questions, is read once."""
    numbers: dict[tuple[str, ...], int] = {}
    places = [numbers.setdefault(tuple(sentence), len(numbers)) for sentence in sentences]
    found = source.layers(list(numbers))
    return [found[place] for place in places]


BATCHES_SORTED_TOGETHER = 20  # so many batches' worth of examples are sorted by length, which saves padding


class BucketBatchSampler:
    """The batches of every epoch, as numbers of examples.

    >>> batches = BucketBatchSampler([3, 1, 2, 5, 4], batch_size=2, seed=1)
    >>> sorted(number for batch in batches.epoch(0) for number in batch)
    [0, 1, 2, 3, 4]
    """

    def __init__(self, lengths: Sequence[int], *, batch_size: int, seed: int) -> None:
        self._lengths = np.array(lengths)
        self._size, self._seed = batch_size, seed
        self.per_epoch = -(-len(lengths) // batch_size)
        self.epoch = lru_cache(maxsize=2)(self._epoch)

    def batch(self, number: int) -> list[int]:
        """Batch `number` of the whole training, from 0."""
        epoch, place = divmod(number, self.per_epoch)
        return self.epoch(epoch)[place]

    def _epoch(self, number: int) -> list[list[int]]:
        draw = np.random.default_rng([self._seed, number])
        shuffled = draw.permutation(len(self._lengths))
        batches = []
        for start in range(0, len(shuffled), self._size * BATCHES_SORTED_TOGETHER):
            group = shuffled[start : start + self._size * BATCHES_SORTED_TOGETHER]
            alike = group[np.argsort(self._lengths[group], kind="stable")]
            batches += [alike[first : first + self._size].tolist() for first in range(0, len(alike), self._size)]
        # The last batch of the last group may be smaller; it comes at any time, as all do.
        return [batches[place] for place in draw.permutation(len(batches))]
