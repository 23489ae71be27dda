"""How surprising every word was where it stood: from its left, from its right, and from both sides.

    surprisal = -log2 of p(word | what was read before it), in bits

`both` is the mean of the two, which is what a perplexity's mean is made of.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from elmore.defaults import DEFAULT_STATE, StateName
from elmore.embedding.options import EngineArguments
from elmore.embedding.sentences import Sentence
from elmore.fields import check_value
from elmore.progress import Progress
from elmore.scoring.predictor import AnyModel, Predictor
from elmore.scoring.rows import Predicted, Scores
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle

Bits = NDArray[np.float64]


class Surprisal(NamedTuple):
    """Of one sentence, word by word, in bits. A model that reads one way has only `forward` or only `backward`."""

    words: Sequence[str]
    in_vocabulary: list[bool]  # a word outside has the probability of <UNK>, which all such words share
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
    """The surprisal of every word of every sentence, in their order, for streams of any length.

    >>> [found] = surprisal(["The actors took a bow."], model="elmore-en")
    >>> [f"{word} {bits:.0f}" for word, bits in zip(found.words, found.both)]
    ['The 5', 'actors 14', 'took 7', 'a 3', 'bow 14', '. 2']

    A text is a string, which is split into sentences, or sentences: strings, which are tokenised, or lists of words,
    which `token_style="penn"`, "nltk", "plain" or "ud" turns from that style of the Penn Treebank into the model's: the
    results are of those words.
    Each is read from the model's fixed state, so that it has the same numbers wherever it stands; with `state="carry"`
    they are one text, and each is read with the memory of those before it.
    """
    check_value("state", state, StateName)
    predictor = Predictor.of(model, **engine)
    given = predictor.words_of(sentences, token_style=token_style)
    if state == "carry":
        read = predictor.read_carrying_state(given, rows=1, passage=1)
    else:
        read = predictor.read_from_fixed_state(given)
    return _scored(read, predictor, progress)


def log_probabilities(bits: Bits) -> Bits:
    """The natural logarithms of the probabilities that have these surprisals.

    >>> log_probabilities(np.array([1.0])).round(4).tolist()
    [-0.6931]
    """
    return bits * -math.log(2)


def _scored(read: Iterator[Predicted], predictor: Predictor, progress: Progress | None) -> Iterator[Surprisal]:
    directions = predictor.model.config.direction_names
    for words, scores in read:
        # Without the boundary that either reading ends with, and backwards turned round into the sentence's order.
        found = {
            direction: _bits(own[:-1] if direction == "forward" else own[-2::-1])
            for direction, own in zip(directions, scores, strict=True)
        }
        forward, backward = found.get("forward"), found.get("backward")
        both = None if forward is None or backward is None else (forward + backward) / 2
        yield Surprisal(words, [predictor.softmax.knows(word) for word in words], forward, backward, both)
        if progress is not None:
            progress.advance(sentences=1, tokens=len(words))


def _bits(log_probabilities: Scores) -> Bits:
    # Without a sign where it is nothing: the surprisal of a certain word is 0, not -0.
    return np.abs(log_probabilities.astype(np.float64)) / math.log(2)
