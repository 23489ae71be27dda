"""What the model would put in a place of a sentence: from its left, from its right, and from both sides."""

import math
from typing import NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from elmore.defaults import DEFAULT_TOP
from elmore.embedding.options import EngineArguments
from elmore.embedding.sentences import Sentence
from elmore.errors import InputError
from elmore.scoring.predictor import AnyModel, Predictor
from elmore.text.style import DEFAULT_TOKEN_STYLE, TokenStyle
from elmore.text.vocabulary import log_uniform_probabilities

Scores = NDArray[np.float64]  # (V,) natural logarithms of probabilities


class Candidate(NamedTuple):
    """A word that might stand there."""

    word: str
    probability: float


class Substitutes(NamedTuple):
    """The most probable words, most probable first. A model that reads one way has only `forward` or `backward`."""

    forward: list[Candidate] | None = None  # by what stands to the left
    backward: list[Candidate] | None = None  # by what stands to the right
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
    """The words a model, the one inside unless another is named, would put in the place in [brackets].

    >>> found = substitutes("He drew his [bow] and let the arrow fly.", model="elmore-en", top=3)
    >>> [candidate.word for candidate in found.both]
    ['finger', 'breath', 'pen']

    What the brackets hold, be it nothing or several words, is not looked at: one word is put in its place. A string is
    tokenised as the model expects; in a list of words one is in brackets, and `token_style="penn"` (or another)
    turns the others into the model's. The two directions never met in training, so `both` takes left and
    right to be independent: the product of the two probabilities, divided by how probable the word is anyway, which
    both of them count, and made to sum to one. How probable a word is, its rank in the vocabulary tells, which must
    stand by falling frequency, as it must for training. Boundaries and `<UNK>` are left out unless `specials` asks for
    them; of the probability from one side they still have their share.
    """
    if type(top) is not int or top < 1:
        raise InputError(f"top is {top!r}; it must be a whole number, at least 1")
    predictor = Predictor.of(model, **engine)
    words, bracketed = predictor.bracketed_words(sentence, token_style=token_style)
    left, right = words[: bracketed.start], words[bracketed.stop :]
    # Any word may stand in between: neither direction reads it before it has predicted the place.
    hidden = predictor.hidden_states([*left, predictor.model.config.bos_token, *right])
    read_before = {"forward": len(left), "backward": len(right)}
    found: dict[str, Scores] = {
        direction: predictor.softmax.log_distribution(own[read_before[direction]]).astype(np.float64)
        for direction, own in zip(predictor.model.config.direction_names, hidden, strict=True)
    }
    if len(found) == 2:
        both = found["forward"] + found["backward"] - np.log(log_uniform_probabilities(len(found["forward"])))
        # <UNK> stands for a thousand rare words at once, and would take nearly all of the probability.
        found["both"] = _normalized(both if specials else _without_marks(predictor, both))
    if not specials:
        found = {side: _without_marks(predictor, own) for side, own in found.items()}
    return Substitutes(**{side: _best(predictor, own, top=top) for side, own in found.items()})


def _normalized(scores: Scores) -> Scores:
    """Logarithms of probabilities that sum to one."""
    highest = scores.max()
    return np.asarray(scores - highest - np.log(np.exp(scores - highest).sum()))


def _without_marks(predictor: Predictor, scores: Scores) -> Scores:
    config, vocabulary = predictor.model.config, predictor.softmax.vocabulary
    marks = [
        vocabulary.index[mark] for mark in (config.bos_token, config.eos_token, config.unk_token) if mark in vocabulary
    ]
    kept = scores.copy()
    kept[marks] = -np.inf
    return kept


def _best(predictor: Predictor, scores: Scores, *, top: int) -> list[Candidate]:
    best = np.argsort(-scores, kind="stable")[: min(top, int(np.isfinite(scores).sum()))].tolist()
    return [Candidate(predictor.softmax.vocabulary.words[number], math.exp(scores[number])) for number in best]
