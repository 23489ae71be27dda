"""A biLM reads sentences that are packed into rows, each from the same state.

The same numbers as `BiLM.read` gives, sentence for sentence; for a stream of many sentences on a GPU.

K words, G directions, T steps, R rows, P vector size, dim = G * P.
"""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from elmore.config import Direction
from elmore.kernels.autocast import compute_dtype
from elmore.kernels.selection import Kernels
from elmore.network.bilm import BiLM, LstmLayer
from elmore.network.state import State
from elmore.text.packed_batch import PackedBatch


class PackedLayers:
    """The layers h0 to hL of packed sentences: of all words, one sentence after another, boundaries left out."""

    def __init__(
        self, batch: PackedBatch, vectors: Tensor, outputs: Sequence[Tensor], *, directions: Sequence[Direction]
    ) -> None:
        self._batch = batch
        self._vectors = vectors  # (W, P) of the words that the batch's numbers stand for
        self._outputs = outputs  # of each LSTM layer (G, T, R, P)
        self._places = [batch.places(name) for name in directions] if outputs else []
        self._copies = len(directions)

    def layer(self, number: int) -> Tensor:
        """(K, dim) one layer."""
        if number == 0:
            x = self._vectors.index_select(0, self._batch.word_numbers)
            return x.repeat(1, self._copies)
        both = zip(self._outputs[number - 1], self._places, strict=True)
        return torch.cat([y.flatten(0, 1).index_select(0, places) for y, places in both], dim=-1)


def read_packed(
    network: BiLM,
    vectors: Tensor,
    batch: PackedBatch,
    start: State,
    *,
    kernels: Kernels,
    depth: int | None = None,
    fixed_rows: int | None = None,  # as in `Recurrence`
) -> PackedLayers:
    """Read packed sentences over word vectors (W, P), all from one state; only the first `depth` LSTM layers run."""
    names = network.config.direction_names
    recurrence = kernels.recurrence
    assert recurrence.run_packed is not None  # whoever packs has asked
    outputs: list[Tensor] = []
    if depth != 0 and batch.steps:
        read = [batch.words_and_starts(name) for name in names]
        words = torch.stack([words for words, _ in read])  # (G, T, R)
        starts = torch.stack([starts for _, starts in read])
        x = vectors.index_select(0, words.flatten()).view(*words.shape, vectors.shape[1])
        for number, module in enumerate(network.lstm[:depth]):
            prepared = cast("LstmLayer", module).prepared(recurrence, compute_dtype(x))
            state = start.h[number], start.c[number]
            y = recurrence.run_packed(prepared, x, batch.row_lengths, state, starts, fixed_rows)
            x = x + y if network.config.skip_connections and number > 0 else y
            outputs.append(x)
    return PackedLayers(batch, vectors, outputs, directions=names)
