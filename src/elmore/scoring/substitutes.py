"""The most probable words at a position of a sentence: from its left, from its right, and from both sides."""

import math
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from elmore.defaults import DEFAULT_TOP
from elmore.embedding.options import EngineArguments
from elmore.embedding.sentences import Sentence
from elmore.fields import check_value
from elmore.scoring.scorer import AnyModel, LanguageModelScorer
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle
from elmore.text.vocabulary import log_uniform_probabilities

Scores = NDArray[np.float64]  # (V,) natural logarithms of probabilities


class Candidate(NamedTuple):
    """A word and its probability at the position."""

    word: str
    probability: float


class Substitutes(NamedTuple):
    """The most probable words, most probable first. A direction that the model lacks is None, and so is `both`."""

    forward: list[Candidate] | None = None  # from the left context
    backward: list[Candidate] | None = None  # from the right context
    both: list[Candidate] | None = None


def substitutes(
    sentence: Sentence,
    *,
    model: AnyModel = None,
    top: int = DEFAULT_TOP,
    specials: bool = False,
    token_style: TokenStyle = DEFAULT_TOKEN_STYLE,
    **engine: Unpack[EngineArguments],
) -> Substitutes:
    """The words that the model predicts for the position in [brackets].

    >>> result = substitutes("He drew his [bow] and let the arrow fly.", model="elmore-en", top=3)
    >>> [candidate.word for candidate in result.both]
    ['finger', 'breath', 'pen']

    The bracketed text (zero or more words) is ignored. Substitutes are single words for that position. A string is
    tokenized; in a list, one word has brackets, and `token_style="penn"` (or another) converts the other words.

    The two directions were trained separately. `both` assumes that left and right context are independent: the product
    of the two probabilities, divided by the word's unigram probability, and normalized. The unigram probability is
    estimated from the rank in the vocabulary, which is in order of falling frequency. Boundaries and `<UNK>` are
    omitted, except with `specials=True`; their share of the probabilities from one side remains.
    """
    top = check_value("top", top, int, at_least=1)
    scorer = LanguageModelScorer.of(model, **engine)
    words, bracketed = scorer.parse_brackets(sentence, token_style=token_style)
    left, right = words[: bracketed.start], words[bracketed.stop :]
    # The word in between has no effect: each direction predicts the position before it reads the word.
    hidden = scorer.hidden_states([*left, scorer.model.config.bos_token, *right])
    words_before = {"forward": len(left), "backward": len(right)}
    scores: dict[str, Scores] = {
        direction: scorer.softmax.log_distribution(own[words_before[direction]]).astype(np.float64)
        for direction, own in zip(scorer.model.config.direction_names, hidden, strict=True)
    }
    if len(scores) == 2:
        both = scores["forward"] + scores["backward"] - np.log(log_uniform_probabilities(len(scores["forward"])))
        # <UNK> is the class of all rare words, and would have nearly all of the probability.
        scores["both"] = _normalized(both if specials else _without_special_tokens(scorer, both))
    if not specials:
        scores = {side: _without_special_tokens(scorer, own) for side, own in scores.items()}
    return Substitutes(**{side: _best(scorer, own, top=top) for side, own in scores.items()})


def _normalized(scores: Scores) -> Scores:
    """Logarithms of probabilities that sum to one."""
    highest = scores.max()
    return np.asarray(scores - highest - np.log(np.exp(scores - highest).sum()))


def _without_special_tokens(scorer: LanguageModelScorer, scores: Scores) -> Scores:
    config, vocabulary = scorer.model.config, scorer.softmax.vocabulary
    tokens = (config.bos_token, config.eos_token, config.unk_token)
    others = scores.copy()
    others[[vocabulary.index[token] for token in tokens if token in vocabulary]] = -np.inf
    return others


def _best(scorer: LanguageModelScorer, scores: Scores, *, top: int) -> list[Candidate]:
    best = np.argsort(-scores, kind="stable")[: min(top, int(np.isfinite(scores).sum()))].tolist()
    return [Candidate(scorer.softmax.vocabulary.words[number], math.exp(scores[number])) for number in best]
