"""Sentences out of files, one by one, however large the file.

text       running text, a paragraph a line: split into sentences, then into words in the model's style
tokenized  a sentence a line, its words separated by blanks: taken as they are
conllu     the syntactic words of a treebank: neither its multiword tokens (1-2) nor its empty nodes (1.1)
fasta      proteins, every residue a word, in capitals; a final `*`, which marks the end and no residue, is left out
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Literal, NamedTuple, TypeVar

from elmore.errors import InputError
from elmore.text.splitting import split_sentences
from elmore.text.style import TextStyle
from elmore.text.tokenizing import Tokenizer, split_at_blanks
from elmore.text_files import DecodingErrors, name_of, read_lines

InputFormat = Literal["text", "tokenized", "conllu", "fasta"]


class Sentence(NamedTuple):
    """A sentence of a file."""

    words: list[str]
    label: str  # sent_id in CoNLL-U, the identifier in FASTA, "" elsewhere
    line: int  # where it starts in the file, from 1


def read_sentences(
    path: str | Path,
    *,
    format: InputFormat | None = None,  # noqa: A002  # as the command line calls it
    style: TextStyle,
    split: bool = True,
    errors: DecodingErrors = "strict",
    shard: tuple[int, int] | None = None,
    skip: int = 0,
) -> Iterator[tuple[int, Sentence]]:
    """Give each sentence of a file with its number, from 0.

    Without a `format` the file's name decides: `.conllu` and `.conll`, `.fasta`, `.fa` and `.faa`, else text. Of text,
    `split=False` makes every line one sentence, blank ones too, so that lines and sentences agree. `shard=(3, 8)` gives
    the third of eight parts, the sentences whose number leaves 2 when divided by 8; numbers stay those of the file.
    `skip` leaves out that many at the start, which costs no tokenising.
    """
    part, parts = shard or (1, 1)
    if not 1 <= part <= parts:
        raise InputError(f"there is no part {part}/{parts}; parts are numbered 1/{parts} to {parts}/{parts}")
    tokenizer = Tokenizer(style)
    lines = enumerate(read_lines(path, errors=errors), start=1)
    match format or format_of(path):
        case "text":
            found = _split_lines(lines, style) if split else _whole_lines(lines)
            return _numbered(found, lambda text: tokenizer.tokenize(text).words, part=part, parts=parts, skip=skip)
        case "tokenized":
            return _numbered(_whole_lines(lines), split_at_blanks, part=part, parts=parts, skip=skip)
        case "conllu":
            return _numbered(_trees(lines, name_of(path)), list, part=part, parts=parts, skip=skip)
        case "fasta":
            return _numbered(_proteins(lines, name_of(path)), list, part=part, parts=parts, skip=skip)
        case other:
            raise InputError(f"the format is to be text, tokenized, conllu or fasta, and is {other!r}")


def format_of(path: str | Path) -> InputFormat:
    """The format that the name of a file tells, packed or not.

    >>> format_of("train.conllu.gz"), format_of("proteins.fa"), format_of("-")
    ('conllu', 'fasta', 'text')
    """
    name = PurePath(path)
    suffix = (name.with_suffix("") if name.suffix.lower() in (".gz", ".xz", ".bz2", ".zst") else name).suffix.lower()
    if suffix in (".conllu", ".conll"):
        return "conllu"
    return "fasta" if suffix in (".fasta", ".fa", ".faa") else "text"


_Lines = Iterator[tuple[int, str]]
_Source = TypeVar("_Source")
# Sentences whose words were not looked for yet (in another machine's part they never are), with label and line.
_Found = Iterator[tuple[_Source, str, int]]


def _numbered(
    found: _Found[_Source], words_of: Callable[[_Source], list[str]], *, part: int, parts: int, skip: int
) -> Iterator[tuple[int, Sentence]]:
    wanted = (numbered for numbered in enumerate(found) if numbered[0] % parts == part - 1)
    for number, (source, label, line) in islice(wanted, skip, None):
        yield number, Sentence(words_of(source), label, line)


def _whole_lines(lines: _Lines) -> _Found[str]:
    for number, line in lines:
        yield line, "", number


def _split_lines(lines: _Lines, style: TextStyle) -> _Found[str]:
    for number, line in lines:
        for sentence in split_sentences(line, language=style.language, version=style.tokenizer_version):
            yield sentence.text, "", number


_SENT_ID = re.compile(r"#\s*sent_id\s*=\s*(.*?)\s*")
_OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")  # a multiword token or an empty node


def _trees(lines: _Lines, name: str) -> _Found[list[str]]:
    """The words of CoNLL-U sentences, which blank lines separate."""
    words: list[str] = []
    label, start = "", 0
    for number, line in chain(lines, [(0, "")]):
        if not line.strip():
            if words:
                yield words, label, start
            words, label, start = [], "", 0
            continue
        start = start or number
        if line.startswith("#"):
            label = found[1] if (found := _SENT_ID.fullmatch(line)) else label
            continue
        identity, *columns = line.split("\t")
        if len(columns) != 9:
            raise InputError(
                f"{name}, line {number}: CoNLL-U has 10 columns with tabs between them, and here are {len(columns) + 1}"
            )
        if _OTHER_ID.fullmatch(identity):
            continue
        if identity != str(len(words) + 1):
            raise InputError(
                f"{name}, line {number}: word {len(words) + 1} is due here, and its number is {identity!r}"
            )
        if not columns[0]:
            raise InputError(f"{name}, line {number}: the word (second column) is missing")
        words.append(columns[0])


_NO_RESIDUE = re.compile("[^A-Za-z]")


def _proteins(lines: _Lines, name: str) -> _Found[str]:
    """The sequences of a FASTA file, each under its header."""
    parts: list[str] = []
    label, start = "", 0
    for number, line in chain(lines, [(0, ">")]):
        if line.startswith(">"):
            if start:
                yield "".join(parts).removesuffix("*"), label, start
            parts, label, start = [], next(iter(line[1:].split()), ""), number
            continue
        residues = "".join(line.split())
        if not residues:
            continue
        if not start:
            raise InputError(
                f"{name}, line {number}: a sequence without a header; in FASTA a line >NAME goes before it"
            )
        if parts and parts[-1].endswith("*"):
            raise InputError(f"{name}, line {number}: the sequence goes on after *, which marks its end")
        if strange := _NO_RESIDUE.search(residues.removesuffix("*")):
            raise InputError(
                f"{name}, line {number}: {strange[0]!r} is no amino acid; a sequence is letters, without gaps"
            )
        parts.append(residues.upper())
