"""Exact match and F1 of answers, as in SQuAD's official script (Rajpurkar et al., 2016).

Case, punctuation, articles and extra whitespace are ignored. Of several gold answers, the best match counts. A question
without a prediction counts as wrong.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from elmore.display import pluralize
from elmore.errors import InputError
from elmore.tasks.metrics.metric import F1Metric, Rows, array_of, percentage

E = TypeVar("E")
P = TypeVar("P")

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class ScoredAnswer(NamedTuple):
    """A question with its gold answers and the predicted one."""

    question: str
    gold: Sequence[str]
    predicted: str | None  # None: not answered


class SquadF1(F1Metric[E, P]):
    """The mean F1 of answers. Columns: 1, 1, the F1 of the answer, and whether it matches exactly.

    Parts: exact_match, f1, questions, and unanswered, the number of questions without a prediction.

    >>> examples = {"1": ["the Denver Broncos", "Denver"], "2": ["in 1066"]}
    >>> score = SquadF1().score([*examples.items()], ["Denver Broncos!", "October 1066"])
    >>> score.value, score.parts["exact_match"]
    (75.0, 50.0)
    """

    def answers(self, examples: Sequence[E], predictions: Sequence[P]) -> list[ScoredAnswer]:
        """The answers to score; here each example is a question with its gold answers."""
        pairs: Any = zip(examples, predictions, strict=True)
        return [ScoredAnswer(question, gold, found) for (question, gold), found in pairs]

    def rows(self, examples: Sequence[E], predictions: Sequence[P]) -> Rows:
        values = []
        unanswered = 0
        for question, gold, predicted in self.answers(examples, predictions):
            if not gold:
                raise InputError(f"question {question} has no gold answers; it cannot be scored")
            unanswered += predicted is None
            best = [0.0, 0.0]
            if predicted is not None:
                best = [max(match(predicted, answer) for answer in gold) for match in (token_f1, exact_match)]
            values.append([1.0, 1.0, *best])
        return Rows(array_of(values, 4), facts={"unanswered": float(unanswered)})

    def parts(self, rows: Rows) -> dict[str, float]:
        questions, _, f1, exact = self.sums(rows).tolist()
        return {
            "exact_match": percentage(exact, questions),
            "f1": percentage(f1, questions),
            "questions": questions,
            **rows.facts,
        }

    def table(self, rows: Rows) -> str:
        parts = self.parts(rows)
        questions, unanswered = int(parts["questions"]), int(parts["unanswered"])
        table = f"exact match: {parts['exact_match']:.4f}; F1: {parts['f1']:.4f}; {pluralize(questions, 'question')}"
        return f"{table}, {unanswered:,} of them without an answer" if unanswered else table


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
