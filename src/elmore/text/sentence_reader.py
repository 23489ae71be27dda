"""Sentences from files of any size, one at a time.

format     content
text       running text: paragraphs are split into sentences, and sentences into words by the model's tokenizer
tokenized  one sentence per line, words separated by spaces; words are not changed
conllu     syntactic words of a treebank, without multiword tokens (1-2) and empty nodes (1.1)
conll      one word per line among other columns, sentences separated by blank lines (CoNLL-2000, 2003, X, 2009, 2012)
fasta      proteins: each residue is a word, in capitals; a final `*` marks the end and is omitted
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple, Self, get_args

from elmore.display import join_names
from elmore.errors import InputError
from elmore.files.input_files import InputFormat, format_of
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors, display_name, read_lines
from elmore.text.conll import ColumnSentence, Row, column_sentences, conllu_sentences
from elmore.text.paragraphs import NumberedLines, Paragraphs, read_paragraphs
from elmore.text.splitting import split_sentences
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenizerConfig, TokenStyle
from elmore.text.tokenizer import Tokenizer, split_on_spaces


class SourceSentence(NamedTuple):
    """A sentence of a file."""

    words: list[str]
    label: str  # sent_id in CoNLL-U, the identifier in FASTA, "" in other formats
    line: int  # of its start in the file, from 1
    digest: str  # of the input up to the end of this sentence; a resumed job compares it
    source: str  # the file as it was named; "-" is standard input
    columns: tuple[Row, ...] = ()  # of files with columns: all columns of each word


class ResumePoint(NamedTuple):
    """The number of sentences that were read before, and the digest of that part of the input."""

    sentences: int = 0
    digest: str = ""


def resolve_format(
    files: Iterable[str],
    *,
    input_format: InputFormat | None = None,
    tokenized: bool = False,
    token_style: TokenStyle = DEFAULT_TOKEN_STYLE,
) -> InputFormat | None:
    """The format of all files, or None if each file's name decides.

    `files` are the files that were found, not the names that the user gave: a folder can contain files of any format.
    InputError if `tokenized` or a token style contradicts the format of a file.
    """
    if tokenized and input_format not in (None, "tokenized"):
        raise InputError(f"--tokenized and --input-format {input_format} contradict each other; give one of them")
    for file in files:
        named = input_format or format_of(file)
        if tokenized and named not in ("text", "tokenized"):
            raise InputError(
                f"{display_name(file)}: is {named} by its name, which marks each word; omit --tokenized, or give "
                "--input-format tokenized if each line is a sentence"
            )
        if token_style != DEFAULT_TOKEN_STYLE and not tokenized and named in ("text", "fasta"):
            raise InputError(
                f"{display_name(file)}: is read as {named}, and token_style={token_style!r} is for tokenized input; "
                "give --tokenized, or --input-format tokenized, conllu or conll (in Python: input_format=...)"
            )
    return "tokenized" if tokenized else input_format


def parse_shard(text: str) -> tuple[int, int]:
    """The number of a part and the number of parts.

    >>> parse_shard("3/8")
    (3, 8)
    """
    if not (numbers := re.fullmatch(r"(\d+)/(\d+)", text)):
        raise InputError(f"the shard is {text!r}; give the part and the number of parts, as in 3/8")
    shard = int(numbers[1]), int(numbers[2])
    check_shard(shard)
    return shard


def check_shard(shard: tuple[int, int]) -> None:
    """Raise InputError unless the part is one of the parts."""
    part, parts = shard
    if not 1 <= part <= parts:
        raise InputError(f"there is no part {part}/{parts}; parts are numbered 1/{parts} to {parts}/{parts}")


def read_sentences(
    paths: str | Path | Sequence[str | Path],
    *,
    style: TokenizerConfig,
    format: InputFormat | None = None,  # noqa: A002  # the name of the option
    split: bool = True,
    paragraphs: Paragraphs | None = None,
    errors: DecodingErrors = DEFAULT_ERRORS,
    shard: tuple[int, int] | None = None,
    after: ResumePoint = ResumePoint(),  # noqa: B008  # immutable
    on_read: Callable[[int], None] | None = None,
) -> "SentenceStream":
    """Yield (number, sentence) for each sentence of the files, which are read one after another. Numbers start at 0.

    Without a `format`, each file's name decides. `paragraphs` states what ends a paragraph of running text; None:
    detected. With `split=False` each line is one sentence, also a blank line. `shard=(3, 8)` selects the third of
    eight parts: the sentences with number % 8 == 2. `after` skips sentences that were read before, without tokenizing
    them; InputError if that part of the input has changed. `on_read` receives the number of bytes read since the
    previous call.
    """
    shard = shard or (1, 1)
    check_shard(shard)
    if format is not None and format not in get_args(InputFormat):
        raise InputError(f"the format is {format!r}; it must be text, tokenized, conllu, conll or fasta")
    if paragraphs == "blank-line" and not split:
        raise InputError("without splitting each line is a sentence; paragraphs='blank-line' contradicts this")
    files = [str(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    settings = _Settings(Tokenizer(style), split, paragraphs, errors, on_read)
    readers = (_reader(file, format or format_of(file), settings) for file in files)
    return SentenceStream(readers, shard, after, name=join_names([display_name(file) for file in files]))


class SentenceStream:
    """The numbered sentences of one part of an input, without those that were read before.

    `digest` is the digest of all input so far, with the sentences of other parts. At the end it is equal in all parts.
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
                text = sentence.text if isinstance(sentence, _RawSentence) else "\0".join(sentence.words)
                content = f"{text}\0\0{sentence.label}".encode("utf-8", "surrogatepass")
                digest = blake2b(digest + content, digest_size=16).digest()
                self.digest = digest.hex()
                number = next(numbers)
                if number % parts != part - 1:
                    continue
                read += 1
                if read > after.sentences:
                    yield number, reader.finish(sentence, self.digest)
                elif read == after.sentences and self.digest != after.digest:
                    raise _changed(name, after)
        if read < after.sentences:
            raise _changed(name, after)


