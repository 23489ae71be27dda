"""Answers are scored as SQuAD's official script does, to the digit it prints."""

import json
import lzma

import pytest

from elmore.errors import InputError
from elmore.tasks.metrics.metric import Score
from elmore.tasks.squad.metric import SquadF1, exact_match, normalized, token_f1
from elmore.tasks.squad.reader import read_squad


def squad_scores(gold: dict[str, list[str]], predicted: dict[str, str]) -> Score:
    return SquadF1().score(list(gold.items()), [predicted.get(question) for question in gold])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The  Beatles!", "beatles"),
        ("an A-team, a", "ateam"),  # punctuation goes before articles
        ("theatre", "theatre"),
        ("U.S.", "us"),
        ("a", ""),
        ("\u201cquoted\u201d", "\u201cquoted\u201d"),  # only ASCII punctuation goes
        ("two\u00a0words", "two words"),
    ],
)
def test_case_punctuation_articles_and_blanks_do_not_count(answer, expected):
    assert normalized(answer) == expected


def test_f1_counts_words_as_often_as_both_have_them():
    # By hand: two words in common, of three and of four.
    assert token_f1("the cat cat sat", "cat cat dog bird") == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert token_f1("dog", "cat") == 0
    assert token_f1("the", "a") == 0  # nothing is left of either: no word in common
    assert exact_match("the", "a") == 1


def test_the_best_of_several_answers_counts_and_a_missing_one_is_wrong():
    score = squad_scores({"1": ["x y", "y"], "2": ["z"], "3": ["z"]}, {"1": "y", "2": "z z", "other": "z"})
    assert score.parts["exact_match"] == pytest.approx(100 / 3)
    assert score.value == score.parts["f1"] == pytest.approx(100 * (1 + 2 * 0.5 / 1.5) / 3)
    assert (score.parts["questions"], score.parts["unanswered"]) == (3, 1)
    assert score.table == "exact match: 33.3333; F1: 55.5556; 3 questions, 1 of them without an answer"


def test_nothing_scores_nothing_and_a_question_without_answers_is_refused():
    assert squad_scores({}, {}).value == 0
    with pytest.raises(InputError, match="question 7 has no gold answers"):
        squad_scores({"7": []}, {"7": "x"})


@pytest.mark.parametrize(
    ("model", "exact", "f1"),
    # As the data's README has them, and the models' papers when rounded: what the official script gives.
    [("logreg", "40.1419", "50.9815"), ("matchlstm", "67.6348", "76.7556")],
)
def test_published_predictions_have_their_published_scores(model, exact, f1, shared):
    folder = shared / "data" / "tasks"
    paragraphs = read_squad(folder / "squad" / "squad-v1.1-dev.json.xz")
    gold = {q.id: [answer.text for answer in q.answers] for paragraph in paragraphs for q in paragraph.questions}
    with lzma.open(folder / "scoring" / f"squad-v1.1-dev-predictions-{model}.json.xz", "rt", encoding="utf-8") as file:
        score = squad_scores(gold, json.load(file))
    assert (f"{score.parts['exact_match']:.4f}", f"{score.value:.4f}") == (exact, f1)
    assert score.parts["questions"] == 10_570
    assert score.parts["unanswered"] == (13 if model == "logreg" else 0)
