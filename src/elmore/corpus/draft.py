"""The draft of a corpus: words become numbers, in the order of their first appearance.

The final numbers depend on the word counts, which are known only at the end. So the draft is written first, as a stream
of little-endian uint32: DOCUMENT before each document, its words, BOUNDARY after each sentence. It is read to count the
words, and again to write the corpus with the final numbers and without the documents that are held out.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmore.corpus.corpus import BEGIN, END
from elmore.corpus.parallel_map import parallel_map
from elmore.progress import Progress
from elmore.text.splitting import split_sentences
from elmore.text.style import TokenizerConfig
from elmore.text.tokenizer import Tokenizer

BOUNDARY, DOCUMENT = 0, 1  # the numbers of <S> and </S>, which words of the text never have
READ_SIZE = 1 << 21  # numbers of the draft in memory at a time
_BOUNDARY_WORDS = frozenset((BEGIN, END))


class NumberedBlock(NamedTuple):
    """A block of text with numbers for its words that are valid in this block only."""

    words: str  # the distinct words, one per line, from number 2
    stream: NDArray[np.uint32]
    dropped: Counter[str]


def number_block(block: str, *, style: TokenizerConfig) -> NumberedBlock:
    r"""Split and tokenize the lines of a block; an empty line begins a document.

    >>> number_block("\nb a b .\n\na", style=TokenizerConfig(tokenizer="whitespace"))[:2]
    ('b\na\n.', array([1, 2, 3, 2, 4, 0, 1, 3, 0], dtype=uint32))
    """
    tokenizer = Tokenizer(style)
    numbers = _new_numbers()
    stream = array("I")
    dropped: Counter[str] = Counter()
    for line in block.split("\n"):
        if not line:
            stream.append(DOCUMENT)
            continue
        for sentence in _sentences(line, style):
            words = tokenizer.tokenize(sentence).words
            if not _BOUNDARY_WORDS.isdisjoint(words):
                other_words = [word for word in words if word not in _BOUNDARY_WORDS]
                dropped["boundary_words"] += len(words) - len(other_words)
                words = other_words
            if not words:
                dropped["empty_sentences"] += 1
                continue
            stream.extend(map(numbers.__getitem__, words))
            stream.append(BOUNDARY)
    return NumberedBlock("\n".join(list(numbers)[2:]), np.array(stream, dtype=np.uint32), dropped)


class Draft:
    """The draft on disk, its words, and the counts of dropped items."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.documents = 0
        self.dropped: Counter[str] = Counter()
        self._numbers = _new_numbers()
        self._has_open_document = False  # the last document has no sentence yet

    @property
    def words(self) -> list[str]:
        """The word types, by their number in the draft."""
        return list(self._numbers)

    def write(
        self, blocks: Iterable[str], *, style: TokenizerConfig, workers: int, progress: Progress | None = None
    ) -> None:
        """Number all blocks, in several processes. The draft does not depend on the number of processes."""
        with self.path.open("wb") as file:
            for block in parallel_map(partial(number_block, style=style), blocks, workers=workers):
                stream = self._renumber(block)
                file.write(stream.astype("<u4", copy=False).tobytes())
                self.dropped.update(block.dropped)
                documents, sentences = np.count_nonzero(stream == DOCUMENT), np.count_nonzero(stream == BOUNDARY)
                self.documents += int(documents)
                if progress:
                    progress.advance(int(sentences), int(len(stream) - sentences - documents))

    def chunks(self) -> Iterator[NDArray[np.uint32]]:
        """The stream, in pieces of bounded size."""
        with self.path.open("rb") as file:
            while piece := file.read(4 * READ_SIZE):
                yield np.frombuffer(piece, dtype="<u4")

    def _renumber(self, block: NumberedBlock) -> NDArray[np.uint32]:
        """The stream of a block in the numbers of the draft, without documents that have no sentence."""
        words = block.words.split("\n") if block.words else []
        numbers = map(self._numbers.__getitem__, (BEGIN, END, *words))
        stream = np.fromiter(numbers, dtype=np.uint32, count=2 + len(words))[block.stream]
        if self._has_open_document:
            stream = np.concatenate([np.array([DOCUMENT], dtype=np.uint32), stream])
        is_start = stream == DOCUMENT
        self._has_open_document = bool(is_start[-1]) if len(is_start) else False
        # A start is dropped if another start follows, or the next block, which repeats it.
        is_followed_by_start = np.append(is_start[1:], True)
        without_empty: NDArray[np.uint32] = stream[~(is_start & is_followed_by_start)]
        return without_empty


