"""Words and their tags out of files with a word a line: CoNLL columns in any layout, and CoNLL-U."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from elmore.display import join_names
from elmore.errors import InputError
from elmore.files.text_files import content_suffix, display_name, read_lines
from elmore.tasks.readers.tag_schemes import TagScheme, detect_scheme
from elmore.text.conll import ColumnSentence, column_sentences, conllu_sentences

ColumnFormat = Literal["conll", "conllu"]

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_UNTAGGED = "_"  # what CoNLL-U writes where there is no part of speech


class TaggedSentence(NamedTuple):
    """A sentence with a tag for each of its tokens."""

    tokens: list[str]
    tags: list[str]
    line: int  # where it starts in its file, from 1
    source: str = ""  # the file, as messages call it
    token_lines: tuple[int, ...] = ()  # where each token stands


def read_tagged(
    paths: str | Path | Sequence[str | Path],
    *,
    tag_column: int | str = -1,
    word_column: int | None = None,
    format: ColumnFormat | None = None,  # noqa: A002  # as it is called where text is read
) -> list[TaggedSentence]:
    """The tagged sentences of a file, or of several one after another, plain or packed.

    Columns are counted from 0, and from the last with -1; those of CoNLL-U also go by their names, such as `upos`
    and `xpos`. Without a `word_column` it is found as `column_sentences` finds it. Without a `format`, files whose
    name says .conllu are CoNLL-U, of which multiword tokens (1-2) and empty nodes (1.1) are left out. Lines that say
    -DOCSTART- are borders of documents, and not given.
    """
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    return [sentence for file in files for sentence in _tagged(file, tag_column, word_column, format)]


def detect_tag_scheme(sentences: Sequence[TaggedSentence]) -> TagScheme:
    """The scheme of the tags of these sentences; an error names the file and the line of the tags that fit none."""

    def place(sentence: int, token: int) -> str:
        found = sentences[sentence]
        return f"{found.source}, line {found.token_lines[token] if found.token_lines else found.line}"

    return detect_scheme((sentence.tags for sentence in sentences), place=place)


def _tagged(
    file: str | Path,
    tag_column: int | str,
    word_column: int | None,
    format: ColumnFormat | None,  # noqa: A002
) -> Iterator[TaggedSentence]:
    name = display_name(file)
    numbered = enumerate(read_lines(file), start=1)
    # The first is read at once: that a file is missing should be said before anything is said of its columns.
    first = next(numbered, None)
    lines = chain([first] if first else [], numbered)
    is_conllu = (format or content_suffix(file).removeprefix(".")) == "conllu"
    place = _column_number(tag_column, name=name, is_conllu=is_conllu)
    if is_conllu:
        found = conllu_sentences(lines, name=name)
    else:
        found = column_sentences(lines, name=name, word_column=word_column)
    width = None
    for sentence in found:
        width = width or len(sentence.columns[0])
        tags = [
            _tag(row, place, sentence, f"{name}, line {number}", width)
            for row, number in zip(sentence.columns, sentence.word_lines, strict=True)
        ]
        if is_conllu and CONLLU_COLUMNS[place] in ("upos", "xpos") and _UNTAGGED in tags:
            number = sentence.word_lines[tags.index(_UNTAGGED)]
            raise InputError(f"{name}, line {number}: the word has no {CONLLU_COLUMNS[place].upper()} tag, only _")
        yield TaggedSentence(sentence.words, tags, sentence.line, name, sentence.word_lines)
    if width is None:
        raise InputError(f"{name}: holds no sentences; expected a word and its tag in each line")


def _column_number(column: int | str, *, name: str, is_conllu: bool) -> int:
    if isinstance(column, int):
        if is_conllu and not -len(CONLLU_COLUMNS) <= column < len(CONLLU_COLUMNS):
            raise InputError(f"{name}: there is no column {column} in CoNLL-U; it has 0 to 9")
        return column
    if not is_conllu:
        raise InputError(
            f"{name}: only CoNLL-U (.conllu) has columns with names; give the number of the column, not {column!r}"
        )
    if column.lower() not in CONLLU_COLUMNS:
        raise InputError(f"{name}: there is no column {column!r} in CoNLL-U; it has {', '.join(CONLLU_COLUMNS)}")
    return CONLLU_COLUMNS.index(column.lower())


def _tag(row: Sequence[str], place: int, sentence: ColumnSentence, where: str, width: int) -> str:
    """The tag in this column of a row."""
    # Counted from the last column, a row that lacks one would give its last but one as if nothing were amiss.
    if place < 0 and len(row) != width:
        raise InputError(
            f"{where}: the rows before have {width} columns, and here are {len(row)} ({join_names(list(row))}); where "
            "rows differ, say which column has the tag, counted from the first"
        )
    column = place + len(row) if place < 0 else place
    if not 0 <= column < len(row):
        raise InputError(
            f"{where}: the tag is in column {column + 1 if place >= 0 else place}, and here are {len(row)} columns "
            f"({join_names(list(row))})"
        )
    if column == sentence.word_column:
        raise InputError(
            f"{where}: column {column + 1} of {len(row)} is to be the tag, and it is the word; say which columns have "
            "the word and the tag"
        )
    if not row[column]:
        raise InputError(
            f"{where}: column {column + 1} is to be the tag of {row[sentence.word_column]!r}, and is empty"
        )
    return row[column]
