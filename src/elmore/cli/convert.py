"""`elmore convert`: any model in, Elmore's folder or the HDF5 pair out."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.model_options import MODEL_HELP, OptionsFile, TokenEmbeddingsFile, VocabularyFile, WeightFile
from elmore.cli.speaking import Quiet, Speech, Verbose
from elmore.errors import NotFound

if TYPE_CHECKING:
    from elmore.text.style import TextStyle

CARD = "What its card should say"


class TargetFormat(StrEnum):
    """What can be written."""

    folder = "folder"
    folder_int8 = "folder-int8"
    hdf5 = "hdf5"
    token_embeddings = "token-embeddings"  # noqa: S105 (no password)


class TokenizerChoice(StrEnum):
    """The tokenisers a card can name."""

    moses = "moses"
    whitespace = "whitespace"
    characters = "characters"


def convert(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="The folder or file to write.")],
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=MODEL_HELP)] = None,
    format: Annotated[  # noqa: A002 (the flag's name)
        TargetFormat,
        typer.Option(
            metavar="FORMAT",
            help="folder: Elmore's own; folder-int8: a quarter of its size; hdf5: options.json and weights.hdf5; "
            "token-embeddings: the word vectors of --vocab, one HDF5 file.",
            show_choices=False,
        ),
    ] = TargetFormat.folder,
    warm: Annotated[
        Path | None, typer.Option(metavar="TEXT", help="Store a warm start state, made from this text.")
    ] = None,
    about: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A TOML file: name, description, licence, and more.", rich_help_panel=CARD),
    ] = None,
    tokenizer: Annotated[
        TokenizerChoice | None,
        typer.Option(metavar="NAME", help="moses, whitespace or characters.", rich_help_panel=CARD, show_choices=False),
    ] = None,
    language: Annotated[
        str | None, typer.Option(metavar="CODE", help="Its language, as in: de.", rich_help_panel=CARD)
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option(help="It expects lower case.", rich_help_panel=CARD, metavar="")
    ] = None,
    escape: Annotated[
        bool | None, typer.Option(help="It expects &apos; for '.", rich_help_panel=CARD, metavar="")
    ] = None,
    options_file: OptionsFile = None,
    weight_file: WeightFile = None,
    vocab: VocabularyFile = None,
    token_embeddings: TokenEmbeddingsFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write MODEL in another format, or with another card."""
    speech = Speech.of(context, quiet=quiet, verbose=verbose)
    if warm is not None and not warm.exists():
        raise NotFound(f"{warm}: no such file")

    from elmore.embedding.warming import warmed
    from elmore.formats.about import read_about, with_about
    from elmore.formats.token_embeddings import write_token_embeddings
    from elmore.model import load, save, token_embeddings_of
    from elmore.text.reading import read_sentences
    from elmore.text.tokenizing import Tokenizer

    said = {} if about is None else read_about(about)
    loaded = load(model, options=options_file, weights=weight_file, vocabulary=vocab, token_embeddings=token_embeddings)
    style = _changed(loaded.card.text, tokenizer=tokenizer, language=language, lowercase=lowercase, escape=escape)
    Tokenizer(style)  # refuses a style that it could not follow, before it is written down
    loaded = replace(loaded, card=with_about(replace(loaded.card, text=style), said))
    if warm is not None:
        sentences = (sentence.words for _, sentence in read_sentences(warm, style=style))
        loaded = warmed(loaded, sentences, text_name=warm.name)
    if format is TargetFormat.token_embeddings:
        write_token_embeddings(token_embeddings_of(loaded), output)
    else:
        save(loaded, output, format=format.value)
    speech.say(f"wrote {output}")


def _changed(
    style: "TextStyle",
    *,
    tokenizer: TokenizerChoice | None,
    language: str | None,
    lowercase: bool | None,
    escape: bool | None,
) -> "TextStyle":
    """The style with what was said of it; None leaves a field as it is."""
    return replace(
        style,
        tokenizer=style.tokenizer if tokenizer is None else tokenizer.value,
        language=style.language if language is None else language,
        lowercase=style.lowercase if lowercase is None else lowercase,
        escape=style.escape if escape is None else escape,
    )
