"""The formats that text comes in, and which of them the name of a file tells. `reading` says what each of them is."""

from pathlib import Path
from typing import Literal

from elmore.text_files import unpacked_suffix

InputFormat = Literal["text", "tokenized", "conllu", "conll", "fasta"]
CorpusFormat = Literal["text", "tokenized", "fasta"]  # of text to train on


def format_of(path: str | Path) -> InputFormat:
    """The format that the name of a file tells, packed or not.

    >>> format_of("train.conllu.gz"), format_of("proteins.fa"), format_of("-")
    ('conllu', 'fasta', 'text')
    """
    return _FORMATS.get(unpacked_suffix(path), "text")


_FORMATS: dict[str, InputFormat] = {
    ".conllu": "conllu",
    ".conll": "conll",
    ".fasta": "fasta",
    ".fa": "fasta",
    ".faa": "fasta",
}
