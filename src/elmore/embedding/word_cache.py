"""Word vectors that were computed before, over the whole stream: text repeats, and a word is spelt and encoded once."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from elmore.model import Model

DEFAULT_BYTES = 64 * 2**20

LARGEST_GROUP = 1024  # of words that are encoded together

# About what a word costs beside its vector: its characters, and its place in the table's index.
WORD_BYTES = 200


class WordCache:
    """The vectors of words, from memory where they are known; the least recently used go first.

    >>> from elmore.model import load
    >>> WordCache(load("tiny-random")).vectors(["take", "a", "bow"]).shape
    torch.Size([3, 16])
    """

    def __init__(self, model: Model, *, max_bytes: int = DEFAULT_BYTES) -> None:
        self._model = model
        self._capacity = max(max_bytes // (4 * model.config.vector_dim + WORD_BYTES), 1)
        self._start_empty()

    def _start_empty(self) -> None:
        # One table, because a small tensor for each word takes several times the memory of its numbers.
        self._table: Tensor | None = None  # (capacity, P)
        self._rows: OrderedDict[str, int] = OrderedDict()  # in the table; least recently used first
        self._generation: int | None = None  # of the weights that the vectors are from
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """What a copy, or another process, needs: not the memory."""
        return {"_model": self._model, "_capacity": self._capacity}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_empty()

    def __len__(self) -> int:
        return len(self._rows)

    def vectors(self, words: Sequence[str]) -> Tensor:
        """(W, P) the vectors of distinct words, on the model's device."""
        with self._lock:
            self._forget_if_trained()
            missing = [number for number, word in enumerate(words) if word not in self._rows]
            if not missing:
                return self._recalled(words)
            new = [words[number] for number in missing]
            fresh = self._encoded(new)
            if len(missing) == len(words):
                vectors = fresh
            else:
                known = [number for number, word in enumerate(words) if word in self._rows]
                vectors = fresh.new_empty(len(words), fresh.shape[1])
                vectors[missing] = fresh
                vectors[known] = self._recalled([words[number] for number in known])
            self._remember(new, fresh)
            return vectors

    def _encoded(self, words: list[str]) -> Tensor:
        """(W, P) the vectors of these words, computed."""
        # A word must have the same vector, to the bit, whichever words it was encoded with.
        multiple = self._model.network.words.group_size()
        groups = []
        for start in range(0, len(words), LARGEST_GROUP):
            group = words[start : start + LARGEST_GROUP]
            filled = group + group[:1] * (-len(group) % multiple)
            inputs = self._model.speller.spell(filled).to(self._model.device)
            groups.append(self._model.network.words(inputs)[: len(group)])
        return torch.cat(groups)

    def _recalled(self, words: Sequence[str]) -> Tensor:
        assert self._table is not None
        for word in words:
            self._rows.move_to_end(word)
        return self._table[[self._rows[word] for word in words]]

    def _remember(self, words: list[str], vectors: Tensor) -> None:
        words, vectors = words[-self._capacity :], vectors[-self._capacity :]
        if self._table is None:
            # An ordinary tensor, which may be written to later both inside and outside of inference mode.
            with torch.inference_mode(mode=False):
                self._table = vectors.new_empty(self._capacity, vectors.shape[1])
        try:
            for word in words:
                full = len(self._rows) == self._capacity
                self._rows[word] = self._rows.popitem(last=False)[1] if full else len(self._rows)
            self._table[[self._rows[word] for word in words]] = vectors
        except BaseException:
            # Stopped half-way, by Ctrl-C say: an index that does not fit its table would give wrong vectors for good.
            self._forget()
            raise

    def _forget_if_trained(self) -> None:
        generation = self._model.network.words.weight_generation()
        if generation != self._generation:
            self._forget()
            self._generation = generation

    def _forget(self) -> None:
        self._rows.clear()
        self._table = None
