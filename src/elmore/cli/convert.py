"""`elmore convert`: any model in, Elmore's folder or the HDF5 pair out."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmore.cli.model_options import ModelArgument, TokenEmbeddingsFile, VocabularyFile
from elmore.cli.speaking import Quiet, Speech, Verbose


class TargetFormat(StrEnum):
    """What can be written."""

    folder = "folder"
    hdf5 = "hdf5"
    token_embeddings = "token-embeddings"


class TokenizerChoice(StrEnum):
    """The tokenisers a card can name."""

    moses = "moses"
    whitespace = "whitespace"
    characters = "characters"


def convert(
    context: typer.Context,
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="The folder or file to write.")],
    format: Annotated[  # noqa: A002 (the flag's name)
        TargetFormat,
        typer.Option(
            help="Elmore's own folder; options.json + weights.hdf5; or the word vectors of --vocab as one HDF5 file."
        ),
    ] = TargetFormat.folder,
    vocab: VocabularyFile = None,
    token_embeddings: TokenEmbeddingsFile = None,
    warm: Annotated[
        Path | None, typer.Option(metavar="TEXT", help="Compute a warm start state from this text and store it.")
    ] = None,
    tokenizer: Annotated[TokenizerChoice | None, typer.Option(help="Note the tokeniser the model expects.")] = None,
    language: Annotated[str | None, typer.Option(metavar="CODE", help="Note the model's language, as in: de.")] = None,
    lowercase: Annotated[bool | None, typer.Option(help="Note that the model expects lower case.")] = None,
    escape: Annotated[bool | None, typer.Option(help="Note that the model expects &apos; for '.")] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write MODEL in another format, with what its card should say of its text."""
    from elmore.embedding.warming import warmed
    from elmore.formats.token_embeddings import write_token_embeddings
    from elmore.model import load, save, token_embeddings_of
    from elmore.text.reading import read_sentences

    speech = Speech.of(context, quiet=quiet, verbose=verbose)
    loaded = load(model, vocabulary=vocab, token_embeddings=token_embeddings)
    notes = {"tokenizer": tokenizer and tokenizer.value, "language": language, "lowercase": lowercase, "escape": escape}
    style = replace(loaded.card.text, **{name: note for name, note in notes.items() if note is not None})
    loaded = replace(loaded, card=replace(loaded.card, text=style))
    if warm is not None:
        sentences = (sentence.words for _, sentence in read_sentences(warm, style=style))
        loaded = warmed(loaded, sentences, text_name=warm.name)
    if format is TargetFormat.token_embeddings:
        write_token_embeddings(token_embeddings_of(loaded), output)
    else:
        save(loaded, output, format=format.value)
    speech.say(f"wrote {output}")
