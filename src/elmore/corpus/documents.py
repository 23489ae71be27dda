"""Documents out of files, in bounded memory: a stream of lines in which an empty one opens a document.

text       running text, a paragraph a line; blank lines stand between documents, or the lines <doc ...> and </doc>
tokenized  the same with a sentence a line, its words separated by blanks
fasta      proteins, each a document of one line

A document may be larger than memory, so it is never held as one; a line has to fit.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from elmore.text.inputs import CorpusFormat
from elmore.text.reading import read_sentences
from elmore.text.style import TextStyle
from elmore.text_files import DecodingErrors, read_lines

# What a file without borders is cut into, so that a part of it can be held out.
CUT_LINES = 100

# How far to look for a border between lines of text.
LOOK_AHEAD_LINES = 10_000
LOOK_AHEAD_CHARACTERS = 1 << 24

BLOCK_CHARACTERS = 1 << 19


def read_documents(
    path: str,
    *,
    format: CorpusFormat,  # noqa: A002  # as the command line calls it
    errors: DecodingErrors = "strict",
    dropped: Counter[str],
) -> Iterator[str]:
    """Give the lines of a file, and an empty one wherever a document begins. What is left out is counted in `dropped`.

    Blank lines inside <doc> and </doc> are no borders: there they stand between paragraphs. A tokenised file without a
    border is cut into documents of a hundred lines; so is running text if it is long, since few documents have more
    than ten thousand paragraphs.
    """
    if format == "fasta":
        return _proteins(path, errors, dropped)
    return _documents(read_lines(path, errors=errors), tokenized=format == "tokenized", dropped=dropped)


def blocks_of(lines: Iterable[str], *, characters: int = BLOCK_CHARACTERS) -> Iterator[str]:
    r"""Join lines into pieces of about this size, the unit of work that one process hands another.

    >>> list(blocks_of(["", "one", "two", "", "three"], characters=8))
    ['\none\ntwo', '\nthree']
    """
    block: list[str] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line) + 1
        if size >= characters:
            yield "\n".join(block)
            block, size = [], 0
    if block:
        yield "\n".join(block)


_MARKUP = re.compile(r"\s*<(?:(doc)(?:\s.*)?|/doc)>\s*")


def _documents(lines: Iterator[str], *, tokenized: bool, dropped: Counter[str]) -> Iterator[str]:
    head, goes_on = _look_ahead(lines)
    cut = not _is_bordered(head) and (tokenized or goes_on)
    inside = False
    since_border = 0
    yield ""
    for line in chain(head, lines):
        if _is_border(line):
            markup = _MARKUP.fullmatch(line)
            if markup:
                dropped["markup_lines"] += 1
                inside = markup[1] is not None
            if markup or not inside:
                yield ""
            # From the first real border on the file has documents of its own.
            cut = cut and not markup and since_border == 0
            continue
        if cut and since_border == CUT_LINES:
            yield ""
            since_border = 0
        yield line
        since_border += 1


def _look_ahead(lines: Iterator[str]) -> tuple[list[str], bool]:
    """The first lines, and whether more may follow."""
    head: list[str] = []
    size = 0
    for line in lines:
        head.append(line)
        size += len(line)
        if len(head) == LOOK_AHEAD_LINES or size >= LOOK_AHEAD_CHARACTERS:
            return head, True
    return head, False


def _is_bordered(lines: list[str]) -> bool:
    """Whether a border stands between lines of text; a blank line at the end of a file parts nothing."""
    borders = [_is_border(line) for line in lines]
    texts = [place for place, border in enumerate(borders) if not border]
    return bool(texts) and any(borders[texts[0] : texts[-1]])


def _is_border(line: str) -> bool:
    # Blank first: asking a pattern of every line would take longer than reading it.
    return not line or line.isspace() or ("doc" in line[:40] and _MARKUP.fullmatch(line) is not None)


def _proteins(path: str, errors: DecodingErrors, dropped: Counter[str]) -> Iterator[str]:
    for _, protein in read_sentences(path, format="fasta", style=TextStyle(tokenizer="characters"), errors=errors):
        yield ""
        if protein.words:
            yield "".join(protein.words)
        else:
            dropped["empty_sentences"] += 1
