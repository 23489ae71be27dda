"""`elmore prepare`: raw text in, a corpus to train on out."""

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from elmore.cli.command import ADDRESS, FILE, INPUT, SOURCE, argument, option, verb
from elmore.cli.text_options import errors_option, paragraphs_option, tokenized_option
from elmore.cli.verbosity import Verbosity
from elmore.defaults import DEFAULT_HELDOUT_SHARE, DEFAULT_LANGUAGE, DEFAULT_PREPARE_SEED, DEFAULT_VOCABULARY_SIZE
from elmore.display import pluralize
from elmore.errors import InputError
from elmore.files.text_files import DecodingErrors
from elmore.text.input_format import CorpusFormat
from elmore.text.paragraphs import Paragraphs

if TYPE_CHECKING:
    from elmore.corpus.corpus import Corpus


@verb()
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
    help="text, tokenized or fasta; by default as the files' names tell.",
)
@paragraphs_option
@errors_option
@option(
    "--language", default=DEFAULT_LANGUAGE, metavar="CODE", panel=INPUT, help="For splitting and tokenising, as in: de."
)
@option("--lowercase", is_flag=True, panel=INPUT, help="Turn words to lower case.")
@option(
    "--vocabulary-size",
    type=int,
    metavar="N",
    show_default=str(DEFAULT_VOCABULARY_SIZE),
    help="Words of the softmax vocabulary, its three marks included.",
)
@option(
    "--vocabulary",
    type=ADDRESS,
    metavar="FILE",
    help="Take this softmax vocabulary, a word a line, most frequent first; or that of a model, by its name.",
)
@option("--workers", type=int, metavar="N", show_default="one per CPU", help="Number of processes.")
@option(
    "--heldout", default=DEFAULT_HELDOUT_SHARE, metavar="SHARE", help="The share of documents to hold out of training."
)
@option("--seed", default=DEFAULT_PREPARE_SEED, metavar="N", help="Decides which documents are held out.")
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
    """Split, tokenise and number TEXT, for `elmore pretrain`.

    Between documents stand blank lines, or Wikipedia's <doc> lines; in hard-wrapped text, where a blank line ends a
    paragraph, two or more of them. In FASTA each protein is a document.
    """
    from elmore.corpus.prepare import prepare as prepare_corpus
    from elmore.files.text_files import total_bytes
    from elmore.progress import progress_bar
    from elmore.text.input_format import check_tokenized
    from elmore.text.inputs import find_inputs

    if tokenized and input_format not in (None, "tokenized"):
        raise InputError(f"--tokenized and --input-format {input_format} contradict each other; give one")
    files = find_inputs(inputs, formats=get_args(CorpusFormat)).files
    if tokenized:
        check_tokenized(files if input_format is None else ())
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
        lines.append(f"  left out: {pluralize(drop['count'], name)}: {drop['why']}")
    for name, change in manifest.changed.items():
        lines.append(
            f"  {name.replace('_', ' ')}: {pluralize(change['types'], 'type')}, "
            f"{pluralize(change['tokens'], 'token')}: {change['why']}"
        )
    return "\n".join(lines)


def _vocabulary_file(named: str) -> Path:
    """The file itself, or the vocabulary in the folder of a model on this machine."""
    from elmore.defaults import TINY_MODEL
    from elmore.sources import PUBLISHED, resolve_model
    from elmore.sources.urls import is_url

    if Path(named).is_file():
        return Path(named)
    if is_url(named):
        raise InputError(f"{named}: is an address; download the file and give its path")
    # Published models come without a vocabulary, so there is no reason to download one.
    is_elsewhere = named in (TINY_MODEL, *PUBLISHED) and not Path(named).exists()
    folder = None if is_elsewhere else resolve_model(named).path
    files = [folder / name for name in ("vocabulary.txt", "vocab.txt")] if folder is not None else []
    for file in files:
        if file.is_file():
            return file
    raise InputError(
        f"{named}: has no vocabulary.txt; name a file with a word a line, or a model that has one, such as elmore-en"
    )
