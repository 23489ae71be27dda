"""Sentences in, vectors out, in the caller's order, for streams of any length in bounded memory.

Two ways of reading. From the fixed state, sentences of like length are batched together, and the order of work is
free. With the state carried on, batches are rows in the caller's order, and each row goes on where the batch before
left it, as in AllenNLP and bilm-tf.

Every sentence brings something of its owner's along, which comes back beside its vectors.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from elmore.embedding.layer_choice import LayerChoice
from elmore.embedding.word_cache import WordCache
from elmore.errors import InputWarning, OutOfMemory
from elmore.model import Model
from elmore.network.state import State
from elmore.text.batch import Batch, bucket_by_length

T = TypeVar("T")
Words = Sequence[str]

# How many batches are read ahead to find sentences of like length; bounds padding and memory alike.
BATCHES_AHEAD = 16


class SentenceGroup(NamedTuple, Generic[T]):
    """Sentences to be read, and for each whatever is to come back with its vectors.

    A list of each: a record for every sentence would take a GPU's host longer than all else it does for them.
    """

    words: Sequence[Words]
    payloads: Sequence[T]


class EncodedGroup(NamedTuple, Generic[T]):
    """What came with sentences, and their vectors."""

    payloads: list[T]
    vectors: list[Tensor]  # (words, dim) or (layers, words, dim), of its own memory, but for those that stay on a GPU


class SentenceEncoder:
    """Reads sentences with one model and takes the chosen layers of them, a list of sentences at a time.

    The lists are what was batched together: after each there is a pause, while the next is read.
    """

    def __init__(
        self, model: Model, cache: WordCache, choice: LayerChoice, *, dtype: torch.dtype, device: torch.device | str
    ) -> None:
        self.model = model
        self.cache = cache
        self.choice = choice
        self.dtype = dtype
        self.device = device  # of the vectors; the model has its own

    def encode_from_fixed_state(
        self, groups: Iterable[SentenceGroup[T]], *, batch_tokens: int, batch_size: int | None
    ) -> Iterator[EncodedGroup[T]]:
        """Read every sentence from the model's start state."""
        for chunk in _chunks(groups, batch_tokens=batch_tokens):
            # Nothing of one list is held on to while the next is made.
            yield self._read_by_length(chunk, batch_tokens=batch_tokens, batch_size=batch_size)

    def _read_by_length(self, chunk: SentenceGroup[T], *, batch_tokens: int, batch_size: int | None) -> EncodedGroup[T]:
        found: dict[int, Tensor] = {}
        for numbers in bucket_by_length(
            (len(words) + 2 for words in chunk.words), tokens=batch_tokens, rows=batch_size
        ):
            start = self.model.start.repeat(len(numbers))
            batch, _ = self._read([chunk.words[number] for number in numbers], start)
            found.update(zip(numbers, batch, strict=True))
        return EncodedGroup(list(chunk.payloads), [found[number] for number in range(len(chunk.words))])

    def encode_carrying_state(
        self, groups: Iterable[SentenceGroup[T]], *, batch_size: int
    ) -> Iterator[EncodedGroup[T]]:
        """Read batches of `batch_size` sentences as they come; row r starts where row r of the batch before ended."""
        state = self.model.start.first(0)
        items = _one_by_one(groups)
        while batch := list(islice(items, batch_size)):
            words, payloads = zip(*batch, strict=True)
            vectors, after = self._read(words, state.first(len(words)))
            state = state.updated(after)
            yield EncodedGroup(list(payloads), vectors)

    def _read(self, sentences: Sequence[Words], state: State) -> tuple[list[Tensor], State]:
        """Read one batch; where it does not fit into memory, its halves."""
        try:
            with torch.inference_mode():
                kernels = self.model.network.kernels(self.model.start.h, state)
            # The passes see to torch's threads themselves; what is done around them is small too.
            with kernels.settings():
                with torch.inference_mode():
                    batch = Batch.of_words(sentences, self.model.config).to(self.model.device)
                    vectors = self.cache.vectors(batch.words)
                    layers, after = self.model.network.read(vectors, batch, state, depth=self.choice.depth)
                    stacked = self.choice.take(layers, dtype=self.dtype, device=self.device)
                return self._apart(stacked, layers.lengths), after
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        # Past the except block, so that what the failed try held is free again.
        half = half_of([len(words) for words in sentences])
        everyone = torch.arange(len(sentences), device=state.h.device)
        first, first_state = self._read(sentences[:half], state.select(everyone[:half]))
        second, second_state = self._read(sentences[half:], state.select(everyone[half:]))
        joined = State(torch.cat([first_state.h, second_state.h], 2), torch.cat([first_state.c, second_state.c], 2))
        return first + second, joined

    def _apart(self, stacked: Tensor, lengths: Sequence[int]) -> list[Tensor]:
        """For each sentence a tensor of its own, so that one that is kept does not keep its whole batch in memory.

        Made outside of inference mode, so that it may stand in anybody's training.
        """
        rows = stacked[0] if self.choice.merged else stacked.swapaxes(0, 1)  # (B, T, dim) or (B, k, T, dim)
        return [
            row[..., :length, :].clone(memory_format=torch.contiguous_format)
            for row, length in zip(rows, lengths, strict=True)
        ]


def taken_from(group: EncodedGroup[T]) -> Iterator[tuple[T, Tensor]]:
    """What came with each sentence, and its vectors, each taken out: what was read is let go before more is read.

    >>> group = EncodedGroup(["a", "b"], [torch.zeros(1), torch.ones(1)])
    >>> [(payload, len(group.vectors)) for payload, _ in taken_from(group)]
    [('a', 1), ('b', 0)]
    """
    payloads, vectors = group
    payloads.reverse()
    vectors.reverse()
    while vectors:
        yield payloads.pop(), vectors.pop()


def _one_by_one(groups: Iterable[SentenceGroup[T]]) -> Iterator[tuple[Words, T]]:
    return chain.from_iterable(zip(*group, strict=True) for group in groups)


def _chunks(groups: Iterable[SentenceGroup[T]], *, batch_tokens: int) -> Iterator[SentenceGroup[T]]:
    """What is batched together: a batch's worth at first, so that the first vectors come soon, and soon more."""
    words: list[Words] = []
    payloads: list[T] = []
    tokens, batches = 0, 1
    for own, payload in _one_by_one(groups):
        words.append(own)
        payloads.append(payload)
        tokens += len(own) + 2
        if tokens >= batch_tokens * batches:
            yield SentenceGroup(words, payloads)
            words, payloads = [], []
            tokens, batches = 0, min(4 * batches, BATCHES_AHEAD)
    if words:
        yield SentenceGroup(words, payloads)


def half_of(lengths: Sequence[int]) -> int:
    """How many sentences to try instead of those of these lengths, which did not fit; an error if it was one."""
    if len(lengths) == 1:
        raise OutOfMemory(
            f"one sentence of {lengths[0]} words does not fit into memory; cut it, or use a smaller model"
        )
    warnings.warn(
        f"a batch of {len(lengths)} sentences did not fit into memory; trying it in halves "
        "(a smaller batch_tokens avoids this)",
        InputWarning,
        stacklevel=3,
    )
    return len(lengths) // 2


def is_out_of_memory(error: Exception) -> bool:
    """Whether there was too little memory for something, which may be tried again in halves."""
    # On the CPU torch raises a plain RuntimeError, told apart only by its text.
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
