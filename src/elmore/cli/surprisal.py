"""`elmore surprisal`: the log-probability of every word of a text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from elmore.cli.model_options import ModelArgument, VocabularyFile
from elmore.cli.speaking import Quiet, Speech, Verbose
from elmore.cli.text_options import Errors, InputKind, StateChoice


def surprisal(
    context: typer.Context,
    model: ModelArgument,
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="Text, CoNLL-U or FASTA; plain, gz, xz, zst; - for stdin.")
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="A table, tab-separated; - for stdout.")
    ] = "-",
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="A sentence a line, words separated by blanks: take them as they are.")
    ] = False,
    split: Annotated[bool, typer.Option(help="Split lines of running text into sentences.")] = True,
    input_format: Annotated[InputKind | None, typer.Option(help="By default the file's name tells.")] = None,
    errors: Annotated[Errors, typer.Option(help="Bytes that are not UTF-8: stop, or replace them.")] = Errors.strict,
    state: Annotated[
        StateChoice, typer.Option(help="Start each sentence from the model's own state, or read the file as one text.")
    ] = StateChoice.fixed,
    vocab: VocabularyFile = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...")] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write the log-probability of every word of FILE, from its left, from its right, and their mean.

    Natural logarithms: the surprisal in bits is -x / ln 2. Sentences and positions count from 0. A word outside the
    vocabulary (in_vocabulary 0) has the probability of <UNK>.
    """
    from elmore.atomic_files import atomic_write
    from elmore.model import load
    from elmore.progress import progress_bar
    from elmore.scoring.surprisal import surprisal as score
    from elmore.scoring.surprisal import write_table
    from elmore.text.reading import read_sentences

    speech = Speech.of(context, quiet=quiet, verbose=verbose)
    loaded = load(model, vocabulary=vocab, device=device)
    kind = InputKind.tokenized if tokenized else input_format
    read = read_sentences(
        source, format=kind.value if kind else None, style=loaded.card.text, split=split, errors=errors.value
    )
    with progress_bar("scoring", show=speech.progress) as progress:
        scores = score(loaded, (sentence.words for _, sentence in read), state=state.value, progress=progress)
        if output == "-":
            write_table(scores, sys.stdout)
            return
        with atomic_write(Path(output)) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
            words = write_table(scores, file)
    speech.say(f"wrote {output}: {words:,} words")