class StreamParts(NamedTuple):
    """A piece of the stream, split into the two parts of a corpus."""

    train: NDArray[np.uint32]
    heldout: NDArray[np.uint32]


def choose_heldout(documents: int, *, share: float, seed: int) -> NDArray[np.bool_]:
    """Choose the documents to hold out, by a hash of the seed and the number of the document.

    With two or more documents, at least one is held out, unless the share is 0, and at least one is not.

    >>> choose_heldout(8, share=0.25, seed=1).nonzero()[0].tolist()
    [6, 7]
    """
    hashes = _hash(np.arange(documents, dtype=np.uint64), seed)
    is_heldout = hashes < np.uint64(int(share * 2**64))
    if share > 0 and documents > 1:
        is_heldout[hashes.argmin()] = True
        is_heldout[hashes.argmax()] = False
    return is_heldout


def split_heldout(chunks: Iterable[NDArray[np.uint32]], is_heldout: NDArray[np.bool_]) -> Iterator[StreamParts]:
    """Split the stream of a draft, piece by piece, into training and held-out documents, without DOCUMENT.

    >>> stream = np.array([DOCUMENT, 7, 0, 8, 0, DOCUMENT, 9, 0], dtype=np.uint32)
    >>> list(split_heldout([stream], np.array([True, False])))
    [StreamParts(train=array([9, 0], dtype=uint32), heldout=array([7, 0, 8, 0], dtype=uint32))]
    """
    document = -1
    for chunk in chunks:
        is_start = chunk == DOCUMENT
        documents = document + np.cumsum(is_start)
        document = int(documents[-1])
        in_heldout = is_heldout[documents]
        yield StreamParts(chunk[~in_heldout & ~is_start], chunk[in_heldout & ~is_start])


@dataclass(frozen=True)
class TypeTable:
    """The N word types by their final numbers, with their counts in the two streams.

    The count of <S> is the number of boundaries in a stream, which is one more than that of its sentences.
    """

    words: list[str]
    train: NDArray[np.int64]  # (N,)
    heldout: NDArray[np.int64]  # (N,)
    final_numbers: NDArray[np.uint32]  # (N,) for each number of the draft

    @classmethod
    def of(cls, draft: Draft, is_heldout: NDArray[np.bool_]) -> "TypeTable":
        """Count the types of a draft and rank them: <S> and </S>, then by decreasing count in the training part.

        Types with equal counts, such as those that occur only in held-out documents, are in code point order.
        """
        words = draft.words
        train, heldout = np.zeros(len(words), dtype=np.int64), np.zeros(len(words), dtype=np.int64)
        train[BOUNDARY] = heldout[BOUNDARY] = 1  # a stream begins with a boundary
        for parts in split_heldout(draft.chunks(), is_heldout):
            train += np.bincount(parts.train, minlength=len(words))
            heldout += np.bincount(parts.heldout, minlength=len(words))
        alphabetic = np.array(sorted(range(2, len(words)), key=words.__getitem__))
        # A stable sort leaves types with equal counts in order, and is much faster than a sort by count and word.
        ranking = np.concatenate([[0, 1], alphabetic[np.argsort(-train[alphabetic], kind="stable")]])
        final_numbers = np.empty(len(words), dtype=np.uint32)
        final_numbers[ranking] = np.arange(len(words), dtype=np.uint32)
        return cls([words[number] for number in ranking.tolist()], train[ranking], heldout[ranking], final_numbers)


def _new_numbers() -> defaultdict[str, int]:
    """Numbers of words; a new word gets the next number."""
    return defaultdict(count(2).__next__, {BEGIN: BOUNDARY, END: DOCUMENT})


def _sentences(line: str, style: TokenizerConfig) -> Iterable[str]:
    if style.tokenizer == "moses":
        return [
            sentence.text
            for sentence in split_sentences(line, language=style.language, version=style.tokenizer_version)
        ]
    return (line,)


def _hash(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Distribute numbers evenly over 64 bits."""
    return _split_mix(numbers + _split_mix(np.array([seed % 2**64], dtype=np.uint64)))


def _split_mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
