"""Sentences out of files, one by one, however large the files.

text       running text: its paragraphs are split into sentences, then into words in the model's style
tokenized  a sentence a line, its words separated by blanks: taken as they are
conllu     the syntactic words of a treebank: neither its multiword tokens (1-2) nor its empty nodes (1.1)
conll      a word a line among other columns, blank lines between sentences: CoNLL-2000, 2003, X, 2009 and their kin
fasta      proteins, every residue a word, in capitals; a final `*`, which marks the end and no residue, is left out
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple, Self, get_args

from elmore.display import join_names
from elmore.errors import InputError
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors, display_name, read_lines
from elmore.text.column_files import ColumnSentence, Row, column_sentences, conllu_sentences
from elmore.text.input_format import InputFormat, format_of
from elmore.text.paragraphs import NumberedLines, Paragraphs, read_paragraphs
from elmore.text.splitting import split_sentences
from elmore.text.style import TokenizerConfig
from elmore.text.tokenizer import Tokenizer, split_on_spaces


class SourceSentence(NamedTuple):
    """A sentence of a file."""

    words: list[str]
    label: str  # sent_id in CoNLL-U, the identifier in FASTA, "" elsewhere
    line: int  # where it starts in the file, from 1
    digest: str  # of the input up to the end of this sentence: a job that goes on knows its input by it
    source: str  # the file, as it was named; "-" is standard input
    columns: tuple[Row, ...] = ()  # of files with columns, all those of each word


class ResumePoint(NamedTuple):
    """How far an input was read before, and by what that part of it is known."""

    sentences: int = 0
    digest: str = ""


def read_sentences(
    paths: str | Path | Sequence[str | Path],
    *,
    style: TokenizerConfig,
    format: InputFormat | None = None,  # noqa: A002  # as the command line calls it
    split: bool = True,
    paragraphs: Paragraphs | None = None,
    errors: DecodingErrors = DEFAULT_ERRORS,
    shard: tuple[int, int] | None = None,
    after: ResumePoint = ResumePoint(),  # noqa: B008  # nothing can change it
    on_read: Callable[[int], None] | None = None,  # a ninth: it comes with none of the others, and goes with none
) -> "SentenceStream":
    """Give each sentence of a file, or of several one after another, with its number, from 0.

    Without a `format` each file's name decides: `.conllu`, `.conll`, `.fasta`, `.fa` and `.faa`, else text.
    Of text, `paragraphs` says whether a line is a paragraph or goes on until a blank one; None finds out.
    `split=False` makes every line one sentence, blank ones too, so that lines and sentences agree. `shard=(3, 8)` gives
    the third of eight parts, the sentences whose number leaves 2 when divided by 8; numbers stay those of the whole.
    `after` leaves out what was read before, which costs no tokenising; an input that begins otherwise is an error.
    `on_read` is told how many more bytes of the files were read, as `read_lines` tells it.
    """
    shard = shard or (1, 1)
    check_shard(shard)
    if format is not None and format not in get_args(InputFormat):
        raise InputError(f"the format is to be text, tokenized, conllu, conll or fasta, and is {format!r}")
    if paragraphs == "blank-line" and not split:
        raise InputError("without splitting every line is a sentence, so paragraphs cannot go on until a blank line")
    files = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    settings = _Settings(Tokenizer(style), split=split, paragraphs=paragraphs, errors=errors, on_read=on_read)
    readers = (_reader(file, format or format_of(file), settings) for file in files)
    return SentenceStream(readers, shard, after, name=join_names([display_name(file) for file in files]))


def check_shard(shard: tuple[int, int]) -> None:
    """Refuse a part that there is not."""
    part, parts = shard
    if not 1 <= part <= parts:
        raise InputError(f"there is no part {part}/{parts}; parts are numbered 1/{parts} to {parts}/{parts}")


class SentenceStream:
    """The numbered sentences of one part of an input, one by one, past those that were read before.

    `digest` is that of all that was read so far, the sentences of other parts too: at the end that of the whole input,
    the same in every part of it.
    """

    def __init__(self, readers: Iterator["_Reader"], shard: tuple[int, int], after: ResumePoint, *, name: str) -> None:
        self.digest = ""
        self._sentences = self._read(readers, *shard, after, name)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[int, SourceSentence]:
        return next(self._sentences)

    def _read(
        self, readers: Iterator["_Reader"], part: int, parts: int, after: ResumePoint, name: str
    ) -> Iterator[tuple[int, SourceSentence]]:
        digest, read = b"", 0
        numbers = count()
        for reader in readers:
            for sentence in reader.sentences:
                text = sentence.text if isinstance(sentence, _Unread) else "\0".join(sentence.words)
                known = f"{text}\0\0{sentence.label}".encode("utf-8", "surrogatepass")
                digest = blake2b(digest + known, digest_size=16).digest()
                self.digest = digest.hex()
                number = next(numbers)
                if number % parts != part - 1:
                    continue
                read += 1
                if read > after.sentences:
                    yield number, _with_words(sentence, reader, self.digest)
                elif read == after.sentences and self.digest != after.digest:
                    raise _changed(name, after)
        if read < after.sentences:
            raise _changed(name, after)


class _Settings(NamedTuple):
    tokenizer: Tokenizer
    split: bool
    paragraphs: Paragraphs | None
    errors: DecodingErrors
    on_read: Callable[[int], None] | None


class _Unread(NamedTuple):
    """A sentence whose words were not looked for yet; in another machine's part they never are."""

    text: str
    label: str
    line: int


