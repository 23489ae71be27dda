"""Text laid out for reading in each direction: steps, passages, and rows that are read side by side.

Forwards `<S> w1 … wn` is read and `w1 … wn </S>` predicted, backwards `</S> wn … w1` is read and `wn … w1 <S>`
predicted, as in training: the last word of a sentence, read either way, is a target and never an input.

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
Passage = Sequence[Words]  # sentences that follow each other
ReadingStep = tuple[tuple[str, str], ...]  # for each direction the word read, and the word to predict after it
Scores = NDArray[np.floating]  # (G, T) natural logarithms of probabilities

CHUNK_STEPS = 32


class Predicted(NamedTuple):
    """A sentence, and how probable each word of it was."""

    words: Words
    log_probabilities: Scores  # (G, words + 1) each direction in its own reading order, so that its end comes last


def steps_of(passage: Passage, config: ModelConfig) -> list[ReadingStep]:
    """What is read of a passage and what is to be predicted; backwards its last sentence comes first.

    >>> steps_of([["a", "b"]], ModelConfig())
    [(('<S>', 'a'), ('</S>', 'b')), (('a', 'b'), ('b', 'a')), (('b', '</S>'), ('a', '<S>'))]
    """
    readings = {
        "forward": (pairwise([config.bos_token, *words, config.eos_token]) for words in passage),
        "backward": (pairwise([config.eos_token, *words[::-1], config.bos_token]) for words in passage[::-1]),
    }
    return list(zip(*(chain.from_iterable(readings[name]) for name in config.direction_names), strict=True))


class Rows:
    """Passages dealt out to rows: the row that is first to have read all it was given takes the next one.

    All rows are read a chunk at a time; the results come in the order of the passages.
    """

    def __init__(self, passages: Iterator[Passage], *, rows: int, config: ModelConfig) -> None:
        self._passages = enumerate(passages)
        self._config = config
        self._rows = [_Row(config.direction_names) for _ in range(rows)]  # as they stand in the last chunks
        self._free = [(0, number, row) for number, row in enumerate(self._rows)]  # a heap, by the steps given so far
        self._end = 0  # of the last chunks, in steps
        self._done: dict[int, list[Predicted]] = {}
        self._due = 0

    def next_chunks(self) -> tuple[list[int], list[list[ReadingStep]]]:
        """The next steps of all rows that have any, longest first, and which places these rows had among the last."""
        self._end += CHUNK_STEPS
        while self._free[0][0] < self._end and (item := next(self._passages, None)):
            given, number, row = self._free[0]
            steps = steps_of(item[1], self._config)
            row.append(*item, steps)
            heapq.heapreplace(self._free, (given + len(steps), number, row))
        # Only after the last passage have rows less to read than a chunk; one with nothing at all is finished.
        places = sorted(range(len(self._rows)), key=lambda place: -len(self._rows[place].steps))
        places = [place for place in places if self._rows[place].steps]
        self._rows = [self._rows[place] for place in places]
        return places, [row.next_chunk() for row in self._rows]

    def completed(self, scores: Sequence[Scores]) -> Iterator[Predicted]:
        """Take the scores of the last chunks, and give the sentences that are due and complete."""
        for row, found in zip(self._rows, scores, strict=True):
            self._done.update(row.completed(found))
        while self._due in self._done:
            yield from self._done.pop(self._due)
            self._due += 1


class _Row:
    """Passages laid end to end, and what is known of them so far."""

    def __init__(self, directions: Sequence[Direction]) -> None:
        self._directions = directions
        self.steps: list[ReadingStep] = []  # still to be read
        self._open: deque[tuple[int, Passage]] = deque()  # those whose end was not read yet, with their numbers
        self._scores: list[Scores] = []  # of the open passages
        self._scored = 0

    def append(self, number: int, passage: Passage, steps: list[ReadingStep]) -> None:
        self._open.append((number, passage))
        self.steps += steps

    def next_chunk(self) -> list[ReadingStep]:
        chunk, self.steps = self.steps[:CHUNK_STEPS], self.steps[CHUNK_STEPS:]
        return chunk

    def completed(self, scores: Scores) -> Iterator[tuple[int, list[Predicted]]]:
        self._scores.append(scores)
        self._scored += scores.shape[1]
        while self._open and (length := sum(len(words) + 1 for words in self._open[0][1])) <= self._scored:
            number, passage = self._open.popleft()
            mine, rest = np.split(np.concatenate(self._scores, axis=1), [length], axis=1)
            self._scores, self._scored = [rest], rest.shape[1]
            yield number, _by_sentence(passage, mine, self._directions)


def _by_sentence(passage: Passage, scores: Scores, directions: Sequence[Direction]) -> list[Predicted]:
    ends = np.cumsum([len(words) + 1 for words in passage])
    parts = [
        np.split(found, ends[:-1]) if name == "forward" else np.split(found, (ends[-1] - ends[:-1])[::-1])[::-1]
        for name, found in zip(directions, scores, strict=True)
    ]
    return [Predicted(words, np.stack(found)) for words, *found in zip(passage, *parts, strict=True)]
