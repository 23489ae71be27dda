"""`elmore surprisal`: the log-probability of every word of a text."""

import sys
from pathlib import Path
from typing import Literal

import click

from elmore.cli.command import argument, option, verb
from elmore.cli.model_options import ModelChoice, model_options
from elmore.cli.text_options import TEXT_FILE_HELP, TextChoice, text_options
from elmore.cli.verbosity import Verbosity


@verb()
@argument("source", metavar="FILE", help=TEXT_FILE_HELP)
@option("--output", "-o", default="-", metavar="FILE", help="A table, tab-separated; - for stdout.")
@option(
    "--state",
    type=click.Choice(["fixed", "carry"]),
    default="fixed",
    metavar="HOW",
    help="fixed starts each sentence from the model's own state; carry reads the file as one text.",
)
@text_options
@model_options
def surprisal(
    verbosity: Verbosity,
    model: ModelChoice,
    text: TextChoice,
    *,
    source: str,
    output: str,
    state: Literal["fixed", "carry"],
) -> None:
    """Write how probable every word of FILE was where it stood.

    Its log-probability from its left, from its right, and their mean. Natural logarithms: the surprisal in bits is
    -x / ln 2. Sentences and positions count from 0. A word outside the vocabulary (in_vocabulary 0) has the
    probability of <UNK>.
    """
    from elmore.atomic_files import atomic_write
    from elmore.progress import progress_bar
    from elmore.scoring.surprisal import surprisal as score
    from elmore.scoring.surprisal import write_table

    loaded = model.load()
    with progress_bar("scoring", show=verbosity.show_progress) as progress:
        scores = score(loaded, text.read(source, loaded.card.text), state=state, progress=progress)
        if output == "-":
            write_table(scores, sys.stdout)
            return
        with atomic_write(Path(output)) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
            words = write_table(scores, file)
    verbosity.info(f"wrote {output}: {words:,} words")
