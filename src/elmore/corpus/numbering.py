"""Words become numbers: blocks of documents in, a draft of the corpus on disk out.

The draft numbers words as they first appear, because the final numbers follow the counts, which only the end knows.
It is a stream of little-endian uint32: DOCUMENT before each document, its words, BOUNDARY after each sentence.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
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

BOUNDARY, DOCUMENT = 0, 1  # the numbers of <S> and </S>, which no word of the text can have

CHUNK = 1 << 21  # numbers read back at a time


class NumberedBlock(NamedTuple):
    """A block with its words numbered by itself: small to hand over, quick to renumber."""

    words: str  # the distinct ones, a line each, from number 2
    stream: NDArray[np.uint32]
    dropped: Counter[str]


def number_block(block: str, *, style: TokenizerConfig) -> NumberedBlock:
    r"""Split and tokenise the lines of a block; an empty line opens a document.

    >>> number_block("\nb a b .\n\na", style=TokenizerConfig(tokenizer="whitespace"))[:2]
    ('b\na\n.', array([1, 2, 3, 2, 4, 0, 1, 3, 0], dtype=uint32))
    """
    tokenizer = Tokenizer(style)
    numbers = _numbers()
    stream = array("I")
    dropped: Counter[str] = Counter()
    for line in block.split("\n"):
        if not line:
            stream.append(DOCUMENT)
            continue
        for sentence in _sentences(line, style):
            words = tokenizer.tokenize(sentence).words
            if not _BOUNDARY_WORDS.isdisjoint(words):
                kept = [word for word in words if word not in _BOUNDARY_WORDS]
                dropped["boundary_words"] += len(words) - len(kept)
                words = kept
            if not words:
                dropped["empty_sentences"] += 1
                continue
            stream.extend(map(numbers.__getitem__, words))
            stream.append(BOUNDARY)
    return NumberedBlock("\n".join(list(numbers)[2:]), np.array(stream, dtype=np.uint32), dropped)


class Draft:
    """The corpus in numbers of first appearance, on disk, with what was learnt while it was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.documents = 0
        self.dropped: Counter[str] = Counter()
        self._numbers = _numbers()
        self._opening = False  # whether a document was opened that has no sentence yet

    @property
    def words(self) -> list[str]:
        """The word types, by their number."""
        return list(self._numbers)

    def write(
        self, blocks: Iterable[str], *, style: TokenizerConfig, workers: int, progress: Progress | None = None
    ) -> None:
        """Number all blocks, in several processes; the draft does not depend on how many."""
        with self.path.open("wb") as file:
            for block in parallel_map(partial(number_block, style=style), blocks, workers=workers):
                stream = self._merged(block)
                file.write(stream.astype("<u4", copy=False).tobytes())
                self.dropped.update(block.dropped)
                documents, sentences = np.count_nonzero(stream == DOCUMENT), np.count_nonzero(stream == BOUNDARY)
                self.documents += int(documents)
                if progress:
                    progress.advance(int(sentences), int(len(stream) - sentences - documents))

    def chunks(self) -> Iterator[NDArray[np.uint32]]:
        """The stream, a piece at a time."""
        with self.path.open("rb") as file:
            while piece := file.read(4 * CHUNK):
                yield np.frombuffer(piece, dtype="<u4")

    def _merged(self, block: NumberedBlock) -> NDArray[np.uint32]:
        """The block's stream in the numbers of the draft; documents without a sentence vanish."""
        words = block.words.split("\n") if block.words else []
        known = np.fromiter(map(self._numbers.__getitem__, (BEGIN, END, *words)), dtype=np.uint32, count=2 + len(words))
        stream = known[block.stream]
        if self._opening:
            stream = np.concatenate([np.array([DOCUMENT], dtype=np.uint32), stream])
        opens = stream == DOCUMENT
        self._opening = bool(opens[-1]) if len(opens) else False
        followed = np.append(opens[1:], True)  # by another opening, or by the next block, which brings it again
        kept: NDArray[np.uint32] = stream[~(opens & followed)]
        return kept


_BOUNDARY_WORDS = frozenset((BEGIN, END))


def _numbers() -> defaultdict[str, int]:
    """Words by number, where a new word takes the next one."""
    return defaultdict(count(2).__next__, {BEGIN: BOUNDARY, END: DOCUMENT})


def _sentences(line: str, style: TokenizerConfig) -> Iterable[str]:
    if style.tokenizer == "moses":
        return [
            sentence.text
            for sentence in split_sentences(line, language=style.language, version=style.tokenizer_version)
        ]
    return (line,)
