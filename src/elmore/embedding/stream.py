"""Sentences in, vectors out: packs of sentences run through an engine.

Vectors that leave a GPU are copied while the next pack runs, and are returned one pack later.

N sentences and K words of a pack.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmore.embedding.options import InferenceOptions, LayerSelection
from elmore.engine.engine import Engine, EngineLayers, PackSize
from elmore.engine.rows import PackedRows
from elmore.engine.state import State
from elmore.engine.word_store import NumberedWords, WordStore
from elmore.errors import InputError, InputWarning, OutOfMemory

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
        options: InferenceOptions,
        *,
        to_host: bool = True,
        boundaries: bool = False,
    ) -> None:
        self._engine = engine
        self._store = store
        self._start = start
        self._selection = LayerSelection.parse(options.layers, num_layers=engine.config.num_layers)
        self._dtype = options.numpy_dtype
        self._carried_rows = options.carried_rows
        self._to_host = to_host  # false: vectors stay in the engine's memory
        self._boundaries = boundaries  # true: vectors and lengths of a sentence include its two boundary words
        suited = engine.pack_size
        # Of a pack; fewer tokens after one that did not fit into memory.
        self._size = PackSize(
            min(options.batch_size or suited.rows, suited.rows), options.batch_tokens or suited.tokens
        )

    def encode(self, batches: Iterable[SentenceBatch[T]]) -> Iterator[EncodedBatch[T]]:
        """Encode each sentence from the start state, or each row from its previous sentence with `state="carry"`."""
        if self._carried_rows is not None:
            return self._encode_carrying_state(batches, self._carried_rows)
        return self._one_pack_behind(self._run_packs(batches))

    def _encode_carrying_state(self, batches: Iterable[SentenceBatch[T]], batch_size: int) -> Iterator[EncodedBatch[T]]:
        """Encode batches of `batch_size` sentences; row r starts where row r of the previous batch ended."""
        state = CarriedState(self._start.first(0))
        sentences = chain.from_iterable(zip(*batch, strict=True) for batch in batches)
        while batch := list(islice(sentences, batch_size)):
            words, payloads = zip(*batch, strict=True)
            lengths = count_words(words)
            numbered = self._store.number(list(chain.from_iterable(words)))
            fetch = self._fetch(self._take(state.run(self._engine, numbered, lengths, depth=self._selection.depth)))
            yield EncodedBatch(list(payloads), fetch(), lengths)
            del fetch  # or its vectors would be in memory while the next batch runs

    def _run_packs(self, batches: Iterable[SentenceBatch[T]]) -> Iterator[tuple[list[T], Indices, list["_Part"]]]:
        for words, payloads in packs(batches, lambda: self._size.tokens):
            lengths = count_words(words)
            pack = _Pack(self._store.number(list(chain.from_iterable(words))), lengths, np.arange(len(lengths)))
            parts, fitting = self._run_pack(pack, self._size)
            self._size = PackSize(self._size.rows, min(self._size.tokens, fitting))
            yield payloads, lengths + 2 * self._boundaries, parts
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
        if (halves := split_long_sentences(pack, size)) is None:
            try:
                return [self._run(pack, size.rows)], size.tokens
            except MemoryError:
                pass
            # Outside of the except block: the memory of the failed attempt is free again.
            is_first = np.arange(len(pack.lengths)) < halved_batch_size(pack.lengths)
            halves = pack.select(is_first), pack.select(~is_first)
            size = PackSize(size.rows, max(min(size.tokens, pack.tokens // 2), 1))
        (first, first_tokens), (second, second_tokens) = (self._run_pack(half, size) for half in halves)
        return first + second, min(first_tokens, second_tokens)

    def _run(self, pack: "_Pack", rows: int) -> "_Part":
        words = pack.words
        packed = PackedRows.pack(words.numbers, pack.lengths, boundaries=words.boundaries, rows=rows)
        layers, _ = self._engine.run(
            words.table, packed, self._start, depth=self._selection.depth, boundaries=self._boundaries
        )
        return _Part(self._fetch(self._take(layers)), pack.lengths + 2 * self._boundaries, pack.indices)

    def _joined(self, payloads: list[T], lengths: Indices, parts: Sequence["_Part"]) -> EncodedBatch[T]:
        """The vectors of a pack, in the order of the input."""
        arrays = [part.fetch() for part in parts]
        if len(parts) == 1:
            return EncodedBatch(payloads, arrays[0], lengths)
        sentences = [
            sentence
            for part, array in zip(parts, arrays, strict=True)
            for sentence in EncodedBatch([], array, part.lengths).split()
        ]
        order = np.argsort(np.concatenate([part.indices for part in parts]))
        ordered = [sentences[number] for number in order.tolist()]
        joined = np.concatenate(ordered, axis=-2) if self._to_host else self._engine.concatenate(ordered)
        return EncodedBatch(payloads, joined, lengths)

    def _take(self, layers: EngineLayers) -> Any:
        take = layers.average if self._selection.averaged else layers.stack
        return take(self._selection.indices, self._dtype)

    def _fetch(self, vectors: Any) -> Callable[[], Any]:
        return self._engine.fetch(vectors) if self._to_host else lambda: vectors


class CarriedState:
    """The state of each row, from batch to batch.

    Row r of a batch starts where row r of the previous batch ended. Rows that a smaller batch does not use keep their
    state; additional rows of a larger batch start from zeros. With `stateful = False` each batch starts from zeros.
    """

    def __init__(self, zeros: State) -> None:
        self.stateful = True
        self._zeros = zeros  # without rows
        self._states: State | None = None

    def run(
        self,
        engine: Engine,
        words: NumberedWords,
        lengths: Indices,
        *,
        depth: int | None = None,
        boundaries: bool = False,
    ) -> EngineLayers:
        """The layers of a batch with one sentence in each row."""
        rows = PackedRows.one_per_row(words.numbers, lengths, boundaries=words.boundaries)
        row_of = rows.packing.rows
        carried = self._states if self.stateful and self._states is not None else self._zeros
        before = carried.first(len(lengths)).select(np.argsort(row_of))
        layers, after = engine.run(words.table, rows, before, depth=depth, boundaries=boundaries)
        if self.stateful:
            after = after.select(row_of)
            self._states = after if self._states is None else self._states.updated(after)
        return layers

    def reset_states(self, mask: Any = None) -> None:
        """Reset all rows to zeros, or those where a boolean mask (rows,) is true."""
        if mask is None or self._states is None:
            self._states = None
            return
        reset = np.asarray(mask.cpu() if hasattr(mask, "cpu") else mask).astype(bool)
        if reset.shape != (self._states.rows,):
            raise InputError(f"the mask has shape {reset.shape}; {self._states.rows} rows have a state")
        unchanged = ~reset[:, None]
        self._states = State(self._states.h * unchanged, self._states.c * unchanged)


class _Part(NamedTuple):
    """The vectors of some sentences of a pack."""

    fetch: Callable[[], Any]  # waits for the vectors
    lengths: Indices
    indices: Indices  # of these sentences in the pack


class _Pack(NamedTuple):
    """Sentences to be run together."""

    words: NumberedWords
    lengths: Indices  # (N,)
    indices: Indices  # (N,) of these sentences in the pack before it was divided

    @property
    def tokens(self) -> int:
        """Words and boundaries."""
        return len(self.words.numbers) + 2 * len(self.lengths)

    def select(self, mask: NDArray[np.bool_]) -> "_Pack":
        """The sentences for which the mask is true."""
        words = self.words._replace(numbers=self.words.numbers[np.repeat(mask, self.lengths)])
        return _Pack(words, self.lengths[mask], self.indices[mask])


def packs(batches: Iterable[SentenceBatch[T]], tokens: Callable[[], int]) -> Iterator[tuple[list[Words], list[T]]]:
    """Sentences to run together: up to `tokens()` words and boundaries, fewer at first."""
    words: list[Words] = []
    payloads: list[T] = []
    limit = min(tokens(), max(tokens() // FIRST_PACK_FRACTION, FIRST_PACK_TOKENS))
    missing = limit
    for batch in batches:
        lengths = count_words(batch.words) + 2
        start = 0
        while start < len(lengths):
            # The sentence that fills the pack belongs to it.
            count = int(np.searchsorted(lengths[start:].cumsum()[:-1], missing)) + 1
            words += batch.words[start : start + count]
            payloads += batch.payloads[start : start + count]
            missing -= int(lengths[start : start + count].sum())
            start += count
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
    return pack.select(~is_long), pack.select(is_long)


def halved_batch_size(lengths: Sequence[int] | Indices) -> int:
    """Half the number of sentences that did not fit into memory, with a warning; OutOfMemory if it was one sentence."""
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


def count_words(sentences: Sequence[Words]) -> Indices:
    """(N,) the number of words of each sentence."""
    return np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
