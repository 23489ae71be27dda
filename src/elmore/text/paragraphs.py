"""Which lines of running text make a paragraph: every line is one, or hard-wrapped lines up to a blank one.

line        a line is a paragraph, as most corpora have it
blank-line  lines were wrapped at some width, as in Project Gutenberg's books and in mail: they go on until a blank one

Nobody has to know which it is. Wrapped text shows itself: its lines fill the width, so that the next line's first word
would not have fitted, and they end and begin in the middle of sentences.
"""

import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Literal, NamedTuple

from elmore.errors import InputError, InputWarning

Paragraphs = Literal["line", "blank-line"]
PARAGRAPHS: tuple[Paragraphs, ...] = ("line", "blank-line")

# Wrapping shows in so many lines; several times as many are looked at, since a book may begin with a long table of
# contents.
SAMPLE_LINES = 200
LOOKAHEAD_LINES = 5 * SAMPLE_LINES

NumberedLines = Iterator[tuple[int, str]]

PARAGRAPHS_ADVICE = "say which it is with --paragraphs (in Python: paragraphs=) blank-line or line"
# Where nobody asks which it is.
UNWRAP_ADVICE = "if that is wrong, write each paragraph in one line, with a blank line behind it"


class Paragraph(NamedTuple):
    """A paragraph in one line, and where the lines of the file begin in it: (place, number of the line)."""

    text: str
    lines: list[tuple[int, int]]

    def line_at(self, place: int) -> int:
        """The number of the line that this character of the text stands in."""
        return self.lines[bisect_right(self.lines, place, key=lambda line: line[0]) - 1][1]


def read_paragraphs(lines: NumberedLines, *, paragraphs: Paragraphs | None, name: str) -> Iterator[Paragraph]:
    """Put numbered lines together into paragraphs; None finds out how, and says so if they are wrapped.

    Blank lines come out as empty paragraphs, one for each.
    """
    resolved, lines = resolve_paragraphs(lines, paragraphs=paragraphs, name=name)
    if resolved == "blank-line":
        return join_wrapped_lines(lines)
    return (Paragraph(line, [(0, number)]) for number, line in lines)


def resolve_paragraphs(
    lines: NumberedLines, *, paragraphs: Paragraphs | None, name: str, advice: str = PARAGRAPHS_ADVICE
) -> tuple[Paragraphs, NumberedLines]:
    """How the lines make paragraphs, as told or as the first of them show, and all of the lines.

    Where none was told and the first lines do not look wrapped, the others are watched as they pass, and what looks so
    later is said. `advice` is what to do if it is wrong.
    """
    if paragraphs is not None:
        if paragraphs not in PARAGRAPHS:
            raise InputError(f"paragraphs is {paragraphs!r}; it must be {' or '.join(map(repr, PARAGRAPHS))}")
        return paragraphs, lines
    head: list[tuple[int, str]] = []
    for numbered in lines:
        head.append(numbered)
        # A line wider than any page is a paragraph: nobody has to wait for more.
        if len(head) == LOOKAHEAD_LINES or len(numbered[1]) > 2 * _WIDEST:
            break
    samples = [[line for _, line in head[i : i + SAMPLE_LINES]] for i in range(0, len(head), SAMPLE_LINES)]
    telling = [is_hard_wrapped(sample) for sample in samples if any(map(all, pairwise(sample)))]
    if not telling or sum(telling) < len(telling) / 2:
        return "line", chain(head, _watched(lines, name, advice))
    warnings.warn(
        f"{name}: its lines look hard-wrapped, so they are read as one paragraph up to a blank line; {advice}",
        InputWarning,
        stacklevel=2,
    )
    return "blank-line", chain(head, lines)


def _watched(lines: NumberedLines, name: str, advice: str) -> NumberedLines:
    """The same lines; the first of them that look wrapped are remarked upon."""
    sample: list[str] = []
    for number, line in lines:
        yield number, line
        sample.append(line[: 2 * _WIDEST])
        if len(sample) < SAMPLE_LINES:
            continue
        if is_hard_wrapped(sample):
            warnings.warn(
                f"{name}: from line {number + 1 - SAMPLE_LINES} on its lines look hard-wrapped, and each is read as a "
                f"paragraph, as those before; {advice}",
                InputWarning,
                stacklevel=2,
            )
            break
        sample.clear()
    yield from lines


_NARROWEST, _WIDEST = 45, 130
_FINISHED = re.compile(r"[.!?:;…。][\"'”’)\]_*]*$")


def is_hard_wrapped(lines: Sequence[str]) -> bool:
    """Whether these lines were wrapped: of those that are followed by another, most are full and unfinished.

    Of three and four that are followed by another, all must be; fewer tell nothing.

    >>> is_hard_wrapped(["Call me Ishmael.", "Some years ago I went to sea."] * 9)
    False
    """
    texts = [line.strip() for line in lines]
    pairs = [(line, after) for line, after in pairwise(texts) if line and after]
    if len(pairs) < 3:
        return False
    few = len(pairs) < 5
    # Not the widest line: a heading or an address may stick out.
    width = sorted(len(line) for line, _ in pairs)[-1 if few else int(0.95 * (len(pairs) - 1))]
    if not _NARROWEST <= width <= _WIDEST:
        return False
    wrapped = [
        after
        for line, after in pairs
        if not _FINISHED.search(line) and len(line) <= _WIDEST and len(line) + 1 + len(after.split()[0]) > width - 3
    ]
    if few:
        return len(wrapped) == len(pairs) and all(after[0].islower() for after in wrapped)
    # A list of titles begins every line with a capital; a script without capitals cannot tell.
    inside = sum(after[0].islower() or after[0] == after[0].swapcase() for after in wrapped)
    return len(wrapped) >= 0.5 * len(pairs) and inside >= 0.4 * len(wrapped)


def join_wrapped_lines(lines: NumberedLines) -> Iterator[Paragraph]:
    """Join lines up to a blank one, with a blank between them; a blank line comes out as an empty paragraph.

    A word that was parted by a hyphen stays so.
    """
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    size = 0
    for number, line in chain(lines, [(0, "")]):
        if text := line.strip():
            starts.append((size, number))
            parts.append(text)
            size += len(text) + 1
            continue
        if parts:
            yield Paragraph(" ".join(parts), starts)
        if number:
            yield Paragraph("", [(0, number)])
        parts, starts, size = [], [], 0
