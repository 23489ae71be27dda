"""What the model would put in a place of a sentence: from its left, from its right, and from both sides."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elmore.errors import InputError
from elmore.model import Model
from elmore.scoring.predictor import Predictor
from elmore.text.tokenizing import Tokenizer


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
    model: Model | Predictor, sentence: str | Sequence[str], *, top: int = 10, specials: bool = False
) -> Substitutes:
    """The words the model would put in the place in [brackets], as in "He was wielding a [bow] and arrow".

    What the brackets hold, be it nothing or several words, is not looked at: one word is put in its place. A string is
    tokenised as the model expects; in a list of words one is in brackets. `both` is the product of the two
    probabilities, made to sum to one over all words: the usual approximation, for the two directions never met in
    training. Boundaries and `<UNK>` are left out unless `specials` asks for them; they still have their share of the
    probability.
    """
    if type(top) is not int or top < 1:
        raise InputError(f"top is {top!r}; it must be a whole number, at least 1")
    predictor = Predictor.of(model)
    left, right = _around(sentence, Tokenizer(predictor.model.card.text))
    # Any word may stand in between: neither direction reads it before it has predicted the place.
    hidden = predictor.hidden([*left, predictor.model.config.begin, *right])
    read_before = {"forward": len(left), "backward": len(right)}
    found: dict[str, Tensor] = {
        direction: predictor.softmax.log_distribution(own[read_before[direction]])
        for direction, own in zip(predictor.model.config.direction_names, hidden, strict=True)
    }
    if len(found) == 2:
        found["both"] = (found["forward"] + found["backward"]).log_softmax(dim=0)
    return Substitutes(**{side: _best(predictor, own, top=top, specials=specials) for side, own in found.items()})


def _best(predictor: Predictor, scores: Tensor, *, top: int, specials: bool) -> list[Candidate]:
    config, vocabulary = predictor.model.config, predictor.softmax.vocabulary
    if not specials:
        marks = [vocabulary.index[mark] for mark in (config.begin, config.end, config.unknown) if mark in vocabulary]
        scores = scores.index_fill(0, torch.tensor(marks, device=scores.device), float("-inf"))
        top = min(top, len(scores) - len(marks))
    best = scores.topk(min(top, len(scores)))
    pairs = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
    return [Candidate(vocabulary.words[number], probability) for number, probability in pairs]


def _around(sentence: str | Sequence[str], tokenizer: Tokenizer) -> tuple[list[str], list[str]]:
    """The words before and after the brackets.

    >>> from elmore.text.style import TextStyle
    >>> _around("I took a [bow].", Tokenizer(TextStyle()))
    (['I', 'took', 'a'], ['.'])
    """
    if isinstance(sentence, str):
        if len(found := re.findall(r"\[[^\[\]]*\]", sentence)) == 1:
            start = sentence.index(found[0])
            # Tokenised with what the brackets held, since a tokeniser looks at the neighbours of a mark.
            words, offsets = tokenizer.tokenize(sentence.replace(found[0], found[0][1:-1]))
            end = start + len(found[0]) - 2
            before = sum(right <= start for _, right in offsets)
            after = sum(left >= end for left, _ in offsets)
            return words[:before], words[len(words) - after :]
    else:
        words = list(sentence)
        marked = [place for place, word in enumerate(words) if word[:1] == "[" and word[-1:] == "]"]
        if len(marked) == 1:
            return words[: marked[0]], words[marked[0] + 1 :]
    raise InputError(f"put exactly one place in [brackets], as in 'I took a [bow] .'; given was {sentence!r}")
