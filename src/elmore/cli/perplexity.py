"""`elmore perplexity`: the perplexity of a text."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elmore.cli.command import SOURCE, argument, command, option
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
from elmore.defaults import (
    DEFAULT_PASSAGE,
    DEFAULT_PERPLEXITY_BATCH_SIZE,
    DEFAULT_PERPLEXITY_STATE,
    ComputeName,
    StateName,
)
from elmore.display import pluralize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from elmore.corpus.corpus import Corpus
    from elmore.progress import Progress
    from elmore.scoring.perplexity import Perplexity
    from elmore.text.style import TokenizerConfig

STATE = "State"


@command()
@argument(
    "texts",
    type=SOURCE,
    nargs=-1,
    required=True,
    metavar="TEXT...",
    help=f"{TEXT_HELP} Or a part of a prepared corpus: FOLDER/heldout.",
)
@option("--json", "as_json", is_flag=True, help="Print JSON.")
@inference_option(
    "state",
    default=DEFAULT_PERPLEXITY_STATE,
    panel=STATE,
    help="carry: the state continues from sentence to sentence. fixed: each sentence starts from the start state.",
)
@option(
    "--batch-size",
    default=DEFAULT_PERPLEXITY_BATCH_SIZE,
    metavar="N",
    panel=STATE,
    help="Rows, each with a carried state.",
)
@option(
    "--passage",
    default=DEFAULT_PASSAGE,
    metavar="N",
    panel=STATE,
    help="Consecutive sentences of a row with --state carry; 1, with --batch-size 1, as bilm-tf.",
)
@option(
    "--first-words",
    type=int,
    metavar="N",
    panel=STATE,
    help="Count only the first N words that each direction predicts of each sentence.",
)
@text_options
@model_options
@compute_option
def perplexity(
    verbosity: Verbosity,
    model: ModelOptions,
    text: TextOptions,
    *,
    texts: tuple[str, ...],
    as_json: bool,
    state: StateName,
    batch_size: int,
    passage: int,
    first_words: int | None,
    compute: ComputeName,
) -> None:
    """Compute the perplexity of TEXT.

    By the full softmax: the perplexity of each direction, their mean, and the share of <UNK>.
    """
    from elmore.files.text_files import total_bytes
    from elmore.progress import progress_bar
    from elmore.scoring.perplexity import perplexity as measure

    sources = _sources(texts, text)
    scorer = model.load_scorer(verbosity, compute)
    with progress_bar("scoring", show=verbosity.show_progress, total_bytes=total_bytes(sources)) as progress:
        found = measure(
            progress.track(_sentences(sources, text, scorer.model.card.text, progress)),
            model=scorer,
            token_style=text.token_style,
            state=state,
            batch_size=batch_size,
            passage=passage,
            first_words=first_words,
            progress=progress,
        )
    if as_json:
        settings = {"state": state} | ({"batch_size": batch_size, "passage": passage} if state == "carry" else {})
        name = model.model or scorer.model.card.name or scorer.model.card.source
        facts = {"model": name, "texts": texts, **found._asdict(), **settings, "first_words": first_words}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        for name, value in _lines(found, state=state, batch_size=batch_size, passage=passage, first_words=first_words):
            print(f"{name:<10}{value}")


def _sources(texts: Sequence[str], options: TextOptions) -> list[str]:
    """The files to read. A part of a prepared corpus is FOLDER/heldout.bin or FOLDER/train.bin."""
    sources: list[str] = []
    for text in texts:
        path = Path(text)
        part = path if path.suffix == ".bin" else path.parent / f"{path.name}.bin"
        if _is_corpus_part(part):
            sources.append(str(part))
        else:
            files = options.find([text])
            options.format_of(files)  # errors are reported before a model is loaded
            sources += files
    return sources


def _is_corpus_part(path: Path) -> bool:
    from elmore.corpus.corpus import HELDOUT, MANIFEST, TRAIN

    return path.name in (HELDOUT, TRAIN) and (path.parent / MANIFEST).is_file()


def _sentences(
    sources: Iterable[str], options: TextOptions, config: "TokenizerConfig", progress: "Progress"
) -> Iterator[list[str]]:
    from elmore.corpus.corpus import HELDOUT, Corpus

    for source in map(Path, sources):
        if _is_corpus_part(source):
            corpus = Corpus.open(source.parent)
            yield from _corpus_sentences(corpus.heldout if source.name == HELDOUT else corpus.train, corpus, progress)
        else:
            # Blank lines separate documents. Training text has no sentences without words.
            yield from filter(None, options.read([str(source)], config, progress))


def _corpus_sentences(
    numbers: "NDArray[np.uint32]", corpus: "Corpus", progress: "Progress", *, chunk_size: int = 2**16
) -> Iterator[list[str]]:
    words: list[str] = []
    for start in range(1, len(numbers), chunk_size):
        chunk = numbers[start : start + chunk_size]
        progress.read(chunk.nbytes)
        for number in chunk.tolist():
            if number:
                words.append(corpus.types[number])
            else:
                yield words
                words = []


def _lines(
    found: "Perplexity", *, state: str, batch_size: int, passage: int, first_words: int | None
) -> list[tuple[str, str]]:
    counted = f"the first {first_words} of each sentence" if first_words else "words and the ends of sentences"
    state_text = "fixed: each sentence starts from the model's start state"
    if state == "carry":
        state_text = f"carried in {batch_size} rows with {passage} consecutive sentences"
    directions = {"forward": found.forward, "backward": found.backward}
    return [
        ("tokens", f"{found.tokens:,} ({counted}), in {pluralize(found.sentences, 'sentence')}"),
        ("<UNK>", f"{found.unknown:.2%}"),
        ("state", state_text),
        *(
            (name, "none: the model has one direction" if value is None else f"{value:.2f}")
            for name, value in directions.items()
        ),
        ("mean", f"{found.mean:.2f}"),
    ]
