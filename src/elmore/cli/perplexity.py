"""`elmore perplexity`: how well a model predicts a text."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elmore.cli.command import SOURCE, argument, option, verb
from elmore.cli.model_options import ModelChoice, compute_option, inference_option, model_options
from elmore.cli.text_options import TEXT_HELP, TextChoice, text_options
from elmore.cli.verbosity import Verbosity
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

READING = "Reading"


@verb()
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
    panel=READING,
    help="carry: each row continues from sentence to sentence. fixed: each sentence starts from the start state.",
)
@option(
    "--batch-size",
    default=DEFAULT_PERPLEXITY_BATCH_SIZE,
    metavar="N",
    panel=READING,
    help="Rows read side by side when the state is carried.",
)
@option(
    "--passage",
    default=DEFAULT_PASSAGE,
    metavar="N",
    panel=READING,
    help="Sentences a row takes at a time when the state is carried; 1, with --batch-size 1, as bilm-tf.",
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
@compute_option
def perplexity(
    verbosity: Verbosity,
    model: ModelChoice,
    text: TextChoice,
    *,
    texts: tuple[str, ...],
    as_json: bool,
    state: StateName,
    batch_size: int,
    passage: int,
    first_words: int | None,
    compute: ComputeName,
) -> None:
    """Tell how well a model predicts TEXT, by the full softmax.

    Its perplexity in each direction and their mean, and the share of <UNK>.
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
        how = {"state": state} | ({"batch_size": batch_size, "passage": passage} if state == "carry" else {})
        name = model.model or scorer.model.card.name or scorer.model.card.source
        facts = {"model": name, "texts": texts, **found._asdict(), **how, "first_words": first_words}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        for name, value in _lines(found, state=state, batch_size=batch_size, passage=passage, first_words=first_words):
            print(f"{name:<10}{value}")


def _sources(texts: Sequence[str], how: TextChoice) -> list[str]:
    """The files to read; of a prepared corpus FOLDER/heldout.bin or FOLDER/train.bin."""
    sources: list[str] = []
    for text in texts:
        path = Path(text)
        part = path if path.suffix == ".bin" else path.parent / f"{path.name}.bin"
        if _is_corpus_part(part):
            sources.append(str(part))
        else:
            files = how.find([text])
            how.format_of(files)  # an error comes before a model is loaded
            sources += files
    return sources


def _is_corpus_part(path: Path) -> bool:
    from elmore.corpus.corpus import HELDOUT, TRAIN
    from elmore.corpus.manifest import MANIFEST

    return path.name in (HELDOUT, TRAIN) and (path.parent / MANIFEST).is_file()


def _sentences(
    sources: Iterable[str], how: TextChoice, style: "TokenizerConfig", progress: "Progress"
) -> Iterator[list[str]]:
    from elmore.corpus.corpus import HELDOUT, Corpus

    for source in map(Path, sources):
        if _is_corpus_part(source):
            corpus = Corpus.open(source.parent)
            yield from _corpus_sentences(corpus.heldout if source.name == HELDOUT else corpus.train, corpus, progress)
        else:
            # A blank line separates documents; a sentence without words is nothing that was ever trained on.
            yield from filter(None, how.read([str(source)], style, progress))


def _corpus_sentences(
    numbers: "NDArray[np.uint32]", corpus: "Corpus", progress: "Progress", *, at_once: int = 2**16
) -> Iterator[list[str]]:
    words: list[str] = []
    for start in range(1, len(numbers), at_once):
        piece = numbers[start : start + at_once]
        progress.read(piece.nbytes)
        for number in piece.tolist():
            if number:
                words.append(corpus.types[number])
            else:
                yield words
                words = []


def _lines(
    found: "Perplexity", *, state: str, batch_size: int, passage: int, first_words: int | None
) -> list[tuple[str, str]]:
    counted = f"the first {first_words} of each sentence" if first_words else "words and the ends of sentences"
    how = "fixed: every sentence from the model's own"
    if state == "carry":
        how = f"carried on in {batch_size} rows that take {passage} sentences at a time"
    each = {"forward": found.forward, "backward": found.backward}
    return [
        ("tokens", f"{found.tokens:,} ({counted}), in {pluralize(found.sentences, 'sentence')}"),
        ("<UNK>", f"{found.unknown:.2%}"),
        ("state", how),
        *((name, "none: the model reads one way" if x is None else f"{x:.2f}") for name, x in each.items()),
        ("mean", f"{found.mean:.2f}"),
    ]
