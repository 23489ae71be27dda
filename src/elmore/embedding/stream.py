"""Sentences in, vectors out: packs of sentences run through an engine.

Vectors that leave a GPU are copied while the next pack runs, and are given out one pack later.

N sentences and K words of a pack.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.options import LayerSelection
from elmore.engine.engine import Engine, PackSize
from elmore.engine.rows import PackedRows
from elmore.engine.state import State
from elmore.engine.word_store import NumberedWords, WordStore
from elmore.errors import InputWarning, OutOfMemory

T = TypeVar("T")
Words = Sequence[str]
Indices = NDArray[np.int64]

# Sentences shorter than this many steps are never separated from others.
LONG_SENTENCE = 512
# The first pack is smaller than the others by this factor, so that the first vectors arrive early.
FIRST_PACK_FRACTION = 16
FIRST_PACK_TOKENS = 2048  # at least


class SentenceBatch(NamedTuple, Generic[T]):
    """Sentences as words, and for each the caller's object that is returned with its vectors.

    Two lists: one record for each sentence would cost more time than all other work of the host for a GPU.
    """

    words: Sequence[Words]
    payloads: Sequence[T]


class EncodedBatch(NamedTuple, Generic[T]):
    """The vectors of some sentences, in the order of the input."""

    payloads: list[T]
    vectors: Any  # (K, dim) or (layers, K, dim): a NumPy array, or a tensor of the GPU engine
    lengths: Indices  # (N,) words of each sentence

    def split(self) -> Iterator[Any]:
        """The vectors of each sentence, as views."""
        ends = np.cumsum(self.lengths).tolist()
        return (
            self.vectors[..., end - length : end, :] for end, length in zip(ends, self.lengths.tolist(), strict=True)
        )


class SentenceEncoder:
    """Runs sentences through an engine and takes the selected layers."""

    def __init__(
        self,
        engine: Engine,
        store: WordStore,
        start: State,
        selection: LayerSelection,
        *,
        dtype: type[np.floating[Any]],
        to_host: bool = True,
    ) -> None:
        self._engine = engine
        self._store = store
        self._start = start
        self._selection = selection
        self._dtype = dtype
        self._to_host = to_host  # false: vectors stay in the engine's memory
        self._tokens = 0  # of a pack; fewer after one that did not fit into memory

    def encode(
        self, batches: Iterable[SentenceBatch[T]], *, batch_tokens: int | None, batch_size: int | None
    ) -> Iterator[EncodedBatch[T]]:
        """Encode each sentence from the start state."""
        suited = self._engine.pack_size
        size = PackSize(min(batch_size or suited.rows, suited.rows), batch_tokens or suited.tokens)
        return self._one_pack_behind(self._run_packs(batches, size))

    def encode_carrying_state(
        self, batches: Iterable[SentenceBatch[T]], *, batch_size: int
    ) -> Iterator[EncodedBatch[T]]:
        """Encode batches of `batch_size` sentences; row r starts where row r of the previous batch ended."""
        state = self._start.first(0)
        sentences = chain.from_iterable(zip(*batch, strict=True) for batch in batches)
        while batch := list(islice(sentences, batch_size)):
            words, payloads = zip(*batch, strict=True)
            vectors, lengths, after = self._run_from(state, words)
            state = state.updated(after)
            yield EncodedBatch(list(payloads), vectors, lengths)
            del vectors  # or they would be in memory while the next batch runs

    def _run_from(self, state: State, words: Sequence[Words]) -> tuple[Any, Indices, State]:
        """Run one sentence in each row from the first rows of a state: vectors, lengths, and the state after them."""
        lengths = _lengths(words)
        numbered = self._store.number(list(chain.from_iterable(words)))
        rows = PackedRows.one_per_row(numbered.numbers, lengths, boundaries=numbered.boundaries)
        row_of = rows.packing.rows
        before = state.first(len(words)).select(np.argsort(row_of))
        layers, after = self._engine.run(numbered.table, rows, before, depth=self._selection.depth)
        return self._fetch(self._take(layers))(), lengths, after.select(row_of)

    def _run_packs(
        self, batches: Iterable[SentenceBatch[T]], size: PackSize
    ) -> Iterator[tuple[list[T], Indices, list["_Part"]]]:
        self._tokens = size.tokens
        for words, payloads in packs(batches, lambda: self._tokens):
            lengths = _lengths(words)
            pack = _Pack(self._store.number(list(chain.from_iterable(words))), lengths, np.arange(len(lengths)))
            parts, fitting = self._run_pack(pack, PackSize(size.rows, self._tokens))
            self._tokens = min(self._tokens, fitting)
            yield payloads, lengths, parts
            del parts  # or their vectors would be in memory while the next pack runs

    def _one_pack_behind(self, results: Iterator[tuple[list[T], Indices, list["_Part"]]]) -> Iterator[EncodedBatch[T]]:
        """Copying one pack to the host overlaps with running the next one."""
        waiting: tuple[list[T], Indices, list[_Part]] | None = None
        for result in results:
            if not (self._to_host and self._engine.is_asynchronous):
                yield self._joined(*result)
            else:
                if waiting is not None:
                    yield self._joined(*waiting)
                waiting = result
            del result
        if waiting is not None:
            yield self._joined(*waiting)

    def _run_pack(self, pack: "_Pack", size: PackSize) -> tuple[list["_Part"], int]:
        """Run a pack, in parts if a few long sentences would leave most rows empty or memory is short.

        The second result is the number of tokens that fit into memory.
        """
        if (parts := split_long_sentences(pack, size)) is None:
            try:
                return [self._run(pack, size.rows)], size.tokens
            except MemoryError:
                pass
            # Outside of the except block: the memory of the failed attempt is free again.
            half = halved_batch_size(pack.lengths)
            is_first = np.arange(len(pack.lengths)) < half
            parts = pack.only(is_first), pack.only(~is_first)
            size = PackSize(size.rows, max(min(size.tokens, pack.tokens // 2), 1))
        found = [self._run_pack(part, size) for part in parts]
        return [part for one, _ in found for part in one], min(tokens for _, tokens in found)

    def _run(self, pack: "_Pack", rows: int) -> "_Part":
        words = pack.words
        packed = PackedRows.pack(words.numbers, pack.lengths, boundaries=words.boundaries, rows=rows)
        layers, _ = self._engine.run(words.table, packed, self._start, depth=self._selection.depth)
        return _Part(self._fetch(self._take(layers)), pack.lengths, pack.places)

    def _joined(self, payloads: list[T], lengths: Indices, parts: Sequence["_Part"]) -> EncodedBatch[T]:
        """The vectors of a pack, in the order of the input."""
        arrays = [part.fetch() for part in parts]
        if len(parts) == 1:
            return EncodedBatch(payloads, arrays[0], lengths)
        order = np.argsort(np.concatenate([part.places for part in parts]))
        apart = [
            own
            for part, vectors in zip(parts, arrays, strict=True)
            for own in EncodedBatch([], vectors, part.lengths).split()
        ]
        ordered = [apart[number] for number in order.tolist()]
        joined = np.concatenate(ordered, axis=-2) if self._to_host else self._engine.concatenate(ordered)
        return EncodedBatch(payloads, joined, lengths)

    def _take(self, layers: Any) -> Any:
        if self._selection.averaged:
            return layers.average(self._selection.indices, self._dtype)
        return layers.stack(self._selection.indices, self._dtype)

    def _fetch(self, vectors: Any) -> Callable[[], Any]:
        return self._engine.fetch(vectors) if self._to_host else lambda: vectors


class _Part(NamedTuple):
    """The vectors of some sentences of a pack."""

    fetch: Callable[[], Any]  # waits for the vectors
    lengths: Indices
    places: Indices  # of these sentences in the pack


class _Pack(NamedTuple):
    """Sentences to be run together."""

    words: NumberedWords
    lengths: Indices  # (N,)
    places: Indices  # (N,) of these sentences in the pack as it was first

    @property
    def tokens(self) -> int:
        """Words and boundaries."""
        return len(self.words.numbers) + 2 * len(self.lengths)

    def only(self, chosen: NDArray[np.bool_]) -> "_Pack":
        """Some of the sentences."""
        words = self.words._replace(numbers=self.words.numbers[np.repeat(chosen, self.lengths)])
        return _Pack(words, self.lengths[chosen], self.places[chosen])


def packs(batches: Iterable[SentenceBatch[T]], tokens: Callable[[], int]) -> Iterator[tuple[list[Words], list[T]]]:
    """Sentences to run together: up to `tokens()` words and boundaries, fewer at first."""
    words: list[Words] = []
    payloads: list[T] = []
    limit = min(tokens(), max(tokens() // FIRST_PACK_FRACTION, FIRST_PACK_TOKENS))
    missing = limit
    for batch in batches:
        lengths = _lengths(batch.words) + 2
        place = 0
        while place < len(lengths):
            # The sentence that fills the pack belongs to it.
            count = int(np.searchsorted(lengths[place:].cumsum()[:-1], missing)) + 1
            words += batch.words[place : place + count]
            payloads += batch.payloads[place : place + count]
            missing -= int(lengths[place : place + count].sum())
            place += count
            if missing <= 0:
                yield words, payloads
                words, payloads = [], []
                missing = limit = min(4 * limit, tokens())
    if words:
        yield words, payloads


def split_long_sentences(pack: _Pack, size: PackSize) -> tuple[_Pack, _Pack] | None:
    """The sentences that fit into rows of twice the usual length, and the others; None if one of the two is empty.

    All rows have as many steps as the longest, in memory too.
    """
    steps = 2 * size.tokens // min(size.rows, max(len(pack.lengths), 1))
    is_long = pack.lengths + 2 > max(steps, LONG_SENTENCE)
    if is_long.all() or not is_long.any():
        return None
    return pack.only(~is_long), pack.only(is_long)


def halved_batch_size(lengths: Sequence[int] | Indices) -> int:
    """Half as many sentences as did not fit into memory; OutOfMemory if it was one sentence."""
    if len(lengths) == 1:
        raise OutOfMemory(
            f"one sentence of {lengths[0]} words does not fit into memory; split the sentence, or use a smaller model"
        )
    warnings.warn(
        f"a batch of {len(lengths)} sentences did not fit into memory; trying it in halves "
        "(a smaller batch_tokens avoids this)",
        InputWarning,
        stacklevel=3,
    )
    return len(lengths) // 2


def _lengths(words: Sequence[Words]) -> Indices:
    return np.fromiter(map(len, words), dtype=np.int64, count=len(words))
