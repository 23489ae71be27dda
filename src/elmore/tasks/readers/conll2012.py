"""Documents in the columns of CoNLL-2012: who does what to whom, and which spans mean the same thing.

    #begin document (bc/cctv/00/cctv_0001); part 000
    document  part  number  word  POS  parse  lemma  roleset  sense  speaker  name  [arguments...]  coreference
    #end document

Between columns stand tabs or blanks, between sentences a blank line. There is a column of arguments, `(ARG0*`, `*`,
`*)`, `(V*)`, for each predicate of the sentence, in their order. The last column has the mentions of clusters that
begin and end at a word, nested and crossing ones too: `(1|(2)` or `(1(2)`, and `2)|1)` or `2)1)`.

What a task has no use for is not looked at: `propositions` and `mentions` read their columns when they are asked.
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
FEWEST_COLUMNS = FIRST_ARGUMENTS + 1  # the last is coreference
NOTHING = "-"
VERB = "V"  # what the predicate itself is called among its arguments

_BEGIN = re.compile(r"#begin document \(?(.*?)\)?;?(?:\s*part\s+(\S+))?\s*")
_ARGUMENT = re.compile(r"(?:\(([^()*\s]+))?\*(\))?")
_MENTION = re.compile(r"\((?P<one>\d+)\)|\((?P<begin>\d+)|(?P<end>\d+)\)")
_MENTIONS = re.compile(r"(?:\(\d+\)?|\d+\))(?:\|?(?:\(\d+\)?|\d+\)))*")


class Conll2012Sentence(NamedTuple):
    """A sentence, with all of its columns."""

    tokens: list[str]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]  # where each token stands in its file, from 1
    source: str  # the file, as messages call it

    def place(self, token: int = 0) -> str:
        return f"{self.source}, line {self.lines[token]}"


class Conll2012Document(NamedTuple):
    """A document, or a part of one that was annotated by itself."""

    name: str
    part: str
    sentences: list[Conll2012Sentence]
    place: str  # file and line


class Proposition(NamedTuple):
    """A predicate and its arguments."""

    predicate: int  # its token
    lemma: str
    arguments: list[Span]  # V among them; in order, none inside of another. Empty: nobody has labelled them


class Mention(NamedTuple):
    """A span that belongs to a cluster."""

    cluster: int
    start: int  # its first token
    end: int  # the token after its last


def read_conll2012(paths: str | Path | Sequence[str | Path]) -> list[Conll2012Document]:
    """The documents of a file, or of several one after another, plain or packed."""
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    return [document for file in files for document in _documents(file)]


def _documents(file: str | Path) -> Iterator[Conll2012Document]:
    name = display_name(file)
    document: Conll2012Document | None = None
    rows: list[tuple[int, tuple[str, ...]]] = []
    is_empty = True
    for number, line in enumerate(read_lines(file), start=1):
        place = f"{name}, line {number}"
        if line.startswith("#begin document"):
            if document is not None:
                raise InputError(f"{place}: a document begins before that of {document.place} has ended")
            found = _BEGIN.fullmatch(line)
            title, part = found.groups() if found else (line.removeprefix("#begin document").strip(), None)
            document = Conll2012Document(title, part or "000", [], place)
        elif line.startswith("#end document"):
            if document is None:
                raise InputError(f"{place}: a document ends, and none has begun")
            document.sentences.extend(_sentence(rows, name))
            rows = []
            yield document
            document, is_empty = None, False
        elif not line.strip(" \t"):
            if document is not None:
                document.sentences.extend(_sentence(rows, name))
            rows = []
        elif document is None:
            raise InputError(f"{place}: expected #begin document, and here is {line[:40]!r}; is this CoNLL-2012?")
        else:
            rows.append((number, _row(line, place, width=len(rows[0][1]) if rows else None)))
    if document is not None:
        raise InputError(f"{document.place}: the document does not end; the file may be cut short")
    if is_empty:
        raise InputError(f"{name}: holds no documents; expected #begin document and CoNLL-2012 columns")


def _row(line: str, place: str, *, width: int | None) -> tuple[str, ...]:
    # Not str.split(): a word may hold a no-break space.
    row = tuple(line.rstrip("\t ").split("\t") if "\t" in line else re.split(" +", line.strip(" ")))
    if len(row) < FEWEST_COLUMNS:
        raise InputError(f"{place}: CoNLL-2012 has {FEWEST_COLUMNS} columns or more, and here are {len(row)}")
    if width is not None and len(row) != width:
        raise InputError(
            f"{place}: the rows before have {width} columns, and here are {len(row)}; all words of a sentence have "
            "as many"
        )
    if not row[WORD]:
        raise InputError(f"{place}: the word (column {WORD + 1}) is missing")
    return row


def _sentence(rows: list[tuple[int, tuple[str, ...]]], source: str) -> list[Conll2012Sentence]:
    """The sentence of these rows; none of none."""
    if not rows:
        return []
    numbers, columns = zip(*rows, strict=True)
    return [Conll2012Sentence([row[WORD] for row in columns], columns, numbers, source)]


def propositions(sentence: Conll2012Sentence) -> list[Proposition]:
    """The predicates of a sentence, in order, with their arguments.

    A predicate is a word that has a lemma and a roleset; in files that number no rolesets, one that has a lemma.
    A sentence whose predicates are marked and that has no columns of arguments is one to be labelled.
    """
    columns = len(sentence.rows[0]) - FEWEST_COLUMNS
    marked = [token for token, row in enumerate(sentence.rows) if row[LEMMA] != NOTHING]
    numbered = [token for token in marked if sentence.rows[token][ROLESET] != NOTHING]
    predicates = next((found for found in (numbered, marked) if len(found) == columns), None)
    if predicates is None and columns == 0:
        return [Proposition(token, sentence.rows[token][LEMMA], []) for token in numbered]
    if predicates is None:
        raise InputError(
            f"{sentence.place()}: has {pluralize(columns, 'column')} of arguments, and "
            f"{pluralize(len(numbered), 'predicate')} with a roleset: "
            "a column belongs to each predicate of the sentence, and to nothing else"
        )
    found = []
    for number, predicate in enumerate(predicates):
        spans = _arguments(sentence, FIRST_ARGUMENTS + number)
        if not any(span.label == VERB for span in spans):
            raise InputError(
                f"{sentence.place(predicate)}: the arguments of {sentence.tokens[predicate]!r} (column "
                f"{FIRST_ARGUMENTS + number + 1}) have no {VERB}, which marks the predicate"
            )
        found.append(Proposition(predicate, sentence.rows[predicate][LEMMA], spans))
    return found


def _arguments(sentence: Conll2012Sentence, column: int) -> list[Span]:
    spans: list[Span] = []
    label, start = "", 0
    for token, row in enumerate(sentence.rows):
        place, cell = f"{sentence.place(token)}, column {column + 1}", row[column]
        found = _ARGUMENT.fullmatch(cell)
        if not found:
            raise InputError(f"{place}: {cell!r} is no argument; expected (LABEL*, *, *) or (LABEL*)")
        begins, ends = found.groups()
        if begins and label:
            raise InputError(f"{place}: {begins} begins inside of {label}; arguments of a predicate do not nest")
        if begins:
            label, start = begins, token
        if ends and not label:
            raise InputError(f"{place}: an argument ends, and none has begun")
        if ends:
            spans.append(Span(label, start, token + 1))
            label = ""
    if label:
        raise InputError(
            f"{sentence.place(start)}, column {column + 1}: {label} begins and does not end in its sentence"
        )
    return spans


def mentions(sentence: Conll2012Sentence) -> list[Mention]:
    """The mentions of a sentence, in order of their first tokens, of those that begin together the longest first."""
    return parse_mentions([row[-1] for row in sentence.rows], [sentence.place(n) for n in range(len(sentence.rows))])


def parse_mentions(cells: Sequence[str], places: Sequence[str]) -> list[Mention]:
    """The mentions that the last column means, word by word; `places` is where each word stands, for complaints.

    >>> parse_mentions(["(1|(2", "-", "2)", "(3)1)"], ["a file"] * 4)
    [Mention(cluster=1, start=0, end=4), Mention(cluster=2, start=0, end=3), Mention(cluster=3, start=3, end=4)]
    """
    found: list[Mention] = []
    begun: dict[int, list[int]] = {}  # of each cluster, where the mentions that have not ended began
    for token, (cell, place) in enumerate(zip(cells, places, strict=True)):
        if cell in (NOTHING, "_", "*"):
            continue
        if not _MENTIONS.fullmatch(cell):
            raise InputError(
                f"{place}: {cell!r} are no mentions; expected - or the like of (1, 1), (1), (1|(2) or 2)1)"
            )
        for part in _MENTION.finditer(cell):
            if part["one"]:
                found.append(Mention(int(part["one"]), token, token + 1))
            elif part["begin"]:
                begun.setdefault(int(part["begin"]), []).append(token)
            elif begun.get(cluster := int(part["end"])):
                found.append(Mention(cluster, begun[cluster].pop(), token + 1))
            else:
                raise InputError(f"{place}: a mention of cluster {cluster} ends, and none has begun in its sentence")
    if left := [f"{places[start]}: cluster {cluster}" for cluster, starts in begun.items() for start in starts]:
        raise InputError(f"{left[0]}: a mention begins and does not end in its sentence{_others(left[1:])}")
    return sorted(found, key=lambda mention: (mention.start, -mention.end, mention.cluster))


def _others(places: list[str]) -> str:
    return f"; nor do those of {join_names(places)}" if places else ""


def mention_cells(found: Iterable[Mention], length: int) -> list[str]:
    """The last column of a sentence of so many words, as CoNLL-2012 writes it.

    >>> mention_cells([Mention(1, 0, 3), Mention(2, 0, 1)], 4)
    ['(1|(2)', '-', '1)', '-']
    """
    begin: list[list[str]] = [[] for _ in range(length)]
    end: list[list[str]] = [[] for _ in range(length)]
    for mention in sorted(found, key=lambda mention: (mention.start, -mention.end, mention.cluster)):
        if mention.end - mention.start == 1:
            begin[mention.start].append(f"({mention.cluster})")
        else:
            begin[mention.start].append(f"({mention.cluster}")
            end[mention.end - 1].insert(0, f"{mention.cluster})")
    return ["|".join([*end[token], *begin[token]]) or NOTHING for token in range(length)]


def document_columns(
    sentences: Iterable[Sequence[str]], found: Iterable[Mention], *, name: str = "text", part: str = "000"
) -> str:
    """A document with its mentions, by tokens of the whole, as CoNLL-2012 has it; of other columns nothing is known.

    >>> document_columns([["Ann", "slept"]], [Mention(7, 0, 1)]).splitlines()[1].split()
    ['text', '0', '0', 'Ann', '-', '*', '-', '-', '-', '-', '*', '(7)']
    """
    sentences = list(sentences)
    cells = iter(mention_cells(found, sum(map(len, sentences))))
    lines = [f"#begin document ({name}); part {part}"]
    cell = "_".join(name.split())  # scorers take any blank for the end of a column
    for tokens in sentences:
        for number, token in enumerate(tokens):
            lines.append("\t".join([cell, part.lstrip("0") or "0", str(number), token, *"-*----*", next(cells)]))
        lines.append("")
    return "\n".join([*lines, "#end document"])


def argument_cells(spans: Iterable[Span], length: int) -> list[str]:
    """A column of arguments of a sentence of so many words.

    >>> argument_cells([Span("ARG0", 0, 2), Span("V", 2, 3)], 4)
    ['(ARG0*', '*)', '(V*)', '*']
    """
    cells = ["*"] * length
    for label, start, end in spans:
        cells[start] = f"({label}{cells[start]}"
        cells[end - 1] += ")"
    return cells
