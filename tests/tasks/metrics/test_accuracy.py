"""Accuracy counts what is right, and its table tells it by class."""

import pytest

from elmore.errors import InputError
from elmore.tasks.metrics.scores import Accuracy

accuracy = Accuracy(gold=lambda label: [label], predicted=lambda label: [label]).score


def test_accuracy_and_its_classes_are_those_of_a_hand_count():
    score = accuracy(["neg", "neg", "neg", "pos", "x"], ["neg", "pos", "pos", "pos", "y"])
    assert (score.metric, score.value) == ("accuracy", 40.0)  # 2 of 5
    assert (score.parts["gold"], score.parts["correct"]) == (5, 2)
    assert score.parts["neg.recall"] == pytest.approx(100 / 3)
    assert score.parts["neg.precision"] == 100
    assert score.parts["pos.precision"] == pytest.approx(100 / 3)
    assert score.parts["neg.f1"] == pytest.approx(50)
    assert (score.parts["x.recall"], score.parts["y.precision"], score.parts["y.gold"]) == (0, 0, 0)
    assert score.table.split("\n") == [
        "accuracy: 40.00%; 2 of 5 are correct",
        "class  precision   recall      F1     gold    found  correct",
        "neg      100.00%   33.33%   50.00        3        1        1",
        "pos       33.33%  100.00%   50.00        1        3        1",
        "x          0.00%    0.00%    0.00        1        0        0",
        "y          0.00%    0.00%    0.00        0        1        0",
    ]


def test_labels_that_do_not_fit_are_refused_and_none_are_zero():
    with pytest.raises(InputError, match="1 gold labels, but 2 predicted labels"):
        accuracy(["a"], ["a", "b"])
    assert accuracy([], []).value == 0
