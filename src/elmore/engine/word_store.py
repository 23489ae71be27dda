"""Word vectors computed before: text repeats, and each distinct word is encoded once.

A word is a row of a table that only grows. When the table exceeds its limit, an empty one takes its place; calls that
use the old table are not affected. Any number of threads may share a store; words are encoded outside of its lock.
"""

from collections.abc import Sequence
from itertools import repeat
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.engine.engine import Engine, VectorTable
from elmore.text.word_ids import WordIndexer

DEFAULT_BYTES = 64 * 2**20
# About what a word costs in addition to its vector: the string and its entry in the index.
WORD_BYTES = 200


class NumberedWords(NamedTuple):
    """Words as rows of a table, which stays valid for them."""

    numbers: NDArray[np.int64]  # (K,)
    table: Any  # (rows, P) in the engine's memory
    boundaries: tuple[int, int]  # the numbers of the words that open and close a sentence


class WordStore:
    """The vectors of the words of a stream, in the memory of one engine.

    >>> from elmore import load
    >>> from elmore.engine import open_engine
    >>> model = load("tiny-random")
    >>> store = WordStore(open_engine(model.checkpoint), model.word_indexer)
    >>> numbered = store.number(["to", "be", "or", "to", "be"])
    >>> len(store), numbered.table[numbered.numbers].shape  # the two boundary words are stored too
    (5, (5, 16))
    """

    def __init__(self, engine: Engine, indexer: WordIndexer, *, max_bytes: int = DEFAULT_BYTES) -> None:
        self._engine = engine
        self._indexer = indexer
        self._capacity = max(max_bytes // (4 * engine.config.vector_dim + WORD_BYTES), 1)
        self._lock = Lock()
        self._words = _Words(engine.new_table())

    def __len__(self) -> int:
        return len(self._words.index)

    def clear(self) -> None:
        """Drop all vectors; calls that use them are not affected."""
        with self._lock:
            self._words = _Words(self._engine.new_table())

    def number(self, words: Sequence[str]) -> NumberedWords:
        """Number the words; new ones are encoded."""
        config = self._engine.config
        with self._lock:
            if len(self._words.index) > self._capacity:
                self._words = _Words(self._engine.new_table())
            stored = self._words
            # The boundary words come first, so that every table contains them.
            numbers = stored.find([config.bos_token, config.eos_token, *words])
        missing = np.flatnonzero(numbers < 0)
        if len(missing):
            requested = [config.bos_token, config.eos_token, *words]
            self._encode({requested[index] for index in missing}, stored)
            with self._lock:
                numbers[missing] = stored.find([requested[index] for index in missing])
        with self._lock:
            table = stored.table.array()
        return NumberedWords(numbers[2:], table, (int(numbers[0]), int(numbers[1])))

    def _encode(self, words: set[str], stored: "_Words") -> None:
        """Add the vectors of new words, group by group."""
        engine = self._engine
        # Words of similar length together: a group is as wide as its longest word. One order, for equal results.
        in_order = sorted(words, key=lambda word: (len(word), word))
        for first in range(0, len(in_order), engine.word_group):
            group = in_order[first : first + engine.word_group]
            vectors = engine.encode_words(self._indexer.index(group, trimmed=not engine.fixed_word_length))
            with self._lock:
                stored.add(group, vectors)


class _Words:
    """One table and its index. Every method is called with the lock of the store."""

    def __init__(self, table: VectorTable) -> None:
        self.table = table
        self.index: dict[str, int] = {}

    def find(self, words: Sequence[str]) -> NDArray[np.int64]:
        """The number of each word; -1 where there is none."""
        return np.fromiter(map(self.index.get, words, repeat(-1)), dtype=np.int64, count=len(words))

    def add(self, words: list[str], vectors: Any) -> None:
        """Append words, except those already added by another thread."""
        new = [number for number, word in enumerate(words) if word not in self.index]
        first = len(self.table)
        self.table.append(vectors if len(new) == len(words) else vectors[new])
        # The index follows the table: an interruption in between leaves rows without a word, which are harmless.
        self.index.update((words[number], first + index) for index, number in enumerate(new))
