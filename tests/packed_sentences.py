"""Sentences run through an engine, as tests of engines need them."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.engine.engine import Engine
from elmore.engine.rows import PackedRows
from elmore.engine.state import State
from elmore.engine.word_store import WordStore
from elmore.formats.checkpoint import Checkpoint
from elmore.text.word_ids import WordIndexer

Sentences = Sequence[Sequence[str]]


def store_for(engine: Engine, checkpoint: Checkpoint, **options: Any) -> WordStore:
    """A word store of this engine."""
    indexer = WordIndexer(
        checkpoint.config, vocabulary=checkpoint.vocabulary, character_vocabulary=checkpoint.character_vocabulary
    )
    return WordStore(engine, indexer, **options)


def run_sentences(
    engine: Engine,
    store: WordStore,
    sentences: Sentences,
    *,
    rows: int = 4,
    state: State | None = None,
    carried: bool = False,
    depth: int | None = None,
    boundaries: bool = True,
) -> tuple[list[NDArray[np.float32]], State]:
    """The layers (L + 1, words, dim) of each sentence, and the state after them, in the order of the sentences."""
    lengths = np.array([len(words) for words in sentences], dtype=np.int64)
    numbered = store.number(list(chain.from_iterable(sentences)))
    if carried:
        packed = PackedRows.one_per_row(numbered.numbers, lengths, boundaries=numbered.boundaries)
        start = State.zeros(engine.config, len(sentences)) if state is None else state
        start = start.select(np.argsort(packed.packing.rows))
    else:
        packed = PackedRows.pack(numbered.numbers, lengths, boundaries=numbered.boundaries, rows=rows)
        start = State.zeros(engine.config) if state is None else state
    layers, after = engine.run(numbered.table, packed, start, depth=depth, boundaries=boundaries)
    stacked = np.asarray(layers.stack(range(len(layers))))
    ends = np.cumsum(lengths + 2 if boundaries else lengths)
    return np.split(stacked, ends[:-1], axis=1), after.select(packed.packing.rows) if carried else after
