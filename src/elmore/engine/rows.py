"""Sentences packed into rows, one after another, for engines that run many rows side by side.

All rows end at about the same step, for any lengths of sentences: there is little padding, and no batch of a few long
sentences. The state starts again where a sentence starts.

N sentences, K words of all sentences, R rows, T steps, G directions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.config import Direction

Indices = NDArray[np.int64]


class RowSteps(NamedTuple):
    """The word that each row reads at each step, in the reading order of each direction."""

    words: Indices  # (G, T, R) rows of the table of word vectors; any valid row beyond a row's end
    lengths: Indices  # (R,) steps of each row, never increasing
    starts: NDArray[np.uint8] | None  # (G, T, R) 1 where the state starts again; None: never


class RowPacking(NamedTuple):
    """The row of each sentence, and the step at which it begins."""

    rows: Indices  # (N,)
    offsets: Indices  # (N,)
    row_lengths: Indices  # (R,) never increasing


def pack_rows(lengths: Indices, rows: int) -> RowPacking:
    """Assign sentences of these lengths to at most `rows` rows that end at about the same step.

    The longest sentences come first, each into one of the emptiest rows.

    >>> pack_rows(np.array([2, 5, 3, 4]), rows=2)
    RowPacking(rows=array([0, 0, 1, 1]), offsets=array([5, 0, 4, 0]), row_lengths=array([7, 7]))
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
        # Groups of rows at a time; where few rows have room left, all rows may become a little longer.
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
    return RowPacking(np.argsort(by_length)[row], offset, filled[by_length])


@dataclass(frozen=True)
class PackedRows:
    """N sentences over numbered words, packed into R rows of up to T steps, boundaries included."""

    words: Indices  # (K,) rows of the table of word vectors, one sentence after another
    lengths: Indices  # (N,) words of each sentence, boundaries not counted
    boundaries: tuple[int, int]  # the numbers of the words that open and close a sentence
    packing: RowPacking
    carried: bool = False  # one sentence in each row, each from a separate state

    @classmethod
    def pack(cls, words: Indices, lengths: Indices, *, boundaries: tuple[int, int], rows: int) -> "PackedRows":
        """Pack sentences into at most `rows` rows; each sentence starts from the start state."""
        return cls(words, lengths, boundaries, pack_rows(lengths + 2, rows))

    @classmethod
    def one_per_row(cls, words: Indices, lengths: Indices, *, boundaries: tuple[int, int]) -> "PackedRows":
        """One sentence in each row, each from the state of this row; `packing.rows` has the row of each sentence."""
        order = np.argsort(-lengths, kind="stable")
        rows = np.empty_like(order)
        rows[order] = np.arange(len(order))
        packing = RowPacking(rows, np.zeros_like(lengths), lengths[order] + 2)
        return cls(words, lengths, boundaries, packing, carried=True)

    @property
    def num_rows(self) -> int:
        return len(self.packing.row_lengths)

    @property
    def num_steps(self) -> int:
        return int(self.packing.row_lengths[0]) if self.num_rows else 0

    def steps(self, directions: Sequence[Direction]) -> RowSteps:
        """The steps of all rows."""
        size = self.num_steps * self.num_rows
        opening, closing = self.boundaries
        words = np.full((len(directions), size), opening, dtype=np.int64)
        starts = None if self.carried else np.zeros((len(directions), size), dtype=np.uint8)
        first = self.packing.offsets
        for number, direction in enumerate(directions):
            words[number, self.positions(direction)] = self.words
            opened, closed = (self._flat(at, self.packing.rows, direction) for at in (first, first + self.lengths + 1))
            words[number, opened], words[number, closed] = opening, closing
            if starts is not None:
                starts[number, opened if direction == "forward" else closed] = 1
        shape = (len(directions), self.num_steps, self.num_rows)
        return RowSteps(
            words.reshape(shape), self.packing.row_lengths, None if starts is None else starts.reshape(shape)
        )

    def positions(self, direction: Direction, *, boundaries: bool = False) -> Indices:
        """(K,) where a direction reads each word, in (T, R) flattened; with boundaries (K + 2 N,)."""
        lengths = self.lengths + 2 if boundaries else self.lengths
        first = self.packing.offsets if boundaries else self.packing.offsets + 1
        before = np.cumsum(lengths) - lengths
        steps = np.repeat(first - before, lengths) + np.arange(int(lengths.sum()))
        return self._flat(steps, np.repeat(self.packing.rows, lengths), direction)

    def words_with_boundaries(self) -> Indices:
        """(K + 2 N,) the words of all sentences, each with the two boundaries."""
        opening, closing = self.boundaries
        ends = np.cumsum(self.lengths)
        between = np.stack([ends - self.lengths, ends], axis=1).ravel()
        return np.insert(self.words, between, [opening, closing] * len(ends))

    def _flat(self, steps: Indices, rows: Indices, direction: Direction) -> Indices:
        """Positions in (T, R): a backward direction reads each row from its end."""
        if direction == "backward":
            steps = self._last_steps[rows] - steps
        return steps * self.num_rows + rows

    @cached_property
    def _last_steps(self) -> Indices:
        return self.packing.row_lengths - 1


def bucket_by_length(lengths: Iterable[int], *, tokens: int, rows: int | None = None) -> list[list[int]]:
    """Group items of similar length into batches of at most `tokens` positions, padding included, and `rows` rows.

    Longest first; an item longer than the budget is a batch of one.

    >>> bucket_by_length([3, 9, 4, 4], tokens=12)
    [[1], [2, 3, 0]]
    """
    sizes = list(lengths)
    batches: list[list[int]] = []
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        batch = batches[-1] if batches else []
        # The first row of a batch is its longest.
        if batch and (len(batch) + 1) * sizes[batch[0]] <= tokens and (rows is None or len(batch) < rows):
            batch.append(number)
        else:
            batches.append([number])
    return batches
