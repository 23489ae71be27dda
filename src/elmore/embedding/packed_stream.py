"""Sentences in, vectors out, by kernels that read rows of several sentences: the way of a GPU.

Nothing here waits for the GPU: while it reads one pack of sentences, the next is numbered and packed. Vectors that are
wanted in ordinary memory are copied while the next pack is read, and are given out one pack later.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.config import ModelConfig
from elmore.embedding.layer_choice import LayerChoice
from elmore.embedding.stream import EncodedGroup, SentenceGroup, Words, half_of, is_out_of_memory
from elmore.embedding.word_table import Numbers, TableWords, WordTable
from elmore.kernels.selection import Kernels
from elmore.model import Model
from elmore.network.packed_reading import PackedLayers, read_packed
from elmore.text.packed_batch import PackedBatch

T = TypeVar("T")

FIRST_POSITIONS = 2**15  # of the first pack: the first vectors come soon
# A GPU takes a bounded number of launches, and the host waits until it has done some. So what the host does for a pack
# is to be short beside that; but with far fewer steps the longest sentence of a pack would be read on alone.
STEPS = 256  # of a row
LONG_STEPS = 2 * STEPS  # sentences that are shorter are never read apart from others
CPU_MEMORY = 2**30  # what is spent on a pack where there is no GPU


# Sentences that are drawn and numbered together: many, so that Python does next to nothing for each of them, and few
# enough that their words are still at hand when they are looked up.
DRAWN_TOGETHER = 256


class PackSize(NamedTuple):
    """How much is read at once."""

    rows: int
    positions: int  # in all rows, boundaries included


def pack_size(config: ModelConfig, *, memory: int, bytes_per_number: int) -> PackSize:
    """What suits a model on a GPU of so many bytes of memory.

    Enough rows to keep all of it busy at every step.

    >>> from elmore.config import ORIGINAL
    >>> pack_size(ORIGINAL, memory=141 * 2**30, bytes_per_number=2)
    PackSize(rows=2048, positions=524288)
    """
    rows = 2048 if config.cell_dim >= 2048 else 4096
    # Inputs and outputs of every layer, twice while one becomes the other, and what is given out as float32.
    each = config.dim * ((config.num_layers + 2) * bytes_per_number + 3 * 4)
    positions = memory // 4 // each
    while rows > 256 and positions < STEPS * rows:
        rows //= 2
    return PackSize(rows, min(positions, STEPS * rows))


class PackedEncoder:
    """Reads sentences with one model, all from its start state, and takes the chosen layers of them, pack by pack."""

    def __init__(
        self,
        model: Model,
        table: WordTable,
        choice: LayerChoice,
        *,
        kernels: Kernels,
        dtype: torch.dtype,
        device: torch.device | str,
    ) -> None:
        self.model = model
        self.table = table
        self.choice = choice
        self.kernels = kernels
        self.dtype = dtype
        self.device = torch.device(device)  # of the vectors; the model has its own

    def size(self, *, batch_tokens: int | None = None, batch_size: int | None = None) -> PackSize:
        """What suits model and device, or what was asked for."""
        device, start = self.model.device, self.model.start.h
        memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else CPU_MEMORY
        rows, positions = pack_size(self.model.config, memory=memory, bytes_per_number=start.element_size())
        return PackSize(min(batch_size or rows, rows), batch_tokens or positions)

    def encode(
        self, groups: Iterable[SentenceGroup[T]], size: PackSize, *, fixed_rows: bool = False
    ) -> Iterator[EncodedGroup[T]]:
        """Read all sentences; with `fixed_rows` each has the same bits whatever is read beside it."""
        self._positions = size.positions
        waiting: tuple[list[T], list[_Vectors]] | None = None
        copied = self.device.type == "cpu" and self.model.device.type == "cuda"
        fixed = self.size().rows if fixed_rows else None
        for payloads, pack in packs(groups, self.table, lambda: self._positions):
            read = self._read(pack, size.rows, fixed)
            if not copied:
                yield _joined(payloads, read)
            elif waiting is not None:
                yield _joined(*waiting)
            if copied:
                waiting = payloads, read
            del payloads, pack, read
        if waiting is not None:
            yield _joined(*waiting)

    def _read(self, pack: "NumberedPack", rows: int, fixed: int | None) -> list["_Vectors"]:
        """Begin to read a pack; by parts, where a few long sentences would leave most rows empty or memory is short."""
        if (parts := apart_by_length(pack, rows, self._positions)) is not None:
            return [read for part in parts for read in self._read(part, rows, fixed)]
        try:
            # Not in inference mode: what comes out may stand in anybody's training.
            with torch.no_grad(), self.kernels.settings():
                layers, lengths = read_pack(
                    self.model, pack, rows=rows, depth=self.choice.depth, kernels=self.kernels, fixed_rows=fixed
                )
                return [self._sent(take_layers(layers, self.choice, self.dtype), lengths, pack.places)]
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        # Past the except block, so that what the failed try held is free again.
        is_first = np.arange(len(pack.lengths)) < half_of(pack.lengths.tolist())
        # What comes shall fit.
        self._positions = max(min(self._positions, pack.positions // 2), 1)
        return self._read(pack.only(is_first), rows, fixed) + self._read(pack.only(~is_first), rows, fixed)

    def _sent(self, vectors: Tensor, lengths: Sequence[int], places: Numbers) -> "_Vectors":
        """On their way to where they are wanted."""
        if self.device.type != "cpu" or not vectors.is_cuda:
            return _Vectors(vectors.to(self.device), lengths, places, None)
        computing, copying = torch.cuda.current_stream(vectors.device), _copying_stream(vectors.device)
        there = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
        copying.wait_stream(computing)
        with torch.cuda.stream(copying):
            there.copy_(vectors, non_blocking=True)
            # Or the memory would serve for the next pack before it is copied.
            vectors.record_stream(copying)
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record(copying)
        return _Vectors(there, lengths, places, arrived)


class _Vectors(NamedTuple):
    """Those of sentences that were read together, some of which may still be on their way."""

    vectors: Tensor  # (words, dim) or (layers, words, dim) of all of them
    lengths: Sequence[int]
    places: Numbers  # of these sentences among all of the pack
    arrived: "torch.cuda.Event | None"

    def of_sentences(self) -> Sequence[Tensor]:
        if self.arrived is not None:
            self.arrived.synchronize()
        apart = self.vectors.unsafe_split_with_sizes(self.lengths, dim=-2)
        if self.vectors.device.type != "cpu":
            return apart
        # Of their own memory, so that one that is kept does not keep the whole pack.
        return [own.clone(memory_format=torch.contiguous_format) for own in apart]


def _joined(payloads: list[T], read: Sequence[_Vectors]) -> EncodedGroup[T]:
    vectors = list(chain.from_iterable(part.of_sentences() for part in read))
    if len(read) > 1:
        order = np.argsort(np.concatenate([part.places for part in read]))
        vectors = [vectors[number] for number in order.tolist()]
    return EncodedGroup(payloads, vectors)


@cache
def _copying_stream(device: torch.device) -> "torch.cuda.Stream":
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class NumberedPack(NamedTuple):
    """Sentences to be read together; their words are rows of a table."""

    words: TableWords
    numbers: Numbers  # (K,) of all words, one sentence after another
    lengths: Numbers  # (N,)

    places: Numbers  # (N,) of these sentences among all that were to be read together

    @property
    def positions(self) -> int:
        """How many there are, boundaries counted."""
        return len(self.numbers) + 2 * len(self.lengths)

    def only(self, chosen: NDArray[np.bool_]) -> "NumberedPack":
        """Some of its sentences."""
        numbers = self.numbers[np.repeat(chosen, self.lengths)]
        return NumberedPack(self.words, numbers, self.lengths[chosen], self.places[chosen])


def apart_by_length(pack: NumberedPack, rows: int, positions: int) -> tuple[NumberedPack, NumberedPack] | None:
    """The sentences that fit into rows of twice the usual length, and those that do not; None if all do, or none does.

    All rows are given as many steps as the longest, in memory too.
    """
    steps = 2 * positions // min(rows, len(pack.lengths))
    is_long = pack.lengths + 2 > max(steps, LONG_STEPS)
    if is_long.all() or not is_long.any():
        return None
    return pack.only(~is_long), pack.only(is_long)


def packs(
    groups: Iterable[SentenceGroup[T]], table: WordTable, positions: Callable[[], int]
) -> Iterator[tuple[list[T], NumberedPack]]:
    """What is read together: as much as `positions` says by then, and little at first, so that vectors come soon."""
    limit = min(positions(), FIRST_POSITIONS)
    pack: _GrowingPack[T] = _GrowingPack(table.words(), limit)
    for words, payloads in groups:
        lengths = _lengths(words)
        at = 0
        while at < len(words):
            end = at + pack.sentences_wanted(lengths[at:])
            pack.add(words[at:end], payloads[at:end], lengths[at:end])
            at = end
            if pack.missing <= 0:
                yield pack.payloads, pack.whole()
                limit = min(4 * limit, positions())
                pack = _GrowingPack(table.words(), limit)
    if pack.payloads:
        yield pack.payloads, pack.whole()


class _GrowingPack(Generic[T]):
    """A pack to which sentences are added, whose words are numbered at once: they need not be kept."""

    def __init__(self, words: TableWords, positions: int) -> None:
        self.payloads: list[T] = []
        self.missing = positions  # until it is full, boundaries counted
        self._words = words
        self._numbers: list[Numbers] = []
        self._lengths: list[Numbers] = []

    def sentences_wanted(self, lengths: Numbers) -> int:
        """How many of the sentences of these lengths make it full, or all of them."""
        return int(np.searchsorted((lengths + 2).cumsum()[:-1], self.missing)) + 1

    def add(self, words: Sequence[Words], payloads: Sequence[T], lengths: Numbers) -> None:
        total = int(lengths.sum())
        self._numbers.append(self._words.number(chain.from_iterable(words), total))
        self._lengths.append(lengths)
        self.payloads.extend(payloads)
        self.missing -= total + 2 * len(lengths)

    def whole(self) -> NumberedPack:
        lengths = np.concatenate(self._lengths)
        return NumberedPack(self._words, np.concatenate(self._numbers), lengths, np.arange(len(lengths)))


def _lengths(words: Sequence[Words]) -> Numbers:
    return np.fromiter(map(len, words), dtype=np.int64, count=len(words))


def read_pack(
    model: Model, pack: NumberedPack, *, rows: int, depth: int, kernels: Kernels, fixed_rows: int | None = None
) -> tuple[PackedLayers, list[int]]:
    """The layers of all words of these sentences, one after another, and how many words each has."""
    vectors = pack.words.vectors()
    batch = PackedBatch.of(
        torch.from_numpy(pack.numbers), pack.lengths, boundaries=pack.words.boundaries, rows=rows, device=model.device
    )
    layers = read_packed(
        model.network, vectors, batch, model.start, kernels=kernels, depth=depth, fixed_rows=fixed_rows
    )
    return layers, list(batch.lengths)


def take_layers(layers: PackedLayers, choice: LayerChoice, dtype: torch.dtype) -> Tensor:
    """(words, dim) their mean if merged, else (layers, words, dim)."""
    if not choice.merged:
        return torch.stack([layers.layer(number).to(dtype) for number in choice.indices])
    total = layers.layer(choice.indices[0]).float()
    for number in choice.indices[1:]:
        total += layers.layer(number)
    return (total / len(choice.indices)).to(dtype)
