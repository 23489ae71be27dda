"""Paragraphs of running text: each line is a paragraph, or hard-wrapped lines up to a blank line.

line        each line is a paragraph, as in most corpora
blank-line  lines are wrapped, as in books of Project Gutenberg and in mail; a blank line ends a paragraph

By default this is detected. Wrapped lines are so long that the first word of the next line did not fit, and they begin
and end in the middle of sentences.
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

SAMPLE_LINES = 200  # enough to detect wrapping
LOOKAHEAD_LINES = 5 * SAMPLE_LINES  # because a book can begin with a long table of contents

NumberedLines = Iterator[tuple[int, str]]

PARAGRAPHS_ADVICE = "to decide it, give --paragraphs (in Python: paragraphs=) blank-line or line"
# For callers without this option.
UNWRAP_ADVICE = "if this is wrong, write each paragraph on one line, with a blank line after it"


class Paragraph(NamedTuple):
    """A paragraph on one line, and the lines of the file in it: (offset of the start, number of the line)."""

    text: str
    lines: list[tuple[int, int]]

    def line_at(self, offset: int) -> int:
        """The number of the line that contains this character of the text."""
        return self.lines[bisect_right(self.lines, offset, key=lambda line: line[0]) - 1][1]


def read_paragraphs(lines: NumberedLines, *, paragraphs: Paragraphs | None, name: str) -> Iterator[Paragraph]:
    """Join numbered lines to paragraphs; with `paragraphs=None` wrapping is detected, and a warning reports it.

    Each blank line is an empty paragraph.
    """
    resolved, lines = resolve_paragraphs(lines, paragraphs=paragraphs, name=name)
    if resolved == "blank-line":
        return join_wrapped_lines(lines)
    return (Paragraph(line, [(0, number)]) for number, line in lines)


def resolve_paragraphs(
    lines: NumberedLines, *, paragraphs: Paragraphs | None, name: str, advice: str = PARAGRAPHS_ADVICE
) -> tuple[Paragraphs, NumberedLines]:
    """The kind of paragraphs, as requested or detected from the first lines, and all lines.

    If the first lines do not look wrapped, a warning reports later lines that do. `advice` ends each warning.
    """
    if paragraphs is not None:
        if paragraphs not in PARAGRAPHS:
            raise InputError(f"paragraphs is {paragraphs!r}; it must be {' or '.join(map(repr, PARAGRAPHS))}")
        return paragraphs, lines
    head: list[tuple[int, str]] = []
    for numbered in lines:
        head.append(numbered)
        # A line wider than a page is a paragraph. No more lines are needed.
        if len(head) == LOOKAHEAD_LINES or len(numbered[1]) > 2 * _WIDEST:
            break
    samples = [[line for _, line in head[i : i + SAMPLE_LINES]] for i in range(0, len(head), SAMPLE_LINES)]
    wrapped = [is_hard_wrapped(sample) for sample in samples if any(map(all, pairwise(sample)))]
    if not wrapped or sum(wrapped) < len(wrapped) / 2:
        return "line", chain(head, _warn_if_wrapped(lines, name, advice))
    warnings.warn(
        f"{name}: its lines look hard-wrapped, so a blank line ends each paragraph; {advice}",
        InputWarning,
        stacklevel=2,
    )
    return "blank-line", chain(head, lines)


def _warn_if_wrapped(lines: NumberedLines, name: str, advice: str) -> NumberedLines:
    """The same lines, with one warning if a sample of them looks wrapped."""
    sample: list[str] = []
    for number, line in lines:
        yield number, line
        sample.append(line[: 2 * _WIDEST])
        if len(sample) < SAMPLE_LINES:
            continue
        if is_hard_wrapped(sample):
            warnings.warn(
                f"{name}: from line {number + 1 - SAMPLE_LINES} on its lines look hard-wrapped, and each is read as a "
                f"paragraph, as the lines before; {advice}",
                InputWarning,
                stacklevel=2,
            )
            break
        sample.clear()
    yield from lines


_NARROWEST, _WIDEST = 45, 130
_FINISHED = re.compile(r"[.!?:;…。][\"'”’)\]_*]*$")


def is_hard_wrapped(lines: Sequence[str]) -> bool:
    """Whether lines are wrapped: most lines that another line follows are full and do not end a sentence.

    If another line follows only three or four lines, all of them must be so. With fewer the result is False.

    >>> is_hard_wrapped(["Call me Ishmael.", "Some years ago I went to sea."] * 9)
    False
    """
    texts = [line.strip() for line in lines]
    pairs = [(line, after) for line, after in pairwise(texts) if line and after]
    if len(pairs) < 3:
        return False
    few = len(pairs) < 5
    # Not the longest line, which can be a heading or an address.
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
    # Each line of a list of titles begins with a capital. Letters without case count as small.
    inside = sum(after[0].islower() or after[0] == after[0].swapcase() for after in wrapped)
    return len(wrapped) >= 0.5 * len(pairs) and inside >= 0.4 * len(wrapped)


def join_wrapped_lines(lines: NumberedLines) -> Iterator[Paragraph]:
    """Join the lines up to each blank line, with spaces between them. Each blank line is an empty paragraph.

    Words that are hyphenated at a line end stay hyphenated.
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
