"""Words and their tags from files with one word per line: CoNLL columns in any layout, and CoNLL-U."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from elmore.display import join_names
from elmore.errors import InputError
from elmore.files.text_files import content_suffix, display_name, read_lines
from elmore.tasks.readers.tag_schemes import TagScheme, detect_scheme
from elmore.text.conll import ColumnSentence, column_sentences, conllu_sentences

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_UNTAGGED = "_"  # in CoNLL-U: no part of speech


class TaggedSentence(NamedTuple):
    """A sentence with a tag for each of its tokens."""

    tokens: list[str]
    tags: list[str]
    line: int  # where it begins in its file, from 1
    source: str  # the file, as messages name it
    token_lines: Sequence[int] = ()  # the line of each token


def read_tagged(
    paths: str | Path | Sequence[str | Path], *, tag_column: int | str = -1, word_column: int | None = None
) -> list[TaggedSentence]:
    """The tagged sentences of one or several files, plain or compressed.

    Columns are counted from 0, or from the last with -1; columns of CoNLL-U (.conllu) can also be named, such as `upos`
    and `xpos`. Without a `word_column`, `column_sentences` detects it. Multiword tokens (1-2) and empty nodes (1.1) of
    CoNLL-U are left out, and so are lines with -DOCSTART-, which separate documents.
    """
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    return [sentence for file in files for sentence in _tagged(file, tag_column, word_column)]


def detect_tag_scheme(sentences: Sequence[TaggedSentence]) -> TagScheme:
    """The scheme of the tags of these sentences; an error names file and line of the tags that fit no scheme."""

    def location(sentence: int, token: int) -> str:
        tagged = sentences[sentence]
        return f"{tagged.source}, line {tagged.token_lines[token] if tagged.token_lines else tagged.line}"

    return detect_scheme((sentence.tags for sentence in sentences), location=location)


def _tagged(file: str | Path, tag_column: int | str, word_column: int | None) -> Iterator[TaggedSentence]:
    name = display_name(file)
    numbered = enumerate(read_lines(file), start=1)
    # Read the first line now, so that a missing file is reported before an error about columns.
    first = next(numbered, None)
    lines = chain([first] if first else [], numbered)
    is_conllu = content_suffix(file) == ".conllu"
    column = _column_number(tag_column, name=name, is_conllu=is_conllu)
    if is_conllu:
        sentences = conllu_sentences(lines, name=name)
    else:
        sentences = column_sentences(lines, name=name, word_column=word_column)
    width = None
    for sentence in sentences:
        width = width or len(sentence.columns[0])
        tags = [
            _tag(row, column, sentence, f"{name}, line {number}", width)
            for row, number in zip(sentence.columns, sentence.word_lines, strict=True)
        ]
        if is_conllu and CONLLU_COLUMNS[column] in ("upos", "xpos") and _UNTAGGED in tags:
            number = sentence.word_lines[tags.index(_UNTAGGED)]
            raise InputError(f"{name}, line {number}: the word has no {CONLLU_COLUMNS[column].upper()} tag, only _")
        yield TaggedSentence(sentence.words, tags, sentence.line, name, sentence.word_lines)
    if width is None:
        raise InputError(f"{name}: contains no sentences; expected a word and its tag in each line")


def _column_number(column: int | str, *, name: str, is_conllu: bool) -> int:
    if isinstance(column, int):
        if is_conllu and not -len(CONLLU_COLUMNS) <= column < len(CONLLU_COLUMNS):
            raise InputError(f"{name}: there is no column {column} in CoNLL-U; it has 0 to 9")
        return column
    if not is_conllu:
        raise InputError(f"{name}: only CoNLL-U (.conllu) has named columns; pass the column's number, not {column!r}")
    if column.lower() not in CONLLU_COLUMNS:
        raise InputError(f"{name}: there is no column {column!r} in CoNLL-U; it has {', '.join(CONLLU_COLUMNS)}")
    return CONLLU_COLUMNS.index(column.lower())


def _tag(row: Sequence[str], position: int, sentence: ColumnSentence, where: str, width: int) -> str:
    """The tag in this column of a row."""
    cells = f"{len(row)} columns ({join_names(list(row))})"
    # In a row that lacks a column, a position from the last column would silently select another column.
    if position < 0 and len(row) != width:
        raise InputError(
            f"{where}: found {cells}; preceding rows have {width}. If rows have different numbers of columns, pass the "
            "number of the tag's column counted from the first"
        )
    column = position + len(row) if position < 0 else position
    if not 0 <= column < len(row):
        raise InputError(
            f"{where}: the tag must be in column {column + 1 if position >= 0 else position}; found {cells}"
        )
    if column == sentence.word_column:
        raise InputError(
            f"{where}: column {column + 1} of {len(row)} is selected for the tag and contains the word; pass the "
            "columns of the word and of the tag"
        )
    if not row[column]:
        raise InputError(f"{where}: column {column + 1}, the tag of {row[sentence.word_column]!r}, is empty")
    return row[column]
