"""Hold documents out of training: the same ones for the same seed, wherever the corpus is prepared."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.corpus.numbering import DOCUMENT


class HeldoutSplit(NamedTuple):
    """A piece of a stream, parted."""

    train: NDArray[np.uint32]
    heldout: NDArray[np.uint32]


def choose_heldout(documents: int, *, share: float, seed: int) -> NDArray[np.bool_]:
    """For each document whether it is held out, by a hash of the seed and its number.

    Of two documents or more at least one is held out, unless the share is 0, and at least one is not.

    >>> choose_heldout(8, share=0.25, seed=1).nonzero()[0].tolist()
    [6, 7]
    """
    draws = _hashes(np.arange(documents, dtype=np.uint64), seed)
    is_heldout = draws < np.uint64(int(share * 2**64))
    if share > 0 and documents > 1:
        is_heldout[draws.argmin()] = True
        is_heldout[draws.argmax()] = False
    return is_heldout


def split_heldout(chunks: Iterable[NDArray[np.uint32]], is_heldout: NDArray[np.bool_]) -> Iterator[HeldoutSplit]:
    """Part the stream of a draft, piece by piece, into what is trained on and what is held out, in the same order.

    >>> stream = np.array([DOCUMENT, 7, 0, 8, 0, DOCUMENT, 9, 0], dtype=np.uint32)
    >>> list(split_heldout([stream], np.array([True, False])))
    [HeldoutSplit(train=array([9, 0], dtype=uint32), heldout=array([7, 0, 8, 0], dtype=uint32))]
    """
    document = -1
    for chunk in chunks:
        opens = chunk == DOCUMENT
        documents = document + np.cumsum(opens)
        document = int(documents[-1])
        apart = is_heldout[documents]
        yield HeldoutSplit(chunk[~apart & ~opens], chunk[apart & ~opens])


def _hashes(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Spread numbers evenly over 64 bits."""
    return _mixed(numbers + _mixed(np.array([seed % 2**64], dtype=np.uint64)))


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
