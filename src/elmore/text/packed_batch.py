"""Sentences packed into rows, one after another, for kernels that read rows of several sentences.

A GPU wants thousands of rows at once, and sentences end at different times. Packed, all rows end at about the same
time, whatever the lengths of their sentences: there is next to no padding, and no batch of a few long sentences.

N sentences, R rows, T steps, K words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.config import Direction
from elmore.devices import send

Counts = NDArray[np.int64]


class Packing(NamedTuple):
    """Which row each sentence stands in, and where it begins."""

    rows: Counts  # (N,)
    offsets: Counts  # (N,)
    row_lengths: Counts  # (R,) never rising


def pack(lengths: Counts, rows: int) -> Packing:
    """Put sentences of these lengths into so many rows that end at about the same time; fewer, if there are fewer.

    Longest first, each into one of the emptiest rows.

    >>> pack(np.array([2, 5, 3, 4]), rows=2)
    Packing(rows=array([0, 0, 1, 1]), offsets=array([5, 0, 4, 0]), row_lengths=array([7, 7]))
    """
    rows = min(rows, len(lengths))
    filled = np.zeros(rows, dtype=np.int64)
    row, offset = np.zeros_like(lengths), np.zeros_like(lengths)
    order = np.argsort(-lengths, kind="stable")
    target = -(-int(lengths.sum()) // max(rows, 1))
    done = 0
    while done < len(order):
        longest = int(lengths[order[done]])
        emptiest = np.argsort(filled, kind="stable")
        # Whole groups of rows at a time; where hardly any has room left, they all may become a little longer.
        n = int(np.searchsorted(filled[emptiest], target - longest, side="right"))
        if n < min(max(rows // 8, 1), len(order) - done):
            target += max(longest // 4, 1)
            continue
        chosen = order[done : done + n]
        into = emptiest[: len(chosen)]
        row[chosen], offset[chosen] = into, filled[into]
        filled[into] += lengths[chosen]
        done += len(chosen)
    by_length = np.argsort(-filled, kind="stable")
    return Packing(np.argsort(by_length)[row], offset, filled[by_length])


@dataclass(frozen=True)
class PackedBatch:
    """N sentences over words that are rows of a table, packed into R rows of up to T steps, boundaries included."""

    lengths: Sequence[int]  # (N,) in words, boundaries not counted
    word_numbers: Tensor  # (K,) the words of all sentences, one sentence after another
    boundaries: tuple[int, int]  # the numbers of the words that open and close a sentence
    row_lengths: Sequence[int]  # (R,) in steps; never rising
    sentences: Tensor  # (3, N) of each sentence the row, the first step and the number of words

    @classmethod
    def of(
        cls, word_numbers: Tensor, lengths: Counts, *, boundaries: tuple[int, int], rows: int, device: torch.device
    ) -> "PackedBatch":
        """Pack sentences into at most so many rows."""
        packing = pack(lengths + 2, rows)
        sentences = torch.from_numpy(np.stack([packing.rows, packing.offsets, lengths]))
        return cls(
            lengths.tolist(),
            send(word_numbers, device),
            boundaries,
            packing.row_lengths.tolist(),
            send(sentences, device),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def steps(self) -> int:
        return self.row_lengths[0] if self.row_lengths else 0

    @cached_property
    def _row_ends(self) -> Tensor:
        """(N,) the last step of the row that each sentence stands in."""
        lengths = send(torch.tensor(self.row_lengths, dtype=torch.int64), self.sentences.device)
        return lengths[self.sentences[0]] - 1

    def _step(self, place: Tensor, ends: Tensor, direction: Direction) -> Tensor:
        """When a direction reads a place of a row: a row is turned round as a whole."""
        return place if direction == "forward" else ends - place

    def places(self, direction: Direction) -> Tensor:
        """(K,) where each word stands in (T, R), flat."""
        row, first, length = self.sentences
        words = len(self.word_numbers)
        before = length.cumsum(0) - length
        own = torch.repeat_interleave(
            torch.stack([row, first + 1 - before, self._row_ends]), length, 1, output_size=words
        )
        place = own[1] + torch.arange(words, device=length.device)
        return self._step(place, own[2], direction) * len(self.row_lengths) + own[0]

    def words_and_starts(self, direction: Direction) -> tuple[Tensor, Tensor]:
        """(T, R) the word of each step, 0 beyond a row's end; and 1 where a sentence starts."""
        row, first, length = self.sentences
        rows = len(self.row_lengths)
        open_at, close_at = (
            self._step(place, self._row_ends, direction) * rows + row for place in (first, first + length + 1)
        )
        words = self.word_numbers.new_zeros(self.steps * rows)
        words[self.places(direction)] = self.word_numbers
        opening, closing = self.boundaries
        words.index_fill_(0, open_at, opening).index_fill_(0, close_at, closing)
        starts = torch.zeros(self.steps * rows, dtype=torch.uint8, device=words.device)
        starts.index_fill_(0, open_at if direction == "forward" else close_at, 1)
        return words.view(self.steps, rows), starts.view(self.steps, rows)
