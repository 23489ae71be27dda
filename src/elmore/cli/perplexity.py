"""`elmore perplexity`: how well a model predicts a text."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.model_options import ModelArgument, VocabularyFile
from elmore.cli.speaking import Quiet, Speech, Verbose
from elmore.cli.text_options import Errors, InputKind, StateChoice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from elmore.scoring.perplexity import Perplexity
    from elmore.text.style import TextStyle


def perplexity(
    context: typer.Context,
    model: ModelArgument,
    texts: Annotated[
        list[str],
        typer.Argument(
            metavar="TEXT...",
            help="Files of text (plain, gz, xz, zst; - for stdin), or a part of a corpus: FOLDER/heldout.",
        ),
    ],
    tokenized: Annotated[
        bool, typer.Option("--tokenized", help="A sentence a line, words separated by blanks: take them as they are.")
    ] = False,
    input_format: Annotated[InputKind | None, typer.Option(help="By default the files' names tell.")] = None,
    errors: Annotated[Errors, typer.Option(help="Bytes that are not UTF-8: stop, or replace them.")] = Errors.strict,
    state: Annotated[
        StateChoice, typer.Option(help="Carry the state from sentence to sentence, or start each from the model's own.")
    ] = StateChoice.carry,
    rows: Annotated[int, typer.Option(help="Rows read side by side when the state is carried.")] = 64,
    passage: Annotated[
        int,
        typer.Option(help="Sentences a row takes at a time when the state is carried; 1, with --rows 1, as bilm-tf."),
    ] = 256,
    first_words: Annotated[
        int | None, typer.Option(help="Count only so many words of each sentence, the first each direction predicts.")
    ] = None,
    vocab: VocabularyFile = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Tell the perplexity of MODEL on TEXT in each direction, by the full softmax, and the share of <UNK>."""
    from elmore.model import load
    from elmore.progress import progress_bar
    from elmore.scoring.perplexity import perplexity as measure

    speech = Speech.of(context, quiet=quiet, verbose=verbose)
    loaded = load(model, vocabulary=vocab, device=device)
    kind = InputKind.tokenized if tokenized else input_format
    sentences = _sentences(texts, kind, loaded.card.text, errors)
    with progress_bar("scoring", show=speech.progress) as progress:
        found = measure(
            loaded,
            sentences,
            state=state.value,
            rows=rows,
            passage=passage,
            first_words=first_words,
            progress=progress,
        )
    if as_json:
        how = {"state": state.value} | ({"rows": rows, "passage": passage} if state is StateChoice.carry else {})
        facts = {"model": model, "texts": texts, **found._asdict(), **how, "first_words": first_words}
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        for name, value in _lines(found, state=state, rows=rows, passage=passage, first_words=first_words):
            print(f"{name:<10}{value}")


def _sentences(texts: list[str], kind: InputKind | None, style: "TextStyle", errors: Errors) -> Iterator[list[str]]:
    from elmore.text.reading import read_sentences

    for text in texts:
        if (part := _corpus_part(Path(text))) is not None:
            yield from part
        else:
            read = read_sentences(text, format=kind.value if kind else None, style=style, errors=errors.value)
            # A blank line separates documents; a sentence without words is nothing that was ever trained on.
            yield from (sentence.words for _, sentence in read if sentence.words)


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
    found: "Perplexity", *, state: StateChoice, rows: int, passage: int, first_words: int | None
) -> list[tuple[str, str]]:
    counted = f"the first {first_words} of each sentence" if first_words else "words and the ends of sentences"
    how = "fixed: every sentence from the model's own"
    if state is StateChoice.carry:
        how = f"carried on in {rows} rows that take {passage} sentences at a time"
    each = {"forward": found.forward, "backward": found.backward}
    return [
        ("tokens", f"{found.tokens:,} ({counted}), in {found.sentences:,} sentences"),
        ("<UNK>", f"{found.unknown:.2%}"),
        ("state", how),
        *((name, "none: the model reads one way" if x is None else f"{x:.2f}") for name, x in each.items()),
        ("mean", f"{found.mean:.2f}"),
    ]
