"""Documents in the columns of CoNLL-2012: predicates with their arguments, and coreference.

    #begin document (bc/cctv/00/cctv_0001); part 000
    document  part  number  word  POS  parse  lemma  roleset  sense  speaker  name  [arguments...]  coreference
    #end document

Columns are separated by tabs or spaces, sentences by a blank line. Each predicate of a sentence has a column of
arguments, in the order of the predicates: `(ARG0*`, `*`, `*)`, `(V*)`. The last column has the mentions of clusters
that begin and end at a word, also nested and crossing mentions: `(1|(2)` or `(1(2)`, and `2)|1)` or `2)1)`.

Only the columns that a caller uses are checked: `propositions` and `mentions` parse their columns on each call.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmore.display import join_names, pluralize
from elmore.errors import InputError
from elmore.files.text_files import display_name, read_lines
from elmore.tasks.readers.tag_schemes import Span

WORD, LEMMA, ROLESET, FIRST_ARGUMENTS = 3, 6, 7, 11  # columns, from 0
MIN_COLUMNS = FIRST_ARGUMENTS + 1  # the last is coreference
EMPTY = "-"
VERB = "V"  # the label of the predicate among its arguments

_BEGIN = re.compile(r"#begin document \(?(.*?)\)?;?(?:\s*part\s+(\S+))?\s*")
_ARGUMENT = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")
_MENTION = re.compile(r"\((?P<word>\d+)\)|\((?P<begin>\d+)|(?P<end>\d+)\)")
_MENTIONS = re.compile(r"(?:\(\d+\)?|\d+\))(?:\|?(?:\(\d+\)?|\d+\)))*")


class Conll2012Sentence(NamedTuple):
    """A sentence with all of its columns."""

    tokens: list[str]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]  # the line of each token in its file, from 1
    source: str  # the file, as messages name it

    def location(self, token: int = 0) -> str:
        return f"{self.source}, line {self.lines[token]}"


class Conll2012Document(NamedTuple):
    """A document, or a part of a document that was annotated separately."""

    name: str
    part: str
    sentences: list[Conll2012Sentence]
    location: str  # file and line


class Proposition(NamedTuple):
    """A predicate and its arguments."""

    predicate: int  # its token
    lemma: str
    arguments: list[Span]  # in order, without nesting, including V; empty if the file has no labels


class Mention(NamedTuple):
    """A span of a cluster."""

    cluster: int
    start: int  # its first token
    end: int  # the token after its last


def read_conll2012(paths: str | Path | Sequence[str | Path]) -> list[Conll2012Document]:
    """The documents of one or several files, plain or compressed."""
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    return [document for file in files for document in _documents(file)]


def _documents(file: str | Path) -> Iterator[Conll2012Document]:
    name = display_name(file)
    document: Conll2012Document | None = None
    rows: list[tuple[int, tuple[str, ...]]] = []
    is_empty = True
    for number, line in enumerate(read_lines(file), start=1):
        location = f"{name}, line {number}"
        if line.startswith("#begin document"):
            if document is not None:
                raise InputError(f"{location}: a document begins before the document of {document.location} has ended")
            match = _BEGIN.fullmatch(line)
            title, part = match.groups() if match else (line.removeprefix("#begin document").strip(), None)
            document = Conll2012Document(title, part or "000", [], location)
        elif line.startswith("#end document"):
            if document is None:
                raise InputError(f"{location}: #end document without #begin document")
            document.sentences.extend(_sentence(rows, name))
            rows = []
            yield document
            document, is_empty = None, False
        elif not line.strip(" \t"):
            if document is not None:
                document.sentences.extend(_sentence(rows, name))
            rows = []
        elif document is None:
            raise InputError(f"{location}: expected #begin document, found {line[:40]!r}; is this a CoNLL-2012 file?")
        else:
            rows.append((number, _row(line, location, width=len(rows[0][1]) if rows else None)))
    if document is not None:
        raise InputError(f"{document.location}: the document has no end; the file may be truncated")
    if is_empty:
        raise InputError(f"{name}: contains no documents; expected #begin document and CoNLL-2012 columns")


def _row(line: str, location: str, *, width: int | None) -> tuple[str, ...]:
    # Not str.split(): a word may contain a no-break space.
    row = tuple(line.rstrip("\t ").split("\t") if "\t" in line else re.split(" +", line.strip(" ")))
    if len(row) < MIN_COLUMNS:
        raise InputError(f"{location}: CoNLL-2012 has at least {MIN_COLUMNS} columns; found {len(row)}")
    if width is not None and len(row) != width:
        raise InputError(
            f"{location}: found {len(row)} columns; the preceding rows of the sentence have {width}, and all rows of a "
            "sentence must have the same number"
        )
    if not row[WORD]:
        raise InputError(f"{location}: the word (column {WORD + 1}) is missing")
    return row


def _sentence(rows: list[tuple[int, tuple[str, ...]]], source: str) -> list[Conll2012Sentence]:
    """The sentence of these rows as a list of one; without rows, an empty list."""
    if not rows:
        return []
    numbers, columns = zip(*rows, strict=True)
    return [Conll2012Sentence([row[WORD] for row in columns], columns, numbers, source)]


def propositions(sentence: Conll2012Sentence) -> list[Proposition]:
    """The predicates of a sentence, in order, with their arguments.

    A predicate is a word with a lemma and a roleset; in files without rolesets, a word with a lemma. A sentence with
    predicates and without columns of arguments is unlabeled.
    """
    columns = len(sentence.rows[0]) - MIN_COLUMNS
    with_lemma = [token for token, row in enumerate(sentence.rows) if row[LEMMA] != EMPTY]
    with_roleset = [token for token in with_lemma if sentence.rows[token][ROLESET] != EMPTY]
    predicates = next((tokens for tokens in (with_roleset, with_lemma) if len(tokens) == columns), None)
    if predicates is None and columns == 0:
        return [Proposition(token, sentence.rows[token][LEMMA], []) for token in with_roleset]
    if predicates is None:
        raise InputError(
            f"{sentence.location()}: has {pluralize(columns, 'column')} of arguments and "
            f"{pluralize(len(with_roleset), 'predicate')} with a roleset; each predicate must have one column"
        )
    found = []
    for number, predicate in enumerate(predicates):
        spans = _arguments(sentence, FIRST_ARGUMENTS + number)
        if not any(span.label == VERB for span in spans):
            raise InputError(
                f"{sentence.location(predicate)}: the arguments of {sentence.tokens[predicate]!r} (column "
                f"{FIRST_ARGUMENTS + number + 1}) have no {VERB}, which marks the predicate"
            )
        found.append(Proposition(predicate, sentence.rows[predicate][LEMMA], spans))
    return found


def _arguments(sentence: Conll2012Sentence, column: int) -> list[Span]:
    spans: list[Span] = []
    label, start = "", 0
    for token, row in enumerate(sentence.rows):
        location, cell = f"{sentence.location(token)}, column {column + 1}", row[column]
        match = _ARGUMENT.fullmatch(cell)
        if not match:
            raise InputError(f"{location}: {cell!r} is not an argument; expected (LABEL*, *, *) or (LABEL*)")
        begins, ends = match.groups()
        if begins and label:
            raise InputError(
                f"{location}: {begins} begins inside of {label}; arguments of a predicate cannot be nested"
            )
        if begins:
            label, start = begins, token
        if ends and not label:
            raise InputError(f"{location}: an argument ends here, and none has begun")
        if ends:
            spans.append(Span(label, start, token + 1))
            label = ""
    if label:
        raise InputError(f"{sentence.location(start)}, column {column + 1}: {label} has no end in its sentence")
    return spans


def mentions(sentence: Conll2012Sentence) -> list[Mention]:
    """The mentions of a sentence, in order of their first tokens; longer ones first among those with the same start."""
    locations = [sentence.location(token) for token in range(len(sentence.rows))]
    return parse_mentions([row[-1] for row in sentence.rows], locations)


def parse_mentions(cells: Sequence[str], locations: Sequence[str]) -> list[Mention]:
    """The mentions of the last column. `locations` describes each word for messages.

    >>> parse_mentions(["(1|(2", "-", "2)", "(3)1)"], ["a file"] * 4)
    [Mention(cluster=1, start=0, end=4), Mention(cluster=2, start=0, end=3), Mention(cluster=3, start=3, end=4)]
    """
    found: list[Mention] = []
    open_starts: dict[int, list[int]] = {}  # by cluster, the first tokens of mentions without an end so far
    for token, (cell, location) in enumerate(zip(cells, locations, strict=True)):
        if cell in (EMPTY, "_", "*"):
            continue
        if not _MENTIONS.fullmatch(cell):
            raise InputError(f"{location}: {cell!r} are not mentions; expected -, (1, 1), (1), (1|(2) or 2)1)")
        for part in _MENTION.finditer(cell):
            if part["word"]:
                found.append(Mention(int(part["word"]), token, token + 1))
            elif part["begin"]:
                open_starts.setdefault(int(part["begin"]), []).append(token)
            elif open_starts.get(cluster := int(part["end"])):
                found.append(Mention(cluster, open_starts[cluster].pop(), token + 1))
            else:
                raise InputError(f"{location}: a mention of cluster {cluster} ends, and none has begun in its sentence")
    unclosed = [f"{locations[start]}: cluster {cluster}" for cluster, starts in open_starts.items() for start in starts]
    if unclosed:
        others = f"; further such mentions: {join_names(unclosed[1:])}" if len(unclosed) > 1 else ""
        raise InputError(f"{unclosed[0]}: a mention has no end in its sentence{others}")
    return sorted(found, key=lambda mention: (mention.start, -mention.end, mention.cluster))


def mention_cells(mentions: Iterable[Mention], length: int) -> list[str]:
    """The last column of CoNLL-2012 for a sentence of `length` words.

    >>> mention_cells([Mention(1, 0, 3), Mention(2, 0, 1)], 4)
    ['(1|(2)', '-', '1)', '-']
    """
    begin: list[list[str]] = [[] for _ in range(length)]
    end: list[list[str]] = [[] for _ in range(length)]
    for mention in sorted(mentions, key=lambda mention: (mention.start, -mention.end, mention.cluster)):
        if mention.end - mention.start == 1:
            begin[mention.start].append(f"({mention.cluster})")
        else:
            begin[mention.start].append(f"({mention.cluster}")
            end[mention.end - 1].insert(0, f"{mention.cluster})")
    return ["|".join([*end[token], *begin[token]]) or EMPTY for token in range(length)]


def document_columns(
    sentences: Iterable[Sequence[str]], mentions: Iterable[Mention], *, name: str = "text", part: str = "000"
) -> str:
    """A document in CoNLL-2012 columns, with mentions by tokens of the document; unknown columns are empty.

    >>> document_columns([["Ann", "slept"]], [Mention(7, 0, 1)]).splitlines()[1].split()
    ['text', '0', '0', 'Ann', '-', '*', '-', '-', '-', '-', '*', '(7)']
    """
    sentences = list(sentences)
    cells = iter(mention_cells(mentions, sum(map(len, sentences))))
    lines = [f"#begin document ({name}); part {part}"]
    cell = "_".join(name.split())  # scorers end a column at any whitespace
    for tokens in sentences:
        for number, token in enumerate(tokens):
            lines.append("\t".join([cell, part.lstrip("0") or "0", str(number), token, *"-*----*", next(cells)]))
        lines.append("")
    return "\n".join([*lines, "#end document"])


def argument_cells(spans: Iterable[Span], length: int) -> list[str]:
    """A column of arguments for a sentence of `length` words.

    >>> argument_cells([Span("ARG0", 0, 2), Span("V", 2, 3)], 4)
    ['(ARG0*', '*)', '(V*)', '*']
    """
    cells = ["*"] * length
    for label, start, end in spans:
        cells[start] = f"({label}{cells[start]}"
        cells[end - 1] += ")"
    return cells
