"""Exact match and F1 of answers, as in SQuAD's official script (Rajpurkar et al., 2016).

Case, punctuation, articles and extra whitespace are ignored. Of several gold answers, the best match counts. A question
without a prediction counts as wrong.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence

from elmore.display import pluralize
from elmore.errors import InputError
from elmore.tasks.metrics.score import Score

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_scores(gold: Mapping[str, Sequence[str]], predicted: Mapping[str, str]) -> Score:
    """The mean over all questions, by id; predictions for other ids are ignored.

    Parts: f1, exact_match, questions, and unanswered, the number of questions without a prediction.

    >>> gold = {"1": ["the Denver Broncos", "Denver"], "2": ["in 1066"]}
    >>> score = squad_scores(gold, {"1": "Denver Broncos!", "2": "October 1066"})
    >>> score.value, score.parts["exact_match"]
    (75.0, 50.0)
    """
    exact = f1 = 0.0
    for question, answers in gold.items():
        if not answers:
            raise InputError(f"question {question} has no gold answers; it cannot be scored")
        prediction = predicted.get(question)
        if prediction is not None:
            exact += max(exact_match(prediction, answer) for answer in answers)
            f1 += max(token_f1(prediction, answer) for answer in answers)
    number = len(gold)
    # Same order of operations as in the official script, so that the last digit is the same.
    exact, f1 = (100.0 * total / number if number else 0.0 for total in (exact, f1))
    unanswered = number - len(gold.keys() & predicted.keys())
    parts = {"exact_match": exact, "f1": f1, "questions": float(number), "unanswered": float(unanswered)}
    table = f"exact match: {exact:.4f}; F1: {f1:.4f}; {pluralize(number, 'question')}"
    return Score("F1", f1, parts, f"{table}, {unanswered:,} of them without an answer" if unanswered else table)


def exact_match(prediction: str, answer: str) -> float:
    """1 if both are equal after normalization, else 0."""
    return float(normalized(prediction) == normalized(answer))


def token_f1(prediction: str, answer: str) -> float:
    """The harmonic mean of precision and recall of the words."""
    found, gold = normalized(prediction).split(), normalized(answer).split()
    common = (Counter(found) & Counter(gold)).total()
    if common == 0:
        return 0.0
    precision, recall = common / len(found), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def normalized(answer: str) -> str:
    """An answer in the form in which answers are compared.

    >>> normalized("The  U.S.A., a country")
    'usa country'
    """
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())
