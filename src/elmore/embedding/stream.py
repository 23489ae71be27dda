"""Sentences in, vectors out, in the caller's order, for streams of any length in bounded memory.

Two ways of reading. From the fixed state, sentences of like length are batched together, and the order of work is
free. With the state carried on, batches are rows in the caller's order, and each row goes on where the batch before
left it, as in AllenNLP and bilm-tf.

Every sentence brings something of its owner's along, which comes back beside its vectors.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
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


class SentenceItem(NamedTuple, Generic[T]):
    """A sentence to be read, and whatever is to come back with its vectors."""

    words: Words
    payload: T


class EncodedItem(NamedTuple, Generic[T]):
    """The vectors of a sentence, and what came with it."""

    payload: T
    vectors: Tensor  # (words, dim) or (layers, words, dim), of its own memory, but for tensors that stay on a GPU


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
        self, items: Iterable[SentenceItem[T]], *, batch_tokens: int, batch_size: int | None
    ) -> Iterator[list[EncodedItem[T]]]:
        """Read every sentence from the model's start state."""
        for chunk in _chunks(items, batch_tokens=batch_tokens):
            # Nothing of one list is held on to while the next is made.
            yield self._read_by_length(chunk, batch_tokens=batch_tokens, batch_size=batch_size)

    def _read_by_length(
        self, chunk: Sequence[SentenceItem[T]], *, batch_tokens: int, batch_size: int | None
    ) -> list[EncodedItem[T]]:
        vectors: list[Tensor | None] = [None] * len(chunk)
        for numbers in bucket_by_length((len(item.words) + 2 for item in chunk), tokens=batch_tokens, rows=batch_size):
            start = self.model.start.repeat(len(numbers))
            batch, _ = self._read([chunk[number].words for number in numbers], start)
            for number, own in zip(numbers, batch, strict=True):
                vectors[number] = own
        return [EncodedItem(item.payload, own) for item, own in zip(chunk, vectors, strict=True) if own is not None]

    def encode_carrying_state(
        self, items: Iterable[SentenceItem[T]], *, batch_size: int
    ) -> Iterator[list[EncodedItem[T]]]:
        """Read batches of `batch_size` sentences as they come; row r starts where row r of the batch before ended."""
        state = self.model.start.first(0)
        for rows in _groups(items, batch_size):
            vectors, after = self._read([item.words for item in rows], state.first(len(rows)))
            state = state.updated(after)
            yield [EncodedItem(item.payload, own) for item, own in zip(rows, vectors, strict=True)]

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
        half = half_of(sentences)
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


def taken_from(items: list[T]) -> Iterator[T]:
    """The items of a list in their order, each taken out of it: what was read is let go before more is read.

    >>> items = ["a", "b"]
    >>> [(item, len(items)) for item in taken_from(items)]
    [('a', 1), ('b', 0)]
    """
    items.reverse()
    while items:
        yield items.pop()


def _chunks(items: Iterable[SentenceItem[T]], *, batch_tokens: int) -> Iterator[list[SentenceItem[T]]]:
    """What is batched together: a batch's worth at first, so that the first vectors come soon, and soon more."""
    chunk: list[SentenceItem[T]] = []
    tokens, batches = 0, 1
    for item in items:
        chunk.append(item)
        tokens += len(item.words) + 2
        if tokens >= batch_tokens * batches:
            yield chunk
            chunk, tokens, batches = [], 0, min(4 * batches, BATCHES_AHEAD)
    if chunk:
        yield chunk


def _groups(items: Iterable[SentenceItem[T]], size: int) -> Iterator[list[SentenceItem[T]]]:
    group: list[SentenceItem[T]] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def half_of(sentences: Sequence[Words]) -> int:
    """How many sentences to try instead of these, which did not fit into memory; an error if it was one."""
    if len(sentences) == 1:
        raise OutOfMemory(
            f"one sentence of {len(sentences[0])} words does not fit into memory; cut it, or use a smaller model"
        )
    warnings.warn(
        f"a batch of {len(sentences)} sentences did not fit into memory; trying it in halves "
        "(a smaller batch_tokens avoids this)",
        InputWarning,
        stacklevel=3,
    )
    return len(sentences) // 2


def is_out_of_memory(error: Exception) -> bool:
    """Whether there was too little memory for something, which may be tried again in halves."""
    # On the CPU torch raises a plain RuntimeError, told apart only by its text.
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
