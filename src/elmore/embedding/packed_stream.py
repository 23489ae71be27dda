"""Sentences in, vectors out, by kernels that read rows of several sentences: the way of a GPU.

Nothing here waits for the GPU: while it reads one pack of sentences, the next is numbered and packed.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from elmore.config import ModelConfig
from elmore.embedding.layer_choice import LayerChoice
from elmore.embedding.word_table import WordTable
from elmore.kernels.selection import Kernels
from elmore.model import Model
from elmore.network.packed_reading import PackedLayers, read_packed
from elmore.text.packed_batch import PackedBatch

Words = Sequence[str]


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
    rows = 2048 if config.cell_dim >= 2048 else 8192
    # Inputs and outputs of every layer, twice while one becomes the other, and what is given out as float32.
    each = config.dim * ((config.num_layers + 2) * bytes_per_number + 3 * 4)
    positions = min(512 * rows, memory // 4 // each)
    while rows > 256 and positions < 256 * rows:
        rows //= 2
    return PackSize(rows, positions)


def read_pack(
    model: Model, table: WordTable, sentences: Sequence[Words], *, rows: int, depth: int, kernels: Kernels
) -> tuple[PackedLayers, list[int]]:
    """The layers of all words of these sentences, one after another, and how many words each has."""
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    numbered = table.read(chain.from_iterable(sentences), int(lengths.sum()))
    batch = PackedBatch.of(
        torch.from_numpy(numbered.numbers), lengths, boundaries=numbered.boundaries, rows=rows, device=model.device
    )
    layers = read_packed(model.network, numbered.table, batch, model.start, kernels=kernels, depth=depth)
    return layers, list(batch.lengths)


def take_layers(layers: PackedLayers, choice: LayerChoice, dtype: torch.dtype) -> Tensor:
    """(words, dim) their mean if merged, else (layers, words, dim)."""
    if not choice.merged:
        return torch.stack([layers.layer(number).to(dtype) for number in choice.indices])
    total = layers.layer(choice.indices[0]).float()
    for number in choice.indices[1:]:
        total += layers.layer(number)
    return (total / len(choice.indices)).to(dtype)


def packs(sentences: Iterable[Words], positions: int) -> Iterator[list[Words]]:
    """What is read together: little at first, so that the first vectors come soon."""
    pack: list[Words] = []
    size, limit = 0, min(positions, 2**15)
    for sentence in sentences:
        pack.append(sentence)
        size += len(sentence) + 2
        if size >= limit:
            yield pack
            pack, size, limit = [], 0, min(4 * limit, positions)
    if pack:
        yield pack
