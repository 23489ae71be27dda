"""Read documents from files in bounded memory, as a stream of lines in which an empty line begins a document.

text       running text, one paragraph per line; documents are separated by blank lines, or by <doc ...> and </doc>
tokenized  the same with one sentence per line, its words separated by spaces
fasta      proteins, each a document of one line

In hard-wrapped text (see `text.paragraphs`) a blank line ends a paragraph, and two or more blank lines end a document.
A document may be larger than memory, so only its lines are in memory.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import get_args

from elmore.errors import InputError
from elmore.files.input_files import CorpusFormat, format_of
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors, display_name, read_lines
from elmore.text.paragraphs import NumberedLines, Paragraphs, join_wrapped_lines, resolve_paragraphs
from elmore.text.sentence_reader import read_sentences
from elmore.text.style import TokenizerConfig

CUT_LINES = 100  # of the documents that a file without borders is split into, so that some can be held out

# The part of a file that is searched for a border between lines of text.
LOOKAHEAD_LINES = 10_000
LOOKAHEAD_CHARACTERS = 1 << 24


def read_documents(
    path: str,
    *,
    format: CorpusFormat,  # noqa: A002  # as the command line calls it
    paragraphs: Paragraphs | None = None,
    errors: DecodingErrors = DEFAULT_ERRORS,
    dropped: Counter[str],
    on_read: Callable[[int], None] | None = None,
) -> Iterator[str]:
    """Yield the lines of a file, and an empty line before each document. Dropped lines are counted in `dropped`.

    Between <doc> and </doc>, blank lines separate paragraphs and not documents. A tokenized file without a border is
    split into documents of 100 lines, and so is running text of more than 10,000 lines, because few documents are so
    long. The lines of a hard-wrapped paragraph are joined.
    """
    if format == "fasta":
        return _proteins(path, errors, dropped, on_read)
    lines = read_lines(path, errors=errors, on_read=on_read)
    if format == "text":
        resolved, numbered = resolve_paragraphs(
            enumerate(lines, start=1), paragraphs=paragraphs, name=display_name(path)
        )
        lines = _unwrapped(numbered) if resolved == "blank-line" else (line for _, line in numbered)
    return _documents(lines, tokenized=format == "tokenized", dropped=dropped)


def common_format(files: Sequence[str], format: CorpusFormat | None = None) -> CorpusFormat:  # noqa: A002
    """The format of all files: `format`, or text or FASTA by their names.

    A corpus has one format, because a model has one kind of words.
    """
    if format is not None:
        if format not in get_args(CorpusFormat):
            raise InputError(f"the format is {format!r}; it must be text, tokenized or fasta")
        return format
    by_format = {format_of(file): file for file in reversed(files)}
    if treebank := by_format.get("conllu") or by_format.get("conll"):
        raise InputError(
            f"{treebank}: is a treebank; write its sentences to a file, one per line, with format tokenized"
        )
    if len(by_format) > 1:
        raise InputError(f"{by_format['text']} is text and {by_format['fasta']} is FASTA; a corpus has one format")
    return "fasta" if "fasta" in by_format else "text"


def group_lines(lines: Iterable[str], *, characters: int) -> Iterator[str]:
    r"""Join lines into blocks of about this size, the unit of work of one process.

    >>> list(group_lines(["", "one", "two", "", "three"], characters=8))
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


def _unwrapped(lines: NumberedLines) -> Iterator[str]:
    """The paragraphs of hard-wrapped lines, with an empty line for several blank lines; <doc> lines are unchanged."""
    for is_border, group in groupby(lines, key=lambda numbered: _MARKUP.fullmatch(numbered[1]) is not None):
        if is_border:
            yield from (line for _, line in group)
            continue
        for is_blank, run in groupby(join_wrapped_lines(group), key=lambda paragraph: not paragraph.text):
            if not is_blank:
                yield from (paragraph.text for paragraph in run)
            elif sum(1 for _ in run) > 1:
                yield ""


def _documents(lines: Iterator[str], *, tokenized: bool, dropped: Counter[str]) -> Iterator[str]:
    head, has_more = _lookahead(lines)
    cut = not _is_bordered(head) and (tokenized or has_more)
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
            # From the first border on, the file itself separates its documents.
            cut = cut and not markup and since_border == 0
            continue
        if cut and since_border == CUT_LINES:
            yield ""
            since_border = 0
        yield line
        since_border += 1


def _lookahead(lines: Iterator[str]) -> tuple[list[str], bool]:
    """The first lines, and whether more may follow."""
    head: list[str] = []
    size = 0
    for line in lines:
        head.append(line)
        size += len(line)
        if len(head) == LOOKAHEAD_LINES or size >= LOOKAHEAD_CHARACTERS:
            return head, True
    return head, False


def _is_bordered(lines: list[str]) -> bool:
    """Whether there is a border between lines of text; blank lines at the end of a file are no borders."""
    borders = [_is_border(line) for line in lines]
    texts = [index for index, border in enumerate(borders) if not border]
    return bool(texts) and any(borders[texts[0] : texts[-1]])


def _is_border(line: str) -> bool:
    # Blank lines first: matching a pattern with every line would take longer than reading it.
    return not line or line.isspace() or ("doc" in line[:40] and _MARKUP.fullmatch(line) is not None)


def _proteins(
    path: str, errors: DecodingErrors, dropped: Counter[str], on_read: Callable[[int], None] | None
) -> Iterator[str]:
    style = TokenizerConfig(tokenizer="characters")
    for _, protein in read_sentences(path, format="fasta", style=style, errors=errors, on_read=on_read):
        yield ""
        if protein.words:
            yield "".join(protein.words)
        else:
            dropped["empty_sentences"] += 1
