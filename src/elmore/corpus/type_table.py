"""The word types of a corpus, by falling count, and how often each occurs in either part."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmore.corpus.heldout import split_heldout
from elmore.corpus.numbering import BOUNDARY, Draft


@dataclass(frozen=True)
class TypeTable:
    """N types by their final numbers, with their counts in the finished streams: a boundary more than sentences."""

    words: list[str]
    train: NDArray[np.int64]  # (N,)
    heldout: NDArray[np.int64]  # (N,)
    renumbered: NDArray[np.uint32]  # (N,) for each number of the draft the final one

    @classmethod
    def of(cls, draft: Draft, is_heldout: NDArray[np.bool_]) -> "TypeTable":
        """Count the types of a draft and rank them: <S> and </S>, then by falling count in the training part.

        Types that occur as often, the ones that are only held out among them, stand in the order of their code points.
        """
        words = draft.words
        train, heldout = np.zeros(len(words), dtype=np.int64), np.zeros(len(words), dtype=np.int64)
        train[BOUNDARY] = heldout[BOUNDARY] = 1  # a stream begins with one
        for parts in split_heldout(draft.chunks(), is_heldout):
            train += np.bincount(parts.train, minlength=len(words))
            heldout += np.bincount(parts.heldout, minlength=len(words))
        alphabetic = np.array(sorted(range(2, len(words)), key=words.__getitem__))
        # A stable sort keeps the order of equals, and is much quicker than one by pairs of count and word.
        ranking = np.concatenate([[0, 1], alphabetic[np.argsort(-train[alphabetic], kind="stable")]])
        renumbered = np.empty(len(words), dtype=np.uint32)
        renumbered[ranking] = np.arange(len(words), dtype=np.uint32)
        return cls([words[number] for number in ranking.tolist()], train[ranking], heldout[ranking], renumbered)
