"""The options by which a verb is told how to read a text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import click

from elmore.cli.command import INPUT, option, options_record
from elmore.errors import InputError
from elmore.text.reading import InputFormat, format_of
from elmore.text_files import DecodingErrors

if TYPE_CHECKING:
    from elmore.text.style import TextStyle

TEXT_FILE_HELP = "Text, CoNLL-U or FASTA, also .gz .bz2 .xz .zst; - is stdin."


@dataclass(frozen=True, kw_only=True)
class TextChoice:
    """How the command line says a text is to be read."""

    tokenized: bool
    no_split: bool
    input_format: InputFormat | None
    errors: DecodingErrors

    def format_of(self, source: str) -> InputFormat | None:
        """What the flags say of the input's format; None leaves it to the file's name."""
        if not self.tokenized or self.input_format == "tokenized":
            return self.input_format
        if self.input_format is not None:
            raise InputError(
                f"--tokenized and --input-format {self.input_format} contradict each other; give one of them"
            )
        if (named := format_of(source)) != "text":
            raise InputError(
                f"{source}: by its name it is {named}, where every word is marked; leave out --tokenized, "
                "or say --input-format tokenized if it is a sentence a line all the same"
            )
        return "tokenized"

    def read(self, source: str, style: "TextStyle") -> Iterator[list[str]]:
        """The sentences of a file, as words in the model's style."""
        # Imported here: tokenisers take a while.
        from elmore.text.reading import read_sentences

        read = read_sentences(
            source, format=self.format_of(source), style=style, split=not self.no_split, errors=self.errors
        )
        return (sentence.words for _, sentence in read)


tokenized_option = option("--tokenized", is_flag=True, panel=INPUT, help="A sentence a line, blanks between its words.")
errors_option = option(
    "--errors",
    type=click.Choice(get_args(DecodingErrors)),
    default="strict",
    metavar="HOW",
    panel=INPUT,
    help="At bytes that are not UTF-8: strict stops, replace puts U+FFFD.",
)
text_options = options_record(
    "text",
    TextChoice,
    [
        tokenized_option,
        option("--no-split", is_flag=True, panel=INPUT, help="A line is a sentence, blank ones too."),
        option(
            "--input-format",
            type=click.Choice(get_args(InputFormat)),
            metavar="KIND",
            panel=INPUT,
            help="text, tokenized, conllu or fasta; by default as the file's name tells.",
        ),
        errors_option,
    ],
)
