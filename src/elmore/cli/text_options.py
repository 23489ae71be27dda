"""The options by which every verb is told how to read a text."""

from enum import StrEnum
from typing import Annotated

import typer

from elmore.errors import InputError
from elmore.text.reading import InputFormat, format_of

PANEL = "Input"


class InputKind(StrEnum):
    """What the input is."""

    text = "text"
    tokenized = "tokenized"
    conllu = "conllu"
    fasta = "fasta"


class Errors(StrEnum):
    """What to do about bytes that are not UTF-8."""

    strict = "strict"
    replaced = "replace"


class StateChoice(StrEnum):
    """Where the reading of a sentence starts."""

    fixed = "fixed"
    carry = "carry"


Tokenized = Annotated[
    bool,
    typer.Option("--tokenized", help="A sentence a line, blanks between its words.", rich_help_panel=PANEL, metavar=""),
]
InputFormatOption = Annotated[
    InputKind | None,
    typer.Option(
        "--input-format",
        metavar="KIND",
        help="text, tokenized, conllu or fasta; by default as the file's name tells.",
        rich_help_panel=PANEL,
        show_choices=False,
    ),
]
ErrorsOption = Annotated[
    Errors,
    typer.Option(
        "--errors",
        metavar="HOW",
        help="At bytes that are not UTF-8: strict stops, replace puts U+FFFD.",
        rich_help_panel=PANEL,
        show_choices=False,
    ),
]


def chosen_format(source: str, kind: InputKind | None, *, tokenized: bool) -> InputFormat | None:
    """What the flags say of the input's format; None leaves it to the file's name.

    >>> chosen_format("a.txt", None, tokenized=True)
    'tokenized'
    """
    if not tokenized or kind is InputKind.tokenized:
        return None if kind is None else kind.value
    if kind is not None:
        raise InputError(f"--tokenized and --input-format {kind} contradict each other; give one of them")
    if (told := format_of(source)) != "text":
        raise InputError(
            f"{source}: by its name it is {told}, where every word is marked; leave out --tokenized, "
            "or say --input-format tokenized if it is a sentence a line all the same"
        )
    return "tokenized"
