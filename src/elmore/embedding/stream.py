"""Sentences in, vectors out, in the caller's order, for streams of any length in bounded memory.

Two ways of reading. From the fixed state, sentences of like length are batched together, and the order of work is
free. With the state carried on, batches are rows in the caller's order, and each row goes on where the batch before
left it, as in AllenNLP and bilm-tf.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from elmore.embedding.layer_choice import LayerChoice
from elmore.embedding.word_cache import WordCache
from elmore.errors import InputWarning, OutOfMemory
from elmore.model import Model
from elmore.network.state import State
from elmore.text.batch import Batch, plan

Words = Sequence[str]
Vectors = NDArray[np.floating]  # (words, dim) or (layers, words, dim)

# How many batches are read ahead to find sentences of like length; bounds padding and memory alike.
BATCHES_AHEAD = 16


class Reader:
    """Reads sentences with one model and takes the chosen layers of them."""

    def __init__(self, model: Model, cache: WordCache, choice: LayerChoice, dtype: torch.dtype) -> None:
        self.model = model
        self.cache = cache
        self.choice = choice
        self.dtype = dtype

    def from_fixed_state(
        self, sentences: Iterable[Words], *, batch_tokens: int, batch_size: int | None
    ) -> Iterator[Vectors]:
        """Read every sentence from the model's start state."""
        for window in _windows(sentences, tokens=batch_tokens * BATCHES_AHEAD):
            results: dict[int, Vectors] = {}
            for numbers in plan((len(words) + 2 for words in window), tokens=batch_tokens, rows=batch_size):
                start = self.model.start.repeat(len(numbers))
                vectors, _ = self._read([window[number] for number in numbers], start)
                results.update(zip(numbers, vectors, strict=True))
            for number in range(len(window)):
                yield results.pop(number)

    def carrying_state(self, sentences: Iterable[Words], *, batch_size: int) -> Iterator[Vectors]:
        """Read batches of `batch_size` sentences as they come; row r starts where row r of the batch before ended."""
        state = self.model.start.first(0)
        rows: list[Words] = []
        for words in sentences:
            rows.append(words)
            if len(rows) == batch_size:
                vectors, state = self._carry(rows, state)
                yield from vectors
                rows = []
        if rows:
            yield from self._carry(rows, state)[0]

    def _carry(self, rows: Sequence[Words], state: State) -> tuple[list[Vectors], State]:
        vectors, after = self._read(rows, state.first(len(rows)))
        return vectors, state.updated(after)

    def _read(self, sentences: Sequence[Words], state: State) -> tuple[list[Vectors], State]:
        """Read one batch; where it does not fit into memory, its halves."""
        try:
            with torch.inference_mode():
                batch = Batch.of_words(sentences, self.model.config).to(self.model.device)
                vectors = self.cache.vectors(batch.words)
                layers, after = self.model.network.read(vectors, batch, state, depth=self.choice.depth)
                return self.choice.take(layers, dtype=self.dtype), after
        except (MemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
        # Past the except block, so that what the failed try held is free again.
        if len(sentences) == 1:
            raise OutOfMemory(
                f"one sentence of {len(sentences[0])} words does not fit into memory; cut it, or use a smaller model"
            )
        half = len(sentences) // 2
        warnings.warn(
            f"a batch of {len(sentences)} sentences did not fit into memory; trying it in halves "
            "(a smaller batch_tokens avoids this)",
            InputWarning,
            stacklevel=2,
        )
        everyone = torch.arange(len(sentences), device=state.h.device)
        first, first_state = self._read(sentences[:half], state.select(everyone[:half]))
        second, second_state = self._read(sentences[half:], state.select(everyone[half:]))
        joined = State(torch.cat([first_state.h, second_state.h], 2), torch.cat([first_state.c, second_state.c], 2))
        return first + second, joined


def _windows(sentences: Iterable[Words], *, tokens: int) -> Iterator[list[Words]]:
    window: list[Words] = []
    total = 0
    for words in sentences:
        window.append(words)
        total += len(words) + 2
        if total >= tokens:
            yield window
            window, total = [], 0
    if window:
        yield window


def _out_of_memory(error: Exception) -> bool:
    # On the CPU torch raises a plain RuntimeError, told apart only by its text.
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
