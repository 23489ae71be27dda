"""Sentences in, vectors out, by kernels that read rows of several sentences: the way of a GPU.

Nothing here waits for the GPU: while it reads one pack of sentences, the next is numbered and packed. Vectors that are
wanted in ordinary memory are copied while the next pack is read, and are given out one pack later.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from elmore.config import ModelConfig
from elmore.embedding.layer_choice import LayerChoice
from elmore.embedding.stream import EncodedItem, SentenceItem, Words, half_of, is_out_of_memory
from elmore.embedding.word_table import WordTable
from elmore.kernels.selection import Kernels
from elmore.model import Model
from elmore.network.packed_reading import PackedLayers, read_packed
from elmore.text.packed_batch import PackedBatch

T = TypeVar("T")

FIRST_POSITIONS = 2**15  # of the first pack: the first vectors come soon
MOST_POSITIONS = 2**20  # of any pack: the host prepares one while the GPU reads another
CPU_MEMORY = 2**30  # what is spent on a pack where there is no GPU


class PackSize(NamedTuple):
    """How much is read at once."""

    rows: int
    positions: int  # in all rows, boundaries included


def pack_size(config: ModelConfig, *, memory: int, bytes_per_number: int) -> PackSize:
    """What suits a model on a GPU of so many bytes of memory.

    Enough rows to keep all of it busy at every step, and enough steps that sentences of any usual length fit.

    >>> from elmore.config import ORIGINAL
    >>> pack_size(ORIGINAL, memory=141 * 2**30, bytes_per_number=2)
    PackSize(rows=2048, positions=1048576)
    """
    rows = 2048 if config.cell_dim >= 2048 else 4096
    # Inputs and outputs of every layer, twice while one becomes the other, and what is given out as float32.
    each = config.dim * ((config.num_layers + 2) * bytes_per_number + 3 * 4)
    positions = min(MOST_POSITIONS, memory // 4 // each)
    while rows > 256 and positions < 256 * rows:
        rows //= 2
    return PackSize(rows, positions)


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
        self, items: Iterable[SentenceItem[T]], size: PackSize, *, fixed_rows: bool = False
    ) -> Iterator[list[EncodedItem[T]]]:
        """Read all sentences; with `fixed_rows` each has the same bits whatever is read beside it."""
        self._positions = size.positions
        waiting: tuple[list[SentenceItem[T]], list[_Vectors]] | None = None
        copied = self.device.type == "cpu" and self.model.device.type == "cuda"
        fixed = self.size().rows if fixed_rows else None
        for pack in packs(items, lambda: self._positions):
            read = self._read([item.words for item in pack], size.rows, fixed)
            if len(read) > 1:
                # It did not fit into memory. What comes shall.
                self._positions = max(self._positions // len(read), 1)
            if not copied:
                yield _joined(pack, read)
            elif waiting is not None:
                yield _joined(*waiting)
            if copied:
                waiting = pack, read
            del pack, read
        if waiting is not None:
            yield _joined(*waiting)

    def _read(self, sentences: Sequence[Words], rows: int, fixed: int | None) -> list["_Vectors"]:
        """Begin to read a pack; where it does not fit into memory, its halves."""
        try:
            # Not in inference mode: what comes out may stand in anybody's training.
            with torch.no_grad(), self.kernels.settings():
                layers, lengths = read_pack(
                    self.model,
                    self.table,
                    sentences,
                    rows=rows,
                    depth=self.choice.depth,
                    kernels=self.kernels,
                    fixed_rows=fixed,
                )
                return [self._sent(take_layers(layers, self.choice, self.dtype), lengths)]
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
        # Past the except block, so that what the failed try held is free again.
        half = half_of(sentences)
        return self._read(sentences[:half], rows, fixed) + self._read(sentences[half:], rows, fixed)

    def _sent(self, vectors: Tensor, lengths: Sequence[int]) -> "_Vectors":
        """On their way to where they are wanted."""
        if self.device.type != "cpu" or not vectors.is_cuda:
            return _Vectors(vectors.to(self.device), lengths, None)
        computing, copying = torch.cuda.current_stream(vectors.device), _copying_stream(vectors.device)
        there = torch.empty(vectors.shape, dtype=vectors.dtype, pin_memory=True)
        copying.wait_stream(computing)
        with torch.cuda.stream(copying):
            there.copy_(vectors, non_blocking=True)
            # Or the memory would serve for the next pack before it is copied.
            vectors.record_stream(copying)
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record(copying)
        return _Vectors(there, lengths, arrived)


class _Vectors(NamedTuple):
    """Those of sentences that were read together, some of which may still be on their way."""

    vectors: Tensor  # (words, dim) or (layers, words, dim) of all of them
    lengths: Sequence[int]
    arrived: "torch.cuda.Event | None"

    def of_sentences(self) -> Sequence[Tensor]:
        if self.arrived is not None:
            self.arrived.synchronize()
        apart = self.vectors.unsafe_split_with_sizes(self.lengths, dim=-2)
        if self.vectors.device.type != "cpu":
            return apart
        # Of their own memory, so that one that is kept does not keep the whole pack.
        return [own.clone(memory_format=torch.contiguous_format) for own in apart]


def _joined(pack: Sequence[SentenceItem[T]], read: Iterable[_Vectors]) -> list[EncodedItem[T]]:
    vectors = chain.from_iterable(part.of_sentences() for part in read)
    return [EncodedItem(item.payload, own) for item, own in zip(pack, vectors, strict=True)]


@cache
def _copying_stream(device: torch.device) -> "torch.cuda.Stream":
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def packs(items: Iterable[SentenceItem[T]], positions: Callable[[], int]) -> Iterator[list[SentenceItem[T]]]:
    """What is read together: as much as `positions` says by then, and little at first, so that vectors come soon."""
    pack: list[SentenceItem[T]] = []
    size, limit = 0, min(positions(), FIRST_POSITIONS)
    for item in items:
        pack.append(item)
        size += len(item.words) + 2
        if size >= limit:
            yield pack
            pack, size, limit = [], 0, min(4 * limit, positions())
    if pack:
        yield pack


def read_pack(
    model: Model,
    table: WordTable,
    sentences: Sequence[Words],
    *,
    rows: int,
    depth: int,
    kernels: Kernels,
    fixed_rows: int | None = None,
) -> tuple[PackedLayers, list[int]]:
    """The layers of all words of these sentences, one after another, and how many words each has."""
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    numbered = table.read(chain.from_iterable(sentences), int(lengths.sum()))
    batch = PackedBatch.of(
        torch.from_numpy(numbered.numbers), lengths, boundaries=numbered.boundaries, rows=rows, device=model.device
    )
    layers = read_packed(
        model.network, numbered.table, batch, model.start, kernels=kernels, depth=depth, fixed_rows=fixed_rows
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
