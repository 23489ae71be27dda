"""The formats of text, and which of them a file's name means; `reading` describes each.

The checks take the files that were found, not the names that a user gave: a folder may contain files of any format.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from elmore.errors import InputError
from elmore.files.text_files import content_suffix, display_name
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle

InputFormat = Literal["text", "tokenized", "conllu", "conll", "fasta"]
CorpusFormat = Literal["text", "tokenized", "fasta"]  # of text to train on


def format_of(path: str | Path) -> InputFormat:
    """The format that the name of a file tells, packed or not.

    >>> format_of("train.conllu.gz"), format_of("proteins.fa"), format_of("-")
    ('conllu', 'fasta', 'text')
    """
    return _FORMATS.get(content_suffix(path), "text")


def check_tokenized(files: Iterable[str]) -> None:
    """Reject files that cannot be read as one sentence of words on each line, by their names."""
    for file in files:
        if (named := format_of(file)) != "text":
            raise InputError(
                f"{file}: by its name it is {named}, where every word is marked; omit --tokenized, "
                "or give --input-format tokenized if each line is a sentence all the same"
            )


def check_token_style(files: Iterable[str], input_format: InputFormat | None, token_style: TokenStyle) -> None:
    """Reject a token style for files that do not contain tokens."""
    if token_style == DEFAULT_TOKEN_STYLE:
        return
    for file in files:
        if (kind := input_format or format_of(file)) in ("text", "fasta"):
            raise InputError(
                f"{display_name(file)}: is read as {kind}, and a token style is for text that comes as tokens; give "
                "--tokenized, or --input-format tokenized, conllu or conll (in Python: input_format=...)"
            )


_FORMATS: dict[str, InputFormat] = {
    ".conllu": "conllu",
    ".conll": "conll",
    ".fasta": "fasta",
    ".fa": "fasta",
    ".faa": "fasta",
}
