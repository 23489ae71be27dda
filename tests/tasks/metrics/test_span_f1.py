"""The F1 of spans is that of conlleval and of seqeval, to the printed digit, also on malformed tags."""

import pytest

from elmore.errors import InputError
from elmore.files.text_files import read_lines
from elmore.tasks.metrics.scores import SpanF1
from elmore.tasks.readers.tag_schemes import lenient_spans, tags_of

span_scores = SpanF1().score


def test_the_table_is_what_conlleval_prints(shared):
    scoring = shared / "data" / "tasks" / "scoring"
    sentences = [[]]
    for line in read_lines(scoring / "conlleval-chunks.txt"):
        if line:
            sentences[-1].append(line.split(" "))
        else:
            sentences.append([])
    gold, predicted = ([[row[column] for row in rows] for rows in sentences] for column in (-2, -1))
    score = span_scores(gold, predicted)
    # The numbers and the layout are those of the Perl script, in the file beside.
    assert score.table.split("\n") == [
        line.rstrip(" ") for line in read_lines(scoring / "conlleval-expected.txt") if line
    ]
    assert (score.metric, round(score.value, 2)) == ("F1", 74.35)


# Random tags, scored by seqeval 1.2.2 in its default mode: precision_score, recall_score and f1_score; then for each
# class precision, recall, F1 and support of its classification_report. Rounded to six digits.
SEQEVAL = [
    (
        ["S-B B-B O S-A O I-B", "O O B-B O I-B O I-B S-B I-B"],
        ["S-B B-B O S-A O I-B", "O O B-B O I-B O I-B I-A I-B"],
        (0.888889, 0.888889, 0.888889),
        {"A": (0.5, 1.0, 0.666667, 1), "B": (1.0, 0.875, 0.933333, 8)},
    ),
    (
        ["I-B I-B", "E-A B-B B-A I-B B-B B-A E-B E-A"],
        ["I-B I-B", "E-A E-A B-A O B-B B-A E-B I-B"],
        (0.75, 0.666667, 0.705882),
        {"A": (0.75, 0.75, 0.75, 4), "B": (0.75, 0.6, 0.666667, 5)},
    ),
    (
        ["S-B", "E-B I-B"],
        ["I-A", "E-B I-B"],
        (0.666667, 0.666667, 0.666667),
        {"A": (0.0, 0.0, 0.0, 0), "B": (1.0, 0.666667, 0.8, 3)},
    ),
    (
        ["I-B I-A S-A S-B I-A E-A O E-A", "B-A B-B E-A O I-A O O O"],
        ["O I-B S-A O I-A E-A O E-A", "B-A B-B I-A I-B O O O O"],
        (0.75, 0.6, 0.666667),
        {"A": (1.0, 0.714286, 0.833333, 7), "B": (0.333333, 0.333333, 0.333333, 3)},
    ),
    (
        ["S-A O B-A O I-A I-B B-A O", "S-B E-A E-B I-A S-A S-B E-A I-B B-B"],
        ["S-A O B-A O E-A I-B B-A O", "S-B E-A E-B I-A S-A S-A E-A I-A E-A"],
        (0.846154, 0.785714, 0.814815),
        {"A": (0.8, 1.0, 0.888889, 8), "B": (1.0, 0.5, 0.666667, 6)},
    ),
    (
        ["O I-A", "I-A B-A O E-B E-B I-A E-A I-A"],
        ["O I-A", "I-A B-A O E-B O B-B E-A I-A"],
        (0.714286, 0.714286, 0.714286),
        {"A": (0.8, 0.8, 0.8, 5), "B": (0.5, 0.5, 0.5, 2)},
    ),
]


@pytest.mark.parametrize(("gold", "predicted", "expected", "classes"), SEQEVAL)
def test_malformed_tags_score_as_with_seqeval(gold, predicted, expected, classes):
    score = span_scores([tags.split(" ") for tags in gold], [tags.split(" ") for tags in predicted])
    found = [score.parts["precision"], score.parts["recall"], score.value]
    assert found == pytest.approx([100 * share for share in expected], abs=1e-4)
    for label, (precision, recall, f1, support) in classes.items():
        assert score.parts[f"{label}.precision"] == pytest.approx(100 * precision, abs=1e-4)
        assert score.parts[f"{label}.recall"] == pytest.approx(100 * recall, abs=1e-4)
        assert score.parts[f"{label}.f1"] == pytest.approx(100 * f1, abs=1e-4)
        assert score.parts[f"{label}.gold"] == support


def test_the_scheme_makes_no_difference():
    gold = ["B-A", "I-A", "B-A", "O", "B-B"]
    predicted = ["B-A", "I-A", "O", "B-B", "B-B"]
    score = span_scores([gold], [predicted])
    others = span_scores([tags_of(lenient_spans(gold), 5, "bioul")], [tags_of(lenient_spans(predicted), 5, "iob1")])
    assert others.value == score.value == pytest.approx(100 * 2 / 3)  # 2 of 3 found, 2 of 3 right
    assert (score.parts["tokens"], score.parts["accuracy"]) == (5, 60)


def test_a_span_does_not_reach_over_the_end_of_a_sentence():
    assert span_scores([["B-A"], ["I-A"]], [["B-A"], ["B-A"]]).parts["gold"] == 2


def test_tags_without_labels_are_a_class_too():
    score = span_scores([["B", "I", "O"]], [["B", "O", "O"]])
    assert (score.parts["_.gold"], score.parts["_.correct"], score.parts["gold"]) == (1, 0, 1)


def test_nothing_found_is_zero_and_no_error():
    assert span_scores([["O"]], [["O"]]).value == 0
    assert span_scores([], []).value == 0


def test_predictions_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="there are 2 gold sentences, but 1 predicted sentences"):
        span_scores([["O"], ["O"]], [["O"]])
    with pytest.raises(InputError, match="sentence 2 has 1 gold tags, but 2 predicted"):
        span_scores([["O"], ["O"]], [["O"], ["O", "O"]])
