"""The surprisal of each word in its context, from the left, from the right, and from both sides; and tables of it.

    surprisal = -log2 p(word | words read before it), in bits

`both` is the mean of the two directions. A table has a row for each word, and is tab- or comma-separated, JSON or JSON
lines, by the name of its file:

    sentence  position  word  in_vocabulary  forward  backward  both

Sentences and positions count from 0. With natural logarithms of probabilities instead of bits, the last three columns
are log_forward, log_backward and log_both. A direction that the model lacks is empty, in JSON null.
"""

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Literal, NamedTuple, TextIO, Unpack

import numpy as np
from numpy.typing import NDArray

from elmore.defaults import DEFAULT_STATE, StateName
from elmore.embedding.options import EngineArguments
from elmore.embedding.sentences import Sentence
from elmore.errors import InputError
from elmore.fields import check_value
from elmore.progress import Progress
from elmore.scoring.rows import ScoredSentence, Scores
from elmore.scoring.scorer import AnyModel, LanguageModelScorer
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle

Bits = NDArray[np.float64]
TableFormat = Literal["tsv", "csv", "json", "jsonl"]
SUFFIXES: Mapping[str, TableFormat] = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


class Surprisal(NamedTuple):
    """The surprisals of a sentence, word by word, in bits. A direction that the model lacks is None."""

    words: Sequence[str]
    in_vocabulary: list[bool]  # false: the word has the probability of <UNK>, which all such words share
    forward: Bits | None
    backward: Bits | None
    both: Bits | None


def surprisal(
    sentences: str | Iterable[Sentence],
    *,
    model: AnyModel = None,
    token_style: TokenStyle = DEFAULT_TOKEN_STYLE,
    state: StateName = DEFAULT_STATE,
    progress: Progress | None = None,
    **engine: Unpack[EngineArguments],
) -> Iterator[Surprisal]:
    """The surprisal of each word of each sentence, in order, for streams of any length.

    >>> [scores] = surprisal(["The actors took a bow."], model="elmore-en")
    >>> [f"{word} {bits:.0f}" for word, bits in zip(scores.words, scores.both)]
    ['The 5', 'actors 14', 'took 7', 'a 3', 'bow 14', '. 2']

    A string is split into sentences. Otherwise each sentence is a string, which is tokenized, or a list of words.

    - `token_style`: "penn", "nltk", "plain" or "ud" converts lists of that convention into the model's words; the
      results are for the model's words.
    - `state`: "fixed" starts each sentence from the model's start state, so that its numbers do not depend on other
      sentences; "carry" reads all sentences as one text.
    """
    check_value("state", state, StateName)
    scorer = LanguageModelScorer.of(model, **engine)
    words = scorer.tokenize_sentences(sentences, token_style=token_style)
    scored = scorer.score_carrying_state(words, rows=1, passage=1) if state == "carry" else scorer.score(words)
    return _surprisals(scored, scorer, progress)


def log_probabilities(bits: Bits) -> Bits:
    """The natural logarithms of the probabilities that have these surprisals.

    >>> log_probabilities(np.array([1.0])).round(4).tolist()
    [-0.6931]
    """
    return bits * -math.log(2)


def _surprisals(
    scored: Iterator[ScoredSentence], scorer: LanguageModelScorer, progress: Progress | None
) -> Iterator[Surprisal]:
    directions = scorer.model.config.direction_names
    for words, scores in scored:
        # Without the boundary at the end, and the backward direction in the order of the sentence.
        bits = {
            direction: _bits(own[:-1] if direction == "forward" else own[-2::-1])
            for direction, own in zip(directions, scores, strict=True)
        }
        forward, backward = bits.get("forward"), bits.get("backward")
        both = None if forward is None or backward is None else (forward + backward) / 2
        yield Surprisal(words, [scorer.softmax.has_class(word) for word in words], forward, backward, both)
        if progress is not None:
            progress.advance(sentences=1, tokens=len(words))


def _bits(log_probabilities: Scores) -> Bits:
    # Absolute values: the surprisal of a certain word is 0, not -0.
    return np.abs(log_probabilities.astype(np.float64)) / math.log(2)


def table_format(name: str) -> TableFormat:
    """The format of a table, by the suffix of its file; `-`, standard output, is tab-separated.

    >>> table_format("scores.csv"), table_format("-")
    ('csv', 'tsv')
    """
    if name == "-":
        return "tsv"
    if form := SUFFIXES.get(PurePath(name).suffix.lower()):
        return form
    raise InputError(f"{name}: a table of surprisals is written to {', '.join(SUFFIXES)}; end the name in one of them")


def is_table(path: Path) -> bool:
    """Whether a file is a table of surprisals, or empty."""
    with path.open("rb") as file:
        begin = file.read(max(map(len, _BEGINNINGS)))
    return not begin or begin.startswith(_BEGINNINGS)


_BEGINNINGS = (
    b"sentence\tposition\tword\t",
    b"sentence,position,word,",
    b'[\n{"sentence": ',
    b'{"sentence": ',
    b"[]\n",
)


def write_table(
    scores: Iterable[Surprisal],
    file: TextIO,
    *,
    format: TableFormat,  # noqa: A002  # the usual word
    logarithms: bool = False,
) -> int:
    """Write a row for each word; returns the number of rows. Nothing is written before the first sentence is scored."""
    source = iter(scores)
    first = list(islice(source, 1))
    prefix = "log_" if logarithms else ""
    columns = ["sentence", "position", "word", "in_vocabulary"]
    columns += [prefix + side for side in ("forward", "backward", "both")]
    rows = _rows(chain(first, source), columns, logarithms=logarithms)
    if format in ("csv", "tsv"):
        # Words with a quotation mark are quoted as Excel, R and pandas expect.
        table = csv.writer(file, dialect="excel-tab" if format == "tsv" else "excel", lineterminator="\n")
        table.writerow(columns)
        written = 0
        for row in rows:
            table.writerow(map(_cell, row.values()))
            written += 1
        return written
    return _write_json(rows, file, as_lines=format == "jsonl")


def _rows(scores: Iterable[Surprisal], columns: list[str], *, logarithms: bool) -> Iterator[dict[str, object]]:
    for number, (words, in_vocabulary, *sides) in enumerate(scores):
        numbers = [
            [None] * len(words) if bits is None else (log_probabilities(bits) if logarithms else bits).round(6).tolist()
            for bits in sides
        ]
        for position, cells in enumerate(zip(words, in_vocabulary, *numbers, strict=True)):
            yield dict(zip(columns, (number, position, *cells), strict=True))


def _cell(value: object) -> object:
    match value:
        case None:
            return ""
        case bool():
            return int(value)
        case float():
            return f"{value:.6f}"
        case _:
            return value


def _write_json(rows: Iterator[dict[str, object]], file: TextIO, *, as_lines: bool) -> int:
    """One object on each line; without `as_lines`, as the items of one JSON list."""
    written = 0
    for row in rows:
        line = json.dumps(row, ensure_ascii=False)
        file.write(f"{line}\n" if as_lines else f",\n{line}" if written else f"[\n{line}")
        written += 1
    if not as_lines:
        file.write("\n]\n" if written else "[]\n")
    return written
