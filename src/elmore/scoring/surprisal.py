"""How probable every word was, from its left, from its right, and from both sides.

Numbers are natural logarithms of probabilities, so never above 0; the surprisal in bits is -x / ln 2. `both` is the
mean of the two, the logarithm of their geometric mean: what a perplexity's mean is made of.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from elmore.errors import InputError
from elmore.model import Model
from elmore.progress import Progress
from elmore.scoring.predictor import Predictor
from elmore.scoring.rows import Predicted

COLUMNS = ("sentence", "position", "word", "in_vocabulary", "forward", "backward", "both")


class LogProbabilities(NamedTuple):
    """Of one sentence, word by word. A model that reads one way has only `forward` or only `backward`."""

    words: Sequence[str]
    in_vocabulary: list[bool]  # a word outside has the probability of <UNK>, which all such words share
    forward: NDArray[np.floating] | None
    backward: NDArray[np.floating] | None
    both: NDArray[np.floating] | None


def surprisal(
    model: Model | Predictor,
    sentences: Iterable[Sequence[str]],
    *,
    state: Literal["fixed", "carry"] = "fixed",
    progress: Progress | None = None,
) -> Iterator[LogProbabilities]:
    """The log-probability of every word of every sentence, in their order, for streams of any length.

    From the model's fixed state, so that a sentence has the same numbers wherever it stands; with `state="carry"` the
    sentences are one text, and each is read with the memory of those before it.
    """
    if state not in ("fixed", "carry"):
        raise InputError(f"state is {state!r}; it must be 'fixed' or 'carry'")
    predictor = Predictor.of(model)
    if state == "carry":
        read = predictor.carrying_state(sentences, rows=1, passage=1)
    else:
        read = predictor.from_fixed_state(sentences)
    return _scored(read, predictor, progress)


def write_table(scores: Iterable[LogProbabilities], file: TextIO) -> int:
    """Write a word a line under a header, columns separated by tabs, and say how many; numbers count from 0.

    A word with a quotation mark in it is quoted as Excel, R and pandas expect.
    """
    table = csv.writer(file, dialect="excel-tab", lineterminator="\n")
    table.writerow(COLUMNS)
    written = 0
    for number, (words, in_vocabulary, *found) in enumerate(scores):
        columns = [[""] * len(words) if column is None else [f"{x:.6f}" for x in column] for column in found]
        for position, row in enumerate(zip(words, map(int, in_vocabulary), *columns, strict=True)):
            table.writerow((number, position, *row))
        written += len(words)
    return written


def _scored(read: Iterator[Predicted], predictor: Predictor, progress: Progress | None) -> Iterator[LogProbabilities]:
    directions = predictor.model.config.direction_names
    for words, scores in read:
        # Without the boundary that either reading ends with, and backwards turned round into the sentence's order.
        found = {
            direction: own[:-1] if direction == "forward" else own[-2::-1]
            for direction, own in zip(directions, scores, strict=True)
        }
        forward, backward = found.get("forward"), found.get("backward")
        both = None if forward is None or backward is None else (forward + backward) / 2
        yield LogProbabilities(words, [predictor.softmax.knows(word) for word in words], forward, backward, both)
        if progress is not None:
            progress.advance(sentences=1, tokens=len(words))
