"""Text in rows that run side by side: steps, passages, and the row that takes each passage.

The forward direction reads `<S> w1 … wn` and predicts `w1 … wn </S>`. The backward direction reads `</S> wn … w1` and
predicts `wn … w1 <S>`. As in pretraining, the last word of a sentence in either direction is a target, never an input.

G directions, T steps.
"""

import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.config import Direction, ModelConfig

Words = Sequence[str]
Passage = Sequence[Words]  # consecutive sentences
ReadingStep = tuple[tuple[str, str], ...]  # for each direction an input word and its target
Scores = NDArray[np.floating]  # (G, T) natural logarithms of probabilities

CHUNK_STEPS = 32


class ScoredSentence(NamedTuple):
    """A sentence and the log-probabilities of its words."""

    words: Words
    log_probabilities: Scores  # (G, words + 1) in each direction's reading order, so that the sentence's end is last


def steps_of(passage: Passage, config: ModelConfig) -> list[ReadingStep]:
    """The steps of each direction through a passage; the backward direction starts with the last sentence.

    >>> steps_of([["a", "b"]], ModelConfig())
    [(('<S>', 'a'), ('</S>', 'b')), (('a', 'b'), ('b', 'a')), (('b', '</S>'), ('a', '<S>'))]
    """
    readings = {
        "forward": (pairwise([config.bos_token, *words, config.eos_token]) for words in passage),
        "backward": (pairwise([config.eos_token, *words[::-1], config.bos_token]) for words in passage[::-1]),
    }
    return list(zip(*(chain.from_iterable(readings[name]) for name in config.direction_names), strict=True))


class Rows:
    """Assigns each passage to the row that finishes its passages first.

    All rows run a chunk of steps at a time; results come in the order of the passages.
    """

    def __init__(self, passages: Iterator[Passage], *, rows: int, config: ModelConfig) -> None:
        self._passages = enumerate(passages)
        self._config = config
        self._rows = [_Row(config.direction_names) for _ in range(rows)]  # in the order of the last chunks
        self._free = [(0, number, row) for number, row in enumerate(self._rows)]  # a heap, by assigned steps
        self._end = 0  # of the last chunks, in steps
        self._done: dict[int, list[ScoredSentence]] = {}
        self._due = 0

    def next_chunks(self) -> tuple[list[int], list[list[ReadingStep]]]:
        """The next steps of all rows that have any, longest first, and the indices of these rows in the last chunks."""
        self._end += CHUNK_STEPS
        while self._free[0][0] < self._end and (item := next(self._passages, None)):
            assigned, number, row = self._free[0]
            steps = steps_of(item[1], self._config)
            row.append(*item, steps)
            heapq.heapreplace(self._free, (assigned + len(steps), number, row))
        # Only after the last passage do rows have less than a chunk; a row without steps is finished.
        indices = sorted(range(len(self._rows)), key=lambda index: -len(self._rows[index].steps))
        indices = [index for index in indices if self._rows[index].steps]
        self._rows = [self._rows[index] for index in indices]
        return indices, [row.next_chunk() for row in self._rows]

    def completed(self, scores: Sequence[Scores]) -> Iterator[ScoredSentence]:
        """Add the scores of the last chunks; yields the sentences that are complete, in order."""
        for row, own in zip(self._rows, scores, strict=True):
            self._done.update(row.completed(own))
        while self._due in self._done:
            yield from self._done.pop(self._due)
            self._due += 1


class _Row:
    """The passages of a row, and their scores so far."""

    def __init__(self, directions: Sequence[Direction]) -> None:
        self._directions = directions
        self.steps: list[ReadingStep] = []  # remaining
        self._open: deque[tuple[int, Passage]] = deque()  # passages that are not complete, with their numbers
        self._scores: list[Scores] = []  # of the open passages
        self._scored = 0

    def append(self, number: int, passage: Passage, steps: list[ReadingStep]) -> None:
        self._open.append((number, passage))
        self.steps += steps

    def next_chunk(self) -> list[ReadingStep]:
        chunk, self.steps = self.steps[:CHUNK_STEPS], self.steps[CHUNK_STEPS:]
        return chunk

    def completed(self, scores: Scores) -> Iterator[tuple[int, list[ScoredSentence]]]:
        self._scores.append(scores)
        self._scored += scores.shape[1]
        while self._open and (length := sum(len(words) + 1 for words in self._open[0][1])) <= self._scored:
            number, passage = self._open.popleft()
            own, rest = np.split(np.concatenate(self._scores, axis=1), [length], axis=1)
            self._scores, self._scored = [rest], rest.shape[1]
            yield number, _by_sentence(passage, own, self._directions)


def _by_sentence(passage: Passage, scores: Scores, directions: Sequence[Direction]) -> list[ScoredSentence]:
    ends = np.cumsum([len(words) + 1 for words in passage])
    parts = [
        np.split(own, ends[:-1]) if name == "forward" else np.split(own, (ends[-1] - ends[:-1])[::-1])[::-1]
        for name, own in zip(directions, scores, strict=True)
    ]
    return [ScoredSentence(words, np.stack(own)) for words, *own in zip(passage, *parts, strict=True)]