def _changed(name: str, after: ResumePoint) -> InputError:
    return InputError(
        f"{name}: has changed since its first {after.sentences} sentences were read; restore the input, or start over "
        "(--fresh)"
    )


class _Settings(NamedTuple):
    tokenizer: Tokenizer
    split: bool
    paragraphs: Paragraphs | None
    errors: DecodingErrors
    on_read: Callable[[int], None] | None


class _RawSentence(NamedTuple):
    """A sentence that is not tokenized yet. Sentences of other shards never are."""

    text: str
    label: str
    line: int


class _Reader(NamedTuple):
    """The sentences of a file, and the function that splits them into words."""

    source: str
    sentences: Iterator[_RawSentence] | Iterator[ColumnSentence]
    tokenize: Callable[[str], list[str]]

    def finish(self, sentence: _RawSentence | ColumnSentence, digest: str) -> SourceSentence:
        """The sentence with its words."""
        if isinstance(sentence, _RawSentence):
            words = self.tokenize(sentence.text)
            return SourceSentence(words, sentence.label, sentence.line, digest, self.source)
        return SourceSentence(
            sentence.words, sentence.label, sentence.line, digest, self.source, columns=sentence.columns
        )


def _reader(file: str, format: InputFormat, settings: _Settings) -> _Reader:  # noqa: A002
    name = display_name(file)
    # Lines are read ahead to detect hard wrapping. Their bytes are reported when their paragraph is split.
    pending_bytes: deque[int] | None = deque() if format == "text" and settings.split and settings.on_read else None
    on_read = settings.on_read if pending_bytes is None else pending_bytes.append
    lines = enumerate(read_lines(file, errors=settings.errors, on_read=on_read), start=1)
    match format:
        case "text":
            sentences = (
                _split_paragraphs(lines, settings, name, pending_bytes) if settings.split else _whole_lines(lines)
            )
            return _Reader(file, sentences, lambda text: settings.tokenizer.tokenize(text).words)
        case "tokenized":
            return _Reader(file, _whole_lines(lines), split_on_spaces)
        case "conllu":
            return _Reader(file, conllu_sentences(lines, name=name), list)
        case "conll":
            return _Reader(file, column_sentences(lines, name=name), list)
        case "fasta":
            return _Reader(file, _proteins(lines, name), list)


def _whole_lines(lines: NumberedLines) -> Iterator[_RawSentence]:
    for number, line in lines:
        yield _RawSentence(line, "", number)


def _split_paragraphs(
    lines: NumberedLines, settings: _Settings, name: str, pending_bytes: deque[int] | None
) -> Iterator[_RawSentence]:
    """The sentences of running text. `pending_bytes` has the unreported bytes of each line that was read."""
    config = settings.tokenizer.style
    last_reported = 0
    for paragraph in read_paragraphs(lines, paragraphs=settings.paragraphs, name=name):
        if pending_bytes is not None and settings.on_read is not None:
            last_line = paragraph.lines[-1][1]
            settings.on_read(sum(pending_bytes.popleft() for _ in range(last_line - last_reported)))
            last_reported = last_line
        for sentence in split_sentences(paragraph.text, language=config.language, version=config.tokenizer_version):
            yield _RawSentence(sentence.text, "", paragraph.line_at(sentence.start))


_NOT_RESIDUE = re.compile("[^A-Za-z]")


def _proteins(lines: NumberedLines, name: str) -> Iterator[_RawSentence]:
    """The sequences of a FASTA file, each below its header."""
    parts: list[str] = []
    label, start = "", 0
    for number, line in chain(lines, [(0, ">")]):
        if line.startswith(">"):
            if start:
                yield _RawSentence("".join(parts).removesuffix("*"), label, start)
            parts, label, start = [], next(iter(line[1:].split()), ""), number
            continue
        residues = "".join(line.split())
        if not residues:
            continue
        if not start:
            raise InputError(
                f"{name}, line {number}: a sequence without a header; FASTA requires a line >NAME above it"
            )
        if parts and parts[-1].endswith("*"):
            raise InputError(f"{name}, line {number}: the sequence continues after *, which marks its end")
        if strange := _NOT_RESIDUE.search(residues.removesuffix("*")):
            raise InputError(
                f"{name}, line {number}: {strange[0]!r} is not an amino acid; a sequence has letters only, no gaps"
            )
        parts.append(residues.upper())