class _Reader(NamedTuple):
    """A file's sentences, and how their words are found."""

    source: str
    sentences: Iterator[_Unread] | Iterator[ColumnSentence]
    words_of: Callable[[str], list[str]]


def _reader(file: str, format: InputFormat, settings: _Settings) -> _Reader:  # noqa: A002
    name = display_name(file)
    # Lines are read ahead to see whether they are wrapped; of those, it is told when they are split.
    ahead: deque[int] | None = deque() if format == "text" and settings.split and settings.on_read else None
    on_read = settings.on_read if ahead is None else ahead.append
    lines = enumerate(read_lines(file, errors=settings.errors, on_read=on_read), start=1)
    match format:
        case "text":
            tokenizer = settings.tokenizer
            found = _split_paragraphs(lines, settings, name, ahead) if settings.split else _whole_lines(lines)
            return _Reader(file, found, lambda text: tokenizer.tokenize(text).words)
        case "tokenized":
            return _Reader(file, _whole_lines(lines), split_on_spaces)
        case "conllu":
            return _Reader(file, conllu_sentences(lines, name=name), list)
        case "conll":
            return _Reader(file, column_sentences(lines, name=name), list)
        case "fasta":
            return _Reader(file, _proteins(lines, name), list)


def _with_words(sentence: _Unread | ColumnSentence, reader: _Reader, digest: str) -> SourceSentence:
    if isinstance(sentence, _Unread):
        words = reader.words_of(sentence.text)
        return SourceSentence(words, sentence.label, sentence.line, digest, reader.source)
    return SourceSentence(
        sentence.words, sentence.label, sentence.line, digest, reader.source, columns=sentence.columns
    )


def _changed(name: str, after: ResumePoint) -> InputError:
    return InputError(
        f"{name}: has changed since its first {after.sentences} sentences were read; bring it back as it was, "
        "or start over (--fresh)"
    )


def _whole_lines(lines: NumberedLines) -> Iterator[_Unread]:
    for number, line in lines:
        yield _Unread(line, "", number)


def _split_paragraphs(
    lines: NumberedLines, settings: _Settings, name: str, ahead: deque[int] | None
) -> Iterator[_Unread]:
    """The sentences of running text; `ahead` has the bytes of each line that was read and not told of."""
    style = settings.tokenizer.style
    told = 0
    for paragraph in read_paragraphs(lines, paragraphs=settings.paragraphs, name=name):
        if ahead is not None and settings.on_read is not None:
            last = paragraph.lines[-1][1]
            settings.on_read(sum(ahead.popleft() for _ in range(last - told)))
            told = last
        found = split_sentences(paragraph.text, language=style.language, version=style.tokenizer_version)
        for sentence in found:
            yield _Unread(sentence.text, "", paragraph.line_at(sentence.start))


_NO_RESIDUE = re.compile("[^A-Za-z]")


def _proteins(lines: NumberedLines, name: str) -> Iterator[_Unread]:
    """The sequences of a FASTA file, each under its header."""
    parts: list[str] = []
    label, start = "", 0
    for number, line in chain(lines, [(0, ">")]):
        if line.startswith(">"):
            if start:
                yield _Unread("".join(parts).removesuffix("*"), label, start)
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
