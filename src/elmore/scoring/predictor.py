"""Reads sentences in each direction and says how probable each word was where it stood.

G directions, B rows, T steps, N positions of all rows, P vector size.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np
import torch
from torch import Tensor

from elmore.embedding.word_cache import WordCache
from elmore.errors import InputError
from elmore.model import Model
from elmore.network.state import State
from elmore.scoring.rows import Predicted, Rows, Scores, Step, Words, steps_of
from elmore.scoring.softmax import Softmax
from elmore.text.batch import plan

SENTENCES_AHEAD = 1024  # among which those of like length are batched together
BATCH_STEPS = 2048


class Predictor:
    """A model with its softmax, ready to be asked.

    Making one reads the softmax, which may be large: whoever asks often makes it once, and gives it to `perplexity`,
    `surprisal` or `substitutes` in place of the model.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.softmax = Softmax.of(model)
        self._cache = WordCache(model.network.words, vector_dim=model.config.vector_dim)

    @classmethod
    def of(cls, model: "Model | Predictor") -> "Predictor":
        """A predictor for the model; itself, if it is one."""
        return model if isinstance(model, Predictor) else cls(model)

    def from_fixed_state(self, sentences: Iterable[Words]) -> Iterator[Predicted]:
        """Read every sentence from the model's start state: what is said of one does not depend on the others."""
        source = _checked(sentences)
        while window := list(islice(source, SENTENCES_AHEAD)):
            results: dict[int, Predicted] = {}
            for numbers in plan((len(words) + 1 for words in window), tokens=BATCH_STEPS):
                rows = [steps_of([window[number]], self.model.config) for number in numbers]
                scores, _ = self._predict(rows, self.model.start.repeat(len(rows)))
                results.update((n, Predicted(window[n], found)) for n, found in zip(numbers, scores, strict=True))
            yield from (results.pop(number) for number in range(len(window)))

    def carrying_state(self, sentences: Iterable[Words], *, rows: int, passage: int) -> Iterator[Predicted]:
        """Read in rows that carry their state on, from zeros; a row that is free takes the next `passage` sentences.

        In a passage each sentence is read with the memory of its neighbours, forwards of those before it, backwards of
        those after it, as in our training. Passages of one sentence are what bilm-tf reads.
        """
        source = _checked(sentences)
        passages = iter(lambda: list(islice(source, passage)), [])
        text = Rows(passages, rows=rows, config=self.model.config)
        state = self.model.start.first(0).first(rows)
        while True:
            places, windows = text.next_windows()
            if not windows:
                return
            scores, state = self._predict(windows, state.select(self._tensor(places)))
            yield from text.finished(scores)

    def hidden(self, words: Words) -> Tensor:
        """(G, words + 1, P) what the top layer holds before each word of a sentence, each direction as it reads."""
        return self._read([steps_of([words], self.model.config)], self.model.start)[0]

    @torch.inference_mode()
    def _predict(self, rows: Sequence[list[Step]], state: State) -> tuple[list[Scores], State]:
        """The log-probabilities (G, T) of each row, longest first, and the state after them."""
        hidden, after = self._read(rows, state)
        classes = [[self.softmax.class_of(word) for _, word in steps] for steps in _by_direction(rows)]
        found = self.softmax.log_probabilities(hidden.flatten(0, 1), self._tensor(classes).flatten())
        ends = np.cumsum([len(row) for row in rows])
        return np.split(found.view(len(hidden), -1).cpu().numpy(), ends[:-1], axis=1), after

    @torch.inference_mode()
    def _read(self, rows: Sequence[list[Step]], state: State) -> tuple[Tensor, State]:
        """(G, N, P) the top outputs at all steps of all rows, longest first, and the state after them."""
        read = [[word for word, _ in steps] for steps in _by_direction(rows)]
        # A batch is how the word encoder takes words; this one is a sentence of all that are distinct.
        batch = self.model.batch([list(dict.fromkeys(chain.from_iterable(read)))])
        numbers = {word: number for number, word in enumerate(batch.words)}
        vectors = self._cache.vectors(batch)[self._tensor([[numbers[word] for word in words] for words in read])]
        lengths = tuple(len(row) for row in rows)
        there = torch.arange(lengths[0], device=vectors.device) < self._tensor(lengths)[:, None]  # (B, T)
        x = vectors.new_zeros(len(read), *reversed(there.shape), vectors.shape[-1])  # (G, T, B, P)
        x.transpose(1, 2)[:, there] = vectors
        outputs, after = self.model.network.run_lstm(x, lengths, state)
        return outputs[-1].transpose(1, 2)[:, there], after

    def _tensor(self, numbers: Sequence[object]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.model.device)


def _by_direction(rows: Sequence[list[Step]]) -> list[tuple[tuple[str, str], ...]]:
    """(G, N) what each direction reads and predicts, row after row."""
    return list(zip(*chain.from_iterable(rows), strict=True))


def _checked(sentences: Iterable[Words]) -> Iterator[Words]:
    for number, words in enumerate(sentences):
        # A string is a sequence of strings too, and its letters would be scored as words.
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise InputError(f"sentence {number} is not a list of words, each a string: {str(words)[:60]!r}")
        yield words
