"""`elmore surprisal`: the surprisal of each word of a text."""

import sys
from functools import partial
from pathlib import Path

from elmore.cli.command import SOURCE, argument, command, force_option, option
from elmore.cli.options import (
    TEXT_HELP,
    ModelOptions,
    TextOptions,
    compute_option,
    inference_option,
    model_options,
    text_options,
)
from elmore.cli.output import Verbosity
from elmore.defaults import ComputeName, StateName
from elmore.display import pluralize


@command()
@argument("texts", type=SOURCE, nargs=-1, required=True, metavar="TEXT...", help=TEXT_HELP)
@option(
    "--output",
    "-o",
    type=SOURCE,
    default="-",
    metavar="FILE",
    help="A table: .tsv, .csv, .json or .jsonl; - is stdout, tab-separated.",
)
@option(
    "--log-probabilities",
    is_flag=True,
    help="Write natural logarithms of probabilities, in columns log_forward, log_backward, log_both.",
)
@force_option
@inference_option(
    "state", help="fixed: each sentence starts from the model's start state. carry: the file is read as one text."
)
@text_options
@model_options
@compute_option
def surprisal(
    verbosity: Verbosity,
    model: ModelOptions,
    text: TextOptions,
    *,
    texts: tuple[str, ...],
    output: str,
    log_probabilities: bool,
    force: bool,
    state: StateName,
    compute: ComputeName,
) -> None:
    """Write the surprisal of each word, in bits.

    Columns: from the words to the left, from those to the right, and their mean. Sentences and positions count from 0.
    A word outside the vocabulary (in_vocabulary 0) has the probability of <UNK>.
    """
    from elmore.files.atomic_files import atomic_write
    from elmore.files.output_paths import check_output
    from elmore.files.text_files import total_bytes
    from elmore.progress import progress_bar
    from elmore.scoring.surprisal import is_table, table_format, write_table
    from elmore.scoring.surprisal import surprisal as score

    write = partial(write_table, format=table_format(output), logarithms=log_probabilities)
    sources = text.find(texts)
    text.format_of(sources)  # errors are reported before a model is loaded
    if output != "-":
        check_output(output, inputs=[*sources, *model.inputs], may_replace=is_table, force=force)
    scorer = model.load_scorer(verbosity, compute)
    with progress_bar("scoring", show=verbosity.show_progress, total_bytes=total_bytes(sources)) as progress:
        sentences = progress.track(text.read(sources, scorer.model.card.text, progress))
        scores = score(sentences, model=scorer, token_style=text.token_style, state=state, progress=progress)
        if output == "-":
            write(scores, sys.stdout)
            return
        with atomic_write(Path(output)) as unfinished, unfinished.open("w", encoding="utf-8", newline="") as file:
            words = write(scores, file)
    verbosity.info(f"wrote {output}: {pluralize(words, 'word')}")
