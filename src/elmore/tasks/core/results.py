"""Results of `predict`: tokens of a text and their offsets, and lines of output."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Protocol

_AS_SPACES = str.maketrans("\t\r\n", "   ")


class TokensAndOffsets(Protocol):
    """A sentence of raw text."""

    @property
    def tokens(self) -> Sequence[str]: ...

    @property
    def offsets(self) -> Sequence[tuple[int, int]]: ...


@dataclass(frozen=True)
class TokenizedText:
    """A text and its tokens: the base class of results with tokens."""

    text: str
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]  # for each token, its characters [start, end) in the text
    sentences: tuple[int, ...]  # the number of tokens in each

    def sentence_slices(self) -> Iterator[slice]:
        """The tokens of each sentence."""
        return (slice(*borders) for borders in pairwise(accumulate(self.sentences, initial=0)))


def token_fields(sentences: Sequence[TokensAndOffsets]) -> dict[str, Any]:
    """The fields of `TokenizedText`, except the text, from the sentences of a text."""
    return {
        "tokens": tuple(token for sentence in sentences for token in sentence.tokens),
        "offsets": tuple(span for sentence in sentences for span in sentence.offsets),
        "sentences": tuple(len(sentence.tokens) for sentence in sentences),
    }


def tab_separated(*cells: str) -> str:
    r"""Cells separated by tabs; tabs and line ends in a cell become spaces.

    >>> tab_separated("neutral", "One line.\nAnother.")
    'neutral\tOne line. Another.'
    """
    return "\t".join(cell.translate(_AS_SPACES) for cell in cells)
