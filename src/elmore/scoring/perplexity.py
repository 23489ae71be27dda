"""Perplexity: among how many equally probable words the model would have to guess, on average.

    perplexity = exp(-mean of log p(word | what was read before it))

Every word is predicted from its left (forward) and from its right (backward), and so is the end that either direction
comes to. A word outside the vocabulary is predicted as `<UNK>`, a class like any other, so that perplexities compare
only between equal vocabularies; the network reads it by its own characters nonetheless.
"""

import math
import warnings
from collections.abc import Iterable
from typing import NamedTuple, Unpack

import numpy as np

from elmore.defaults import DEFAULT_PASSAGE, DEFAULT_PERPLEXITY_BATCH_SIZE, DEFAULT_PERPLEXITY_STATE, StateName
from elmore.embedding.options import EngineArguments
from elmore.embedding.sentences import Sentence
from elmore.errors import InputError, InputWarning
from elmore.fields import check_value
from elmore.progress import Progress
from elmore.scoring.predictor import AnyModel, Predictor
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle

MUCH_UNKNOWN = 0.2


class Perplexity(NamedTuple):
    """How well a model predicts a text."""

    tokens: int  # predicted by each direction: the words, and an end for each sentence
    sentences: int
    unknown: float  # the share of tokens that are <UNK> to the model
    forward: float | None  # None for a model that reads backward only
    backward: float | None  # None for one that reads forward only
    mean: float  # geometric: of the mean loss of all directions


def perplexity(
    sentences: str | Iterable[Sentence],
    *,
    model: AnyModel = None,
    token_style: TokenStyle = DEFAULT_TOKEN_STYLE,
    state: StateName = DEFAULT_PERPLEXITY_STATE,
    batch_size: int = DEFAULT_PERPLEXITY_BATCH_SIZE,
    passage: int = DEFAULT_PASSAGE,
    first_words: int | None = None,
    progress: Progress | None = None,
    **engine: Unpack[EngineArguments],
) -> Perplexity:
    """The perplexity of a text by the full softmax, for the model inside unless another is named or given.

    >>> found = perplexity("He drew his bow and let the arrow fly. The actors took a bow.", model="elmore-en")
    >>> found.sentences, found.tokens, round(found.mean)
    (2, 18, 79)

    A text is a string, which is split into sentences, or sentences: strings, which are tokenised, or lists of words,
    which `token_style="penn"`, "nltk", "plain" or "ud" turns from that style of the Penn Treebank into the model's.
    With `state="carry"` the text is read as in training, in `batch_size` rows, each going on from sentence to
    sentence; a row that is free takes the next `passage` sentences. `batch_size=1, passage=1` gives what bilm-tf's test
    gives for a batch size of 1. With `state="fixed"` every sentence is read from the model's start state, and its
    neighbours do not matter. `first_words=3` counts only the first three words that each direction predicts of a
    sentence: where the start of the reading matters most.
    """
    _check(state, batch_size=batch_size, passage=passage, first_words=first_words)
    predictor = Predictor.of(model, **engine)
    given = predictor.words_of(sentences, token_style=token_style)
    if state == "carry":
        read = predictor.read_carrying_state(given, rows=batch_size, passage=passage)
    else:
        read = predictor.read_from_fixed_state(given)
    directions = predictor.model.config.direction_names
    losses = np.zeros(len(directions))
    tokens = unknown = count = 0
    for words, log_probabilities in read:
        counted = log_probabilities[:, :first_words]
        losses -= counted.sum(axis=1, dtype=np.float64)
        tokens += counted.shape[1]
        count += 1
        for direction in directions:
            predicted = words if direction == "forward" else words[::-1]
            unknown += sum(not predictor.softmax.knows(word) for word in predicted[:first_words])
        if progress is not None:
            progress.advance(sentences=1, tokens=len(words))
    if tokens == 0:
        raise InputError("there is no sentence to score: the text is empty")
    share = unknown / (tokens * len(losses))
    _warn_of_unknown(share, predictor.softmax.unknown)
    each = {direction: _exp(loss / tokens) for direction, loss in zip(directions, losses, strict=True)}
    return Perplexity(
        tokens=tokens,
        sentences=count,
        unknown=share,
        forward=each.get("forward"),
        backward=each.get("backward"),
        mean=_exp(losses.mean() / tokens),
    )


def _check(state: str, **numbers: int | None) -> None:
    check_value("state", state, StateName)
    for name, number in numbers.items():
        if number is not None:
            check_value(name, number, int, at_least=1)


def _warn_of_unknown(share: float, mark: str) -> None:
    if share > MUCH_UNKNOWN:
        warnings.warn(
            f"{share:.0%} of the text is {mark} to this model, so its perplexity says little; "
            "is the text tokenised, cased and escaped as the model expects?",
            InputWarning,
            stacklevel=3,
        )


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
