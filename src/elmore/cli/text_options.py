"""The options by which a verb is told how to read a text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import click

from elmore.cli.command import INPUT, option, options_record
from elmore.cli.model_options import inference_option
from elmore.errors import InputError
from elmore.files.text_files import DEFAULT_ERRORS, DecodingErrors
from elmore.progress import Progress
from elmore.text.input_format import InputFormat, check_token_style, check_tokenized
from elmore.text.paragraphs import PARAGRAPHS, Paragraphs
from elmore.text.style import TOKENIZERS, TokenizerConfig, TokenizerName, TokenStyle

TEXT_HELP = "Files of text, CoNLL-U or FASTA, also .gz .bz2 .xz .zst; folders, globs; - is stdin."


@dataclass(frozen=True, kw_only=True)
class TextChoice:
    """How the command line says a text is to be read."""

    tokenized: bool
    no_split: bool
    input_format: InputFormat | None
    errors: DecodingErrors
    paragraphs: Paragraphs | None
    language: str | None
    tokenizer: TokenizerName | None
    token_style: TokenStyle

    def find(self, texts: Sequence[str]) -> list[str]:
        """The files for the arguments of a command, with a warning about skipped files."""
        from elmore.text.inputs import find_inputs

        inputs = find_inputs(texts)
        inputs.warn_about_dropped()
        return inputs.files

    def format_of(self, files: Sequence[str]) -> InputFormat | None:
        """The format of all files if an option sets it, None if their names do; an error if an option does not fit."""
        chosen = self._chosen_format(files)
        check_token_style(files, chosen, self.token_style)
        return chosen

    def _chosen_format(self, files: Sequence[str]) -> InputFormat | None:
        if not self.tokenized or self.input_format == "tokenized":
            return self.input_format
        if self.input_format is not None:
            raise InputError(
                f"--tokenized and --input-format {self.input_format} contradict each other; give one of them"
            )
        check_tokenized(files)
        return "tokenized"

    def style(self, style: TokenizerConfig) -> TokenizerConfig:
        """The style of a model, with what the flags say of it."""
        return replace(style, language=self.language or style.language, tokenizer=self.tokenizer or style.tokenizer)

    def read(self, files: Sequence[str], style: TokenizerConfig, progress: Progress) -> Iterator[list[str]]:
        """The words of every sentence of these files, in the model's style."""
        # Imported here: tokenisers take a while.
        from elmore.text.sentence_reader import read_sentences

        read = read_sentences(
            files,
            style=self.style(style),
            format=self.format_of(files),
            split=not self.no_split,
            paragraphs=self.paragraphs,
            errors=self.errors,
            on_read=progress.read,
        )
        return (sentence.words for _, sentence in read)


tokenized_option = option("--tokenized", is_flag=True, panel=INPUT, help="A sentence a line, blanks between its words.")
errors_option = option(
    "--errors",
    type=click.Choice(get_args(DecodingErrors)),
    default=DEFAULT_ERRORS,
    metavar="HOW",
    panel=INPUT,
    help="At bytes that are not UTF-8: strict stops, replace puts U+FFFD.",
)
paragraphs_option = option(
    "--paragraphs",
    type=click.Choice(PARAGRAPHS),
    metavar="HOW",
    panel=INPUT,
    help="A paragraph is a line, or hard-wrapped lines up to a blank-line; by default as the text looks.",
)
token_style_option = inference_option("token_style", panel=INPUT)
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
            help=f"{', '.join(get_args(InputFormat))}; by default as the file's name tells.",
        ),
        paragraphs_option,
        option(
            "--language",
            metavar="CODE",
            panel=INPUT,
            help="Split and tokenise as in this language, as in: de; by default the model's.",
        ),
        option(
            "--tokenizer",
            type=click.Choice(TOKENIZERS),
            metavar="NAME",
            panel=INPUT,
            help=f"{', '.join(TOKENIZERS)}; by default the model's.",
        ),
        token_style_option,
        errors_option,
    ],
)
