"""The F1 of semantic roles is that of srl-eval.pl, to the printed digit."""

import json
from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.tag_schemes import Span
from elmore.tasks.srl.metric import Argument, RoleF1, arguments

srl_scores = RoleF1().score
# Made-up tags, some by hand and some drawn, and what srl-eval.pl (as of 2005/04/21) printed of them.
CASES = json.loads((Path(__file__).parent / "srl_eval_cases.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_table_is_what_the_script_prints(number):
    case = CASES[number]
    gold, predicted = ([tags.split(" ") for tags in case[name]] for name in ("gold", "predicted"))

    class WithSentences(RoleF1):
        def facts(self, examples, predictions):
            return {"sentences": case["sentences"]}

    score = WithSentences().score(gold, predicted)
    assert score.table.split("\n") == case["printed"]
    overall = next(line.split() for line in case["printed"] if line.startswith("   Overall"))
    assert [f"{score.parts[name]:.2f}" for name in ("precision", "recall")] == overall[-3:-1]
    assert f"{score.value:.2f}" == overall[-1]


def test_a_span_that_goes_on_with_an_argument_is_part_of_it():
    spans = [Span("ARG1", 0, 1), Span("V", 1, 2), Span("C-ARG1", 2, 3), Span("ARG1", 4, 5), Span("C-ARG1", 6, 7)]
    assert arguments(spans) == {
        Argument("ARG1", ((0, 1), (2, 3))),
        Argument("ARG1", ((4, 5), (6, 7))),
        Argument("V", ((1, 2),)),
    }
    assert arguments([Span("C-ARG2", 0, 1)]) == {Argument("ARG2", ((0, 1),))}


def test_the_verb_does_not_count():
    score = srl_scores([["B-V", "B-ARG1"]], [["O", "B-ARG1"]])
    assert (score.value, score.parts["perfect"], score.parts["V.gold"], score.parts["gold"]) == (100, 100, 1, 1)


def test_nothing_to_find_is_zero_and_no_error():
    assert srl_scores([], []).value == 0
    assert srl_scores([["B-V"]], [["B-V"]]).value == 0


def test_predictions_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="there are 2 gold predicates, but 1 predicted predicates"):
        srl_scores([["O"], ["O"]], [["O"]])
    with pytest.raises(InputError, match="predicate 1 has 1 gold tags and 2 predicted"):
        srl_scores([["O"]], [["O", "O"]])
