"""Sentences out of files, one by one, however large the file.

text       running text, a paragraph a line: split into sentences, then into words in the model's style
tokenized  a sentence a line, its words separated by blanks: taken as they are
conllu     the syntactic words of a treebank: neither its multiword tokens (1-2) nor its empty nodes (1.1)
fasta      proteins, every residue a word, in capitals; a final `*`, which marks the end and no residue, is left out
"""

import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import chain
from pathlib import Path, PurePath
from typing import Generic, Literal, NamedTuple, TypeVar

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
    digest: str  # of the input up to the end of this sentence: a job that goes on knows its input by it


class ReadingPosition(NamedTuple):
    """How far an input was read before, and by what that part of it is known."""

    sentences: int = 0
    digest: str = ""


def read_sentences(
    path: str | Path,
    *,
    format: InputFormat | None = None,  # noqa: A002  # as the command line calls it
    style: TextStyle,
    split: bool = True,
    errors: DecodingErrors = "strict",
    shard: tuple[int, int] | None = None,
    after: ReadingPosition = ReadingPosition(),  # noqa: B008  # nothing can change it
) -> Iterator[tuple[int, Sentence]]:
    """Give each sentence of a file with its number, from 0.

    Without a `format` the file's name decides: `.conllu` and `.conll`, `.fasta`, `.fa` and `.faa`, else text. Of text,
    `split=False` makes every line one sentence, blank ones too, so that lines and sentences agree. `shard=(3, 8)` gives
    the third of eight parts, the sentences whose number leaves 2 when divided by 8; numbers stay those of the file.
    `after` leaves out what was read before, which costs no tokenising; an input that begins otherwise is an error.
    """
    part, parts = shard or (1, 1)
    if not 1 <= part <= parts:
        raise InputError(f"there is no part {part}/{parts}; parts are numbered 1/{parts} to {parts}/{parts}")
    tokenizer = Tokenizer(style)
    name = name_of(path)
    lines = enumerate(read_lines(path, errors=errors), start=1)
    match format or format_of(path):
        case "text":
            found = _split_lines(lines, style) if split else _whole_lines(lines)
            wanted = _part(found, part, parts, after, name)
            return _with_words(wanted, lambda text: tokenizer.tokenize(text).words)
        case "tokenized":
            return _with_words(_part(_whole_lines(lines), part, parts, after, name), split_at_blanks)
        case "conllu":
            return _with_words(_part(_trees(lines, name), part, parts, after, name), list)
        case "fasta":
            return _with_words(_part(_proteins(lines, name), part, parts, after, name), list)
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
_Source = TypeVar("_Source", str, list[str])
# Sentences whose words were not looked for yet (in another machine's part they never are), with label and line.
_Found = Iterator[tuple[_Source, str, int]]


class _Wanted(NamedTuple, Generic[_Source]):
    number: int
    source: _Source
    label: str
    line: int
    digest: str


def _with_words(
    wanted: Iterator[_Wanted[_Source]], words_of: Callable[[_Source], list[str]]
) -> Iterator[tuple[int, Sentence]]:
    for number, source, label, line, digest in wanted:
        yield number, Sentence(words_of(source), label, line, digest)


def _part(
    found: _Found[_Source], part: int, parts: int, after: ReadingPosition, name: str
) -> Iterator[_Wanted[_Source]]:
    """The sentences of one part, past those that were read before, each with the digest of all up to it."""
    digest, read = b"", 0
    for number, (source, label, line) in enumerate(found):
        text = source if isinstance(source, str) else "\0".join(source)
        digest = blake2b(digest + f"{text}\0\0{label}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if number % parts != part - 1:
            continue
        read += 1
        if read > after.sentences:
            yield _Wanted(number, source, label, line, digest.hex())
        elif read == after.sentences and digest.hex() != after.digest:
            raise _changed(name, after)
    if read < after.sentences:
        raise _changed(name, after)


def _changed(name: str, after: ReadingPosition) -> InputError:
    return InputError(
        f"{name}: has changed since its first {after.sentences} sentences were read; bring it back as it was, "
        "or start over (--fresh)"
    )


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
