"""A batch: each distinct word once, and for every sentence which word stands where."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from elmore.config import ModelConfig
from elmore.text.spelling import Speller, WordInputs


@dataclass(frozen=True)
class Batch:
    """B sentences over W distinct words; T positions, the two boundary words included.

    Rows stand longest first, as the recurrence wants them; `unsorted_indices`, as in torch's PackedSequence, leads
    back to the caller's order.
    """

    inputs: WordInputs  # of the W distinct words; with no part where their vectors come from elsewhere
    word_indices: Tensor  # (B, T) which distinct word stands here; 0 beyond a sentence's end
    lengths: tuple[int, ...]  # of each row, boundaries included; never rising
    sorted_indices: Tensor  # (B,) the caller's number of each row
    words: tuple[str, ...] = ()  # the W distinct words, where they are known as text

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], speller: Speller) -> "Batch":
        """Put boundaries around each sentence and number its words.

        >>> from elmore.config import SMALL
        >>> batch = Batch.of([["a", "b"], ["b", "a", "b", "b"]], Speller(SMALL))
        >>> batch.words, batch.lengths, batch.sorted_indices.tolist()
        (('<S>', '</S>', 'a', 'b'), (6, 4), [1, 0])
        """
        batch = cls.of_words(sentences, speller.config)
        return replace(batch, inputs=speller.spell(batch.words))

    @classmethod
    def of_words(cls, sentences: Sequence[Sequence[str]], config: ModelConfig) -> "Batch":
        """As `of`, but with no word spelt: for whoever has the vectors of the words from elsewhere."""
        indices = {config.begin: 0, config.end: 1}
        rows = []
        for sentence in sentences:
            rows.append([0, *(indices.setdefault(word, len(indices)) for word in sentence), 1])
        return cls.of_rows(rows, WordInputs(None, None), words=tuple(indices))

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int]], inputs: WordInputs, *, words: tuple[str, ...] = ()) -> "Batch":
        """Arrange rows of word numbers, boundaries already among them."""
        order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
        lengths = tuple(len(rows[row]) for row in order)
        # A batch without sentences is as wide as an empty sentence, so that it can be read like any other.
        word_indices = torch.zeros(len(rows), max(lengths, default=2), dtype=torch.int64)
        for to, row in enumerate(order):
            word_indices[to, : lengths[to]] = torch.as_tensor(rows[row])
        return cls(inputs, word_indices, lengths, torch.tensor(order, dtype=torch.int64), words)

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device | str) -> "Batch":
        return replace(
            self,
            inputs=self.inputs.to(device),
            word_indices=self.word_indices.to(device),
            sorted_indices=self.sorted_indices.to(device),
        )

    def pin_memory(self) -> "Batch":
        """For a DataLoader that copies to a GPU in the background."""
        inputs = WordInputs(*(None if part is None else part.pin_memory() for part in self.inputs))
        return replace(
            self,
            inputs=inputs,
            word_indices=self.word_indices.pin_memory(),
            sorted_indices=self.sorted_indices.pin_memory(),
        )

    @cached_property
    def unsorted_indices(self) -> Tensor:
        """(B,) the row of each of the caller's sentences."""
        return self.sorted_indices.argsort()


def bucket_by_length(lengths: Iterable[int], *, tokens: int, rows: int | None = None) -> list[list[int]]:
    """Group sentences of like length into batches of at most `tokens` positions, padding counted, and `rows` rows.

    Longest first; a sentence longer than the budget is a batch of its own.

    >>> bucket_by_length([3, 9, 4, 4], tokens=12)
    [[1], [2, 3, 0]]
    """
    sizes = list(lengths)
    batches: list[list[int]] = []
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        batch = batches[-1] if batches else []
        # Rows come longest first, so the first row of a batch is as long as it gets.
        if batch and (len(batch) + 1) * sizes[batch[0]] <= tokens and (rows is None or len(batch) < rows):
            batch.append(number)
        else:
            batches.append([number])
    return batches
