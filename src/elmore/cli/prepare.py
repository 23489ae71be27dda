"""`elmore prepare`: prepare a corpus for training."""

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from elmore.cli.command import ADDRESS, FILE, INPUT, SOURCE, argument, command, option
from elmore.cli.options import errors_option, paragraphs_option, tokenized_option
from elmore.cli.output import Verbosity
from elmore.defaults import DEFAULT_HELDOUT_SHARE, DEFAULT_PREPARE_SEED, DEFAULT_VOCABULARY_SIZE
from elmore.display import pluralize
from elmore.errors import InputError
from elmore.files.input_files import CorpusFormat, find_inputs
from elmore.files.text_files import DecodingErrors
from elmore.text.paragraphs import Paragraphs
from elmore.text.style import DEFAULT_LANGUAGE

if TYPE_CHECKING:
    from elmore.corpus.corpus import Corpus


@command()
@argument(
    "inputs",
    type=SOURCE,
    nargs=-1,
    required=True,
    metavar="TEXT...",
    help="Files (plain, gz, xz, bz2, zst), folders, globs; - for stdin.",
)
@option("--output", "-o", type=FILE, required=True, metavar="FOLDER", help="A new or empty folder.")
@tokenized_option
@option(
    "--input-format",
    type=click.Choice(get_args(CorpusFormat)),
    metavar="KIND",
    panel=INPUT,
    help="text, tokenized or fasta. Default: by the files' names.",
)
@paragraphs_option
@errors_option
@option(
    "--language",
    default=DEFAULT_LANGUAGE,
    metavar="CODE",
    panel=INPUT,
    help="Language of splitting and tokenization, as in: de.",
)
@option("--lowercase", is_flag=True, panel=INPUT, help="Convert words to lower case.")
@option(
    "--vocabulary-size",
    type=int,
    metavar="N",
    show_default=str(DEFAULT_VOCABULARY_SIZE),
    help="Words of the softmax vocabulary, with its three special words.",
)
@option(
    "--vocabulary",
    type=ADDRESS,
    metavar="FILE",
    help="Softmax vocabulary: a file with one word per line, most frequent first, or the name of a model.",
)
@option("--workers", type=int, metavar="N", show_default="one per CPU", help="Number of processes.")
@option(
    "--heldout", default=DEFAULT_HELDOUT_SHARE, metavar="SHARE", help="Fraction of documents held out from training."
)
@option("--seed", default=DEFAULT_PREPARE_SEED, metavar="N", help="Seed of the choice of held-out documents.")
def prepare(
    verbosity: Verbosity,
    *,
    inputs: tuple[str, ...],
    output: Path,
    tokenized: bool,
    input_format: CorpusFormat | None,
    paragraphs: Paragraphs | None,
    errors: DecodingErrors,
    language: str,
    lowercase: bool,
    vocabulary_size: int | None,
    vocabulary: str | None,
    workers: int | None,
    heldout: float,
    seed: int,
) -> None:
    """Prepare a corpus for `elmore pretrain`.

    TEXT is split, tokenized and numbered. Documents are separated by blank lines or by Wikipedia's <doc> lines; in
    hard-wrapped text, where a blank line ends a paragraph, by two or more blank lines. In FASTA each protein is a
    document.
    """
    from elmore.corpus.prepare import prepare as prepare_corpus
    from elmore.files.text_files import total_bytes
    from elmore.progress import progress_bar
    from elmore.text.sentence_reader import resolve_format

    files = find_inputs(inputs, formats=get_args(CorpusFormat)).files
    if resolve_format(files, input_format=input_format, tokenized=tokenized) == "tokenized":
        input_format = "tokenized"
    size = total_bytes(files)
    with progress_bar("preparing", show=verbosity.show_progress, total_bytes=size) as progress:
        try:
            corpus = prepare_corpus(
                inputs,
                output,
                input_format=input_format,
                paragraphs=paragraphs,
                vocabulary_size=vocabulary_size,
                vocabulary=None if vocabulary is None else _vocabulary_file(vocabulary),
                heldout=heldout,
                language=language,
                lowercase=lowercase,
                seed=seed,
                errors=errors,
                workers=workers,
                progress=progress,
            )
        except KeyboardInterrupt:
            verbosity.info("stopped; nothing was written")
            raise click.exceptions.Exit(130) from None
    verbosity.info(_summary(corpus))


def _summary(corpus: "Corpus") -> str:
    manifest = corpus.manifest
    words, classes = len(corpus.types) - 2, len(corpus.vocabulary)
    lines = [f"wrote {corpus.path}: {pluralize(words, 'distinct word')}, a vocabulary of {classes:,} words"]
    for name, part in manifest.parts.items():
        lines.append(
            f"  {name}: {pluralize(part.documents, 'document')}, {pluralize(part.sentences, 'sentence')}, "
            f"{pluralize(part.tokens, 'token')}, "
            f"{part.unknown_share:.2%} of them <UNK>"
        )
    for name, drop in manifest.dropped.items():
        lines.append(f"  omitted: {pluralize(drop['count'], name)}: {drop['why']}")
    for name, change in manifest.changed.items():
        lines.append(
            f"  {name.replace('_', ' ')}: {pluralize(change['types'], 'type')}, "
            f"{pluralize(change['tokens'], 'token')}: {change['why']}"
        )
    return "\n".join(lines)


def _vocabulary_file(name: str) -> Path:
    """The file, or the vocabulary in the folder of a local model."""
    from elmore.defaults import TINY_MODEL
    from elmore.sources import PUBLISHED, resolve_model
    from elmore.sources.urls import is_url

    if Path(name).is_file():
        return Path(name)
    if is_url(name):
        raise InputError(f"{name}: is an address; download the file and give its path")
    # Published models have no vocabulary, so downloading one is useless.
    is_elsewhere = name in (TINY_MODEL, *PUBLISHED) and not Path(name).exists()
    folder = None if is_elsewhere else resolve_model(name).path
    files = [folder / file_name for file_name in ("vocabulary.txt", "vocab.txt")] if folder is not None else []
    for file in files:
        if file.is_file():
            return file
    raise InputError(
        f"{name}: has no vocabulary.txt; name a file with one word per line, or a model with one, such as elmore-en"
    )
