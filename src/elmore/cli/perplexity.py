"""`elmore perplexity`: how well a model predicts a text."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from elmore.cli.command import SOURCE, argument, option, verb
from elmore.cli.model_options import ModelChoice, model_options
from elmore.cli.text_options import TextChoice, text_options
from elmore.cli.verbosity import Verbosity
from elmore.defaults import DEFAULT_PASSAGE, DEFAULT_PERPLEXITY_ROWS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from elmore.scoring.perplexity import Perplexity
    from elmore.text.style import TextStyle

READING = "Reading"


@verb()
@argument(
    "texts",
    type=SOURCE,
    nargs=-1,
    required=True,
    metavar="TEXT...",
    help="Files of text, CoNLL-U or FASTA (- is stdin), or a part of a corpus: FOLDER/heldout.",
)
@option("--json", "as_json", is_flag=True, help="Print JSON.")
@option(
    "--state",
    type=click.Choice(["carry", "fixed"]),
    default="carry",
    metavar="HOW",
    panel=READING,
    help="carry goes on from sentence to sentence; fixed starts each from the model's own state.",
)
@option(
    "--rows",
    default=DEFAULT_PERPLEXITY_ROWS,
    metavar="N",
    panel=READING,
    help="Rows read side by side when the state is carried.",
)
@option(
    "--passage",
    default=DEFAULT_PASSAGE,
    metavar="N",
    panel=READING,
    help="Sentences a row takes at a time when the state is carried; 1, with --rows 1, as bilm-tf.",
)
@option(
    "--first-words",
    type=int,
    metavar="N",
    panel=READING,
    help="Count only so many words of each sentence, the first each direction predicts.",
)
@text_options
@model_options
def perplexity(
    verbosity: Verbosity,
    model: ModelChoice,
    text: TextChoice,
    *,
    texts: tuple[str, ...],
    as_json: bool,
    state: Literal["carry", "fixed"],
    rows: int,
    passage: int,
    first_words: int | None,
) -> None:
    """Tell how well a model predicts TEXT, by the full softmax.

    Its perplexity in each direction and their mean, and the share of <UNK>.
    """
    from elmore.progress import progress_bar
    from elmore.scoring.perplexity import perplexity as measure

    loaded = model.load_to_run(verbosity)
    with progress_bar("scoring", show=verbosity.show_progress) as progress:
        found = measure(
            _sentences(texts, text, loaded.card.text),
            model=loaded,
            state=state,
            rows=rows,
            passage=passage,
            first_words=first_words,
            progress=progress,
        )
    if as_json:
        how = {"state": state} | ({"rows": rows, "passage": passage} if state == "carry" else {})
        name = model.model or loaded.card.name or loaded.card.source
        facts = {"model": name, "texts": texts, **found._asdict(), **how, "first_words": first_words}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        for name, value in _lines(found, state=state, rows=rows, passage=passage, first_words=first_words):
            print(f"{name:<10}{value}")


def _sentences(texts: Iterable[str], how: TextChoice, style: "TextStyle") -> Iterator[list[str]]:
    for text in texts:
        if (part := _corpus_part(Path(text))) is not None:
            yield from part
        else:
            # A blank line separates documents; a sentence without words is nothing that was ever trained on.
            yield from filter(None, how.read(text, style))


def _corpus_part(path: Path) -> Iterator[list[str]] | None:
    """The sentences of a prepared corpus, if this is a part of one: FOLDER/heldout or FOLDER/train."""
    from elmore.corpus.corpus import MANIFEST, Corpus

    if path.stem not in ("heldout", "train") or not (path.parent / MANIFEST).is_file():
        return None
    corpus = Corpus.open(path.parent)
    stream = corpus.heldout if path.stem == "heldout" else corpus.train
    return _stream_sentences(stream, corpus.types)


def _stream_sentences(stream: "NDArray[np.uint32]", types: list[str], *, at_once: int = 2**16) -> Iterator[list[str]]:
    words: list[str] = []
    for start in range(1, len(stream), at_once):
        for number in stream[start : start + at_once].tolist():
            if number:
                words.append(types[number])
            else:
                yield words
                words = []


def _lines(
    found: "Perplexity", *, state: str, rows: int, passage: int, first_words: int | None
) -> list[tuple[str, str]]:
    counted = f"the first {first_words} of each sentence" if first_words else "words and the ends of sentences"
    how = "fixed: every sentence from the model's own"
    if state == "carry":
        how = f"carried on in {rows} rows that take {passage} sentences at a time"
    each = {"forward": found.forward, "backward": found.backward}
    return [
        ("tokens", f"{found.tokens:,} ({counted}), in {found.sentences:,} sentences"),
        ("<UNK>", f"{found.unknown:.2%}"),
        ("state", how),
        *((name, "none: the model reads one way" if x is None else f"{x:.2f}") for name, x in each.items()),
        ("mean", f"{found.mean:.2f}"),
    ]
