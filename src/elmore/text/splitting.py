"""A paragraph becomes sentences (library: sentencex), and every sentence knows where it stood."""

import re
from itertools import pairwise
from typing import NamedTuple


class SentenceSpan(NamedTuple):
    """A sentence, and the characters [start, end) of the paragraph it is."""

    text: str
    start: int
    end: int


def split_sentences(text: str, *, language: str = "en") -> list[SentenceSpan]:
    """Cut a paragraph into its sentences, blanks around them left out.

    Languages are named by their ISO codes; one that the splitter does not know is treated like a relative or English.

    >>> split_sentences("Dr. Smith took a bow. Why?")
    [SentenceSpan(text='Dr. Smith took a bow.', start=0, end=21), SentenceSpan(text='Why?', start=22, end=26)]
    """
    # The splitter only says where to cut. The sentences are cut from the text itself, so that none can be lost.
    cuts = [*_starts(text, language), len(text)]
    sentences = []
    for first, stop in pairwise(cuts):
        piece = text[first:stop]
        if sentence := piece.strip():
            start = first + piece.index(sentence)
            sentences.append(SentenceSpan(sentence, start, start + len(sentence)))
    return sentences


# An initial before one of these spaces, as in "L .", stops the splitter's program with a panic; and lone surrogates
# cannot be handed to it at all.
_WIDE_SPACE = re.compile("[\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def _starts(text: str, language: str) -> list[int]:
    """Where sentences begin, 0 first."""
    # Imported here, as all that only raw text needs.
    from sentencex import segment

    if not text.isascii():
        text = _SURROGATE.sub("\ufffd", _WIDE_SPACE.sub(" ", text))
    starts = {0}
    end = 0
    for piece in segment(language, text):
        # Looked for, not counted: of long texts the splitter drops an empty line now and then.
        start = text.find(piece, end)
        if start >= 0:
            starts.add(start)
            end = start + len(piece)
    return sorted(starts)
