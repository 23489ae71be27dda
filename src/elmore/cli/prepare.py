"""`elmore prepare`: raw text in, a corpus to train on out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.speaking import Quiet, Speech, Verbose
from elmore.cli.text_options import Errors
from elmore.errors import InputError

if TYPE_CHECKING:
    from elmore.corpus.corpus import Corpus


class CorpusKind(StrEnum):
    """What the input is."""

    text = "text"
    tokenized = "tokenized"
    fasta = "fasta"


def prepare(
    context: typer.Context,
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Files (plain, gz, xz, bz2, zst), folders, globs; - for stdin."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="A new or empty folder.")],
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="A sentence a line, words separated by blanks: take them as they are.")
    ] = False,
    input_format: Annotated[CorpusKind | None, typer.Option(help="By default the files' names tell.")] = None,
    vocabulary_size: Annotated[
        int | None,
        typer.Option(help="Words of the softmax vocabulary, its three marks included.", show_default="50000"),
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Take this softmax vocabulary, a word a line, most frequent first; or that of a model, by its name.",
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Processes to share the work.", show_default="one a core")] = None,
    heldout: Annotated[float, typer.Option(help="The share of documents to hold out of training.")] = 0.005,
    language: Annotated[str, typer.Option(metavar="CODE", help="For splitting and tokenising, as in: de.")] = "en",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Turn words to lower case.")] = False,
    seed: Annotated[int, typer.Option(help="Decides which documents are held out.")] = 1,
    errors: Annotated[Errors, typer.Option(help="Bytes that are not UTF-8: stop, or replace them.")] = Errors.strict,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Split, tokenise and number TEXT, for `elmore pretrain`.

    Text is a paragraph a line, with blank lines (or Wikipedia's <doc> lines) between documents.

    In FASTA each protein is a document.
    """
    from elmore.corpus.prepare import prepare as prepare_corpus
    from elmore.progress import progress_bar

    speech = Speech.of(context, quiet=quiet, verbose=verbose)
    if tokenized and input_format not in (None, CorpusKind.tokenized):
        raise InputError(f"--tokenized and --input-format {input_format} contradict each other; give one")
    if tokenized:
        input_format = CorpusKind.tokenized
    with progress_bar("preparing", show=speech.progress) as progress:
        try:
            corpus = prepare_corpus(
                inputs,
                output,
                input_format=input_format.value if input_format else None,
                vocabulary_size=vocabulary_size,
                vocabulary=None if vocabulary is None else _vocabulary_file(vocabulary),
                heldout=heldout,
                language=language,
                lowercase=lowercase,
                seed=seed,
                errors=errors.value,
                workers=workers,
                progress=progress,
            )
        except KeyboardInterrupt:
            speech.say("stopped; nothing was written")
            raise typer.Exit(130) from None
    speech.say(_summary(corpus))


def _summary(corpus: "Corpus") -> str:
    manifest = corpus.manifest
    words, classes = len(corpus.types) - 2, len(corpus.vocabulary)
    lines = [f"wrote {corpus.path}: {words:,} distinct words, a vocabulary of {classes:,} words"]
    for name, part in manifest["parts"].items():
        lines.append(
            f"  {name}: {part['documents']:,} documents, {part['sentences']:,} sentences, {part['tokens']:,} tokens, "
            f"{part['unknown_share']:.2%} of them <UNK>"
        )
    for name, drop in manifest["dropped"].items():
        lines.append(f"  left out: {drop['count']:,} {name.replace('_', ' ')}: {drop['why']}")
    for name, change in manifest["changed"].items():
        lines.append(
            f"  {name.replace('_', ' ')}: {change['types']:,} types, {change['tokens']:,} tokens: {change['why']}"
        )
    return "\n".join(lines)


def _vocabulary_file(named: Path) -> Path:
    """The file itself, or that of a model in Elmore's folder, which a corpus for fine-tuning is prepared with."""
    from elmore.errors import NotFound
    from elmore.sources import find

    if named.is_file():
        return named
    try:
        model = find(str(named)).path
    except NotFound:
        return named  # what is wrong with it, the reader of vocabularies tells
    return model / "vocabulary.txt" if model is not None and model.is_dir() else named
