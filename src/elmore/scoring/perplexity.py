"""Perplexity of a text, by the full softmax.

    perplexity = exp(-mean of log p(word | words read before it))

Each word is predicted from its left (forward) and from its right (backward), and so is the boundary at the end of each
direction. A word outside the vocabulary is predicted as `<UNK>`, a class like any other, so perplexities are comparable
only between equal vocabularies. As an input the network reads such a word by its characters.
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
from elmore.scoring.scorer import AnyModel, LanguageModelScorer
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle

UNKNOWN_SHARE_WARNED = 0.2


class Perplexity(NamedTuple):
    """The perplexities of a model on a text, and the share of unknown words."""

    tokens: int  # predictions of each direction: all words, and the end of each sentence
    sentences: int
    unknown: float  # the share of predictions that are <UNK>
    forward: float | None  # None without this direction
    backward: float | None  # None without this direction
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
    """The perplexity of a text.

    >>> result = perplexity("He drew his bow and let the arrow fly. The actors took a bow.", model="elmore-en")
    >>> result.sentences, result.tokens, round(result.mean)
    (2, 18, 79)

    A string is split into sentences. Otherwise each sentence is a string, which is tokenized, or a list of words.

    - `model`: a name, a path, a `Model` or a `LanguageModelScorer`; None is `elmore-en`.
    - `token_style`: "penn", "nltk", "plain" or "ud" converts lists of that convention into the model's words.
    - `state`: "carry" reads the text in `batch_size` rows, as in pretraining; each row continues from sentence to
      sentence, and a free row takes the next `passage` sentences. `batch_size=1, passage=1` equals the test of bilm-tf
      with a batch size of 1. "fixed" starts each sentence from the model's start state.
    - `first_words`: count only so many predictions of each sentence and direction, where the start state matters most.
    """
    _check(state, batch_size=batch_size, passage=passage, first_words=first_words)
    scorer = LanguageModelScorer.of(model, **engine)
    given = scorer.tokenize_sentences(sentences, token_style=token_style)
    if state == "carry":
        scored = scorer.score_carrying_state(given, rows=batch_size, passage=passage)
    else:
        scored = scorer.score(given)
    directions = scorer.model.config.direction_names
    losses = np.zeros(len(directions))
    tokens = unknown = count = 0
    for words, log_probabilities in scored:
        counted = log_probabilities[:, :first_words]
        losses -= counted.sum(axis=1, dtype=np.float64)
        tokens += counted.shape[1]
        count += 1
        for direction in directions:
            predicted = words if direction == "forward" else words[::-1]
            unknown += sum(not scorer.softmax.has_class(word) for word in predicted[:first_words])
        if progress is not None:
            progress.advance(sentences=1, tokens=len(words))
    if tokens == 0:
        raise InputError("there is no sentence to score: the text is empty")
    share = unknown / (tokens * len(losses))
    _warn_about_unknown(share, scorer.softmax.unknown)
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


def _warn_about_unknown(share: float, mark: str) -> None:
    if share > UNKNOWN_SHARE_WARNED:
        warnings.warn(
            f"{share:.0%} of the text is {mark} to this model, so its perplexity says little; "
            "check that the text is tokenized, cased and escaped as the model expects",
            InputWarning,
            stacklevel=3,
        )


def _exp(loss: float) -> float:
    return math.exp(loss) if loss < 700 else math.inf
