import json
from dataclasses import replace

import numpy as np
import pytest

from elmore.tasks.comparison.plan import WITH, WITHOUT, make_plan, paper_variants
from elmore.tasks.comparison.store import EnsembleResult, RunResult, TestScore
from elmore.tasks.comparison.table import tabulate
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.model_folder import MixWeights
from elmore.tasks.coref.metric import ConllF1
from elmore.tasks.metrics.metric import bootstrap_interval, randomization_test
from elmore.tasks.metrics.scores import SpanF1, Spearman

F1 = SpanF1()
PLAN = make_plan(TaskRecipe(), paper_variants(where=["input"]), seeds=3)


def result(variant: str, seed: int, test: float, dev_scores: tuple[float, ...] = (50.0, 60.0)) -> RunResult:
    return RunResult(
        variant=variant,
        changes={},
        fraction=1.0,
        seed=seed,
        examples=100,
        metric="span F1",
        dev=max(dev_scores),
        best_epoch=2,
        epochs=len(dev_scores),
        dev_scores=dev_scores,
        tests={"test": TestScore(value=test, parts={}, examples=4)},
        mixes={"input": MixWeights(weights=(0.2, 0.5, 0.3), gamma=1.0)} if variant == WITH else {},
        seconds=10.0,
        command="",
    )


def test_gain_and_error_reduction_are_those_of_the_means():
    scores = {WITHOUT: (80.0, 81.0, 79.0), WITH: (84.0, 86.0, 85.0)}
    results = [result(name, seed, test) for name, tests in scores.items() for seed, test in enumerate(tests, start=1)]
    without, with_elmo, at_the_input = tabulate("ner", PLAN, results, {}, F1).rows
    # By hand: means 80 and 85, each with a standard deviation of 1; 5 points of the 20 that were missing.
    assert (without.tests["test"].mean, without.tests["test"].spread) == (80.0, 1.0)
    assert with_elmo.gains["test"].gain == pytest.approx(5.0)
    assert with_elmo.gains["test"].error_reduction == pytest.approx(0.25)
    assert with_elmo.gains["test"].p is None  # nothing was counted
    assert without.gains == {}
    # The same recipe by another name has the same row.
    assert replace(at_the_input, variant=WITH) == with_elmo


def test_a_gain_is_over_the_seeds_that_both_have():
    results = [result(WITHOUT, 1, 80.0), result(WITH, 1, 84.0), result(WITH, 2, 99.0)]
    _, row, _ = tabulate("ner", PLAN, results, {}, F1).rows
    assert row.gains["test"].gain == pytest.approx(4.0)
    assert row.seeds == (1, 2)
    assert row.tests["test"].mean == pytest.approx(91.5)


def test_the_p_value_is_of_the_counts_of_all_seeds_together():
    results = [result(name, seed, 80.0) for name in (WITHOUT, WITH) for seed in (1, 2)]
    bad, good = np.array([[1, 1, 0]] * 3 + [[1, 1, 1]] * 3), np.array([[1, 1, 1]] * 5 + [[1, 1, 0]])
    # With the second seed the models change places on the last three examples.
    bad_again, good_again = np.array([[1, 1, 0]] * 3 + [[1, 1, 1]] * 3), np.array([[1, 1, 1]] * 3 + [[1, 1, 0]] * 3)
    counts = {
        (WITHOUT, 1.0, 1): {"test": bad},
        (WITHOUT, 1.0, 2): {"test": bad_again},
        (WITH, 1.0, 1): {"test": good},
        (WITH, 1.0, 2): {"test": good_again},
    }
    _, row, _ = tabulate("ner", PLAN, results, counts, F1).rows
    assert row.gains["test"].p == randomization_test(F1, good + good_again, bad + bad_again)
    assert row.gains["test"].p not in (randomization_test(F1, good, bad), randomization_test(F1, good_again, bad_again))
    assert row.gains["test"].interval == bootstrap_interval(F1, good + good_again, bad + bad_again)
    assert row.intervals["test"] == bootstrap_interval(F1, good + good_again)


def test_p_value_and_intervals_are_of_the_score_that_the_task_makes_of_its_counts():
    results = [result(name, 1, 80.0) for name in (WITHOUT, WITH)]
    documents = [[["a", "b", "c"], ["d", "e"]], [["f", "g"], ["h", "i", "j"]], [["k", "l"]]]
    metric, worse = ConllF1(), [[key[0][:2]] for key in documents]
    good, bad = metric.rows(documents, documents).values, metric.rows(documents, worse).values
    counts = {(WITHOUT, 1.0, 1): {"test": bad}, (WITH, 1.0, 1): {"test": good}}
    without, row, _ = tabulate("coref", PLAN, results, counts, metric).rows
    assert row.intervals["test"] == (100.0, 100.0)
    # Each of the three by itself is a test set that may be drawn.
    alone = [metric.score([key], [[key[0][:2]]]).value for key in documents]
    assert without.intervals["test"] == pytest.approx((min(alone), max(alone)))
    assert row.gains["test"].p == randomization_test(metric, good, bad)
    assert "+0.00 to" in tabulate("coref", PLAN, results, counts, metric).to_markdown()


def test_an_ensemble_gains_over_the_ensemble_of_the_baseline():
    results = [result(name, seed, 80.0) for name in (WITHOUT, WITH) for seed in (1, 2, 3)]
    scores = {(WITHOUT, (1, 2, 3)): 84.0, (WITH, (1, 2, 3)): 88.0, (WITH, (1, 2)): 99.0}  # the last of an earlier try
    ensembles = [
        EnsembleResult(
            variant=name, fraction=1.0, seeds=seeds, tests={"test": TestScore(value=value, parts={}, examples=4)}
        )
        for (name, seeds), value in scores.items()
    ]
    counts = {
        (WITHOUT, 1.0, (1, 2, 3)): {"test": np.array([[1, 1, 1], [1, 1, 0]])},
        (WITH, 1.0, (1, 2, 3)): {"test": np.array([[1, 1, 1], [1, 1, 1]])},
    }
    comparison = tabulate("ner", PLAN, results, counts, F1, ensembles=ensembles)
    without, with_elmo, at_the_input = comparison.ensembles
    assert (without.tests, without.gains) == ({"test": 84.0}, {})
    assert with_elmo.gains["test"].gain == pytest.approx(4.0)
    assert with_elmo.gains["test"].error_reduction == pytest.approx(0.25)  # 4 of the 16 that were missing
    assert with_elmo.intervals == {"test": (100.0, 100.0)}
    assert replace(at_the_input, variant=WITH) == with_elmo
    assert tabulate("ner", PLAN, results[1:], counts, F1, ensembles=ensembles[1:]).ensembles[0].gains == {}
    last = comparison.to_text().splitlines()[-2]
    assert last.split()[:5] == ["with", "ELMo,", "ensemble", "3", "88.00"]


def test_epochs_to_pass_are_counted_against_the_baseline_of_the_same_seed():
    results = [
        result(WITHOUT, 1, 80.0, (70.0, 75.0, 74.0)),
        result(WITHOUT, 2, 80.0, (70.0, 90.0, 74.0)),
        result(WITH, 1, 80.0, (74.0, 75.0, 76.0)),
        result(WITH, 2, 80.0, (74.0, 75.0, 76.0)),
    ]
    comparison = tabulate("ner", PLAN, results, {}, F1)
    assert comparison.rows[1].epochs_to_pass == (3, None)
    assert "after 3.0 (1 of 2 seeds)" in comparison.to_text()


def test_a_baseline_without_errors_leaves_nothing_to_reduce():
    results = [result(WITHOUT, 1, 100.0), result(WITH, 1, 99.0)]
    _, row, _ = tabulate("ner", PLAN, results, {}, F1).rows
    assert (row.gains["test"].gain, row.gains["test"].error_reduction) == (-1.0, None)


def test_text_markdown_and_json_tell_the_same():
    results = [result(WITHOUT, 1, 80.0), result(WITH, 1, 85.0)]
    comparison = tabulate("ner", make_plan(TaskRecipe(), paper_variants(), seeds=1), results, {}, F1)
    assert comparison.to_text() == (
        "ner, test: span F1\n"
        "variant       seeds    dev   test   gain  interval  error reduction  p  best epoch  passes baseline\n"
        "without ELMo      1  60.00  80.00                                       2.0 of 2.0\n"
        "with ELMo         1  60.00  85.00  +5.00                     25.0 %     2.0 of 2.0            never\n"
    )
    assert "| with ELMo | 1 | 60.00 | 85.00 | +5.00 |  | 25.0 % |  | 2.0 of 2.0 | never |" in comparison.to_markdown()
    assert json.loads(comparison.to_json())["rows"][1]["gains"]["test"]["gain"] == 5.0


def test_each_test_set_has_its_metric():
    generator = np.random.default_rng(1)
    ratings = generator.normal(size=60)
    spearman = Spearman(gold=float, predicted=float)

    class Both(SpanF1):
        alternatives = (spearman,)

    results, rows = [], {}
    for name, noise in ((WITHOUT, 1.0), (WITH, 0.1)):
        values = np.stack([ratings, ratings + noise * generator.normal(size=60)], axis=1)
        score = TestScore(value=float(spearman.value(values)), parts={}, examples=60, metric="Spearman")
        results.append(replace(result(name, 1, 0.0), tests={"rated": score}))
        rows[name, 1.0, 1] = {"rated": values}
    comparison = tabulate("both", PLAN, results, rows, Both())
    assert comparison.to_text().startswith("both, rated: Spearman\n")
    gain = comparison.rows[1].gains["rated"]
    assert gain.p < 0.01
    low, high = gain.interval
    assert 0 < low < gain.gain < high
    # Older results do not contain the metric of each test set.
    old = [replace(one, tests={"rated": replace(one.tests["rated"], metric="")}) for one in results]
    assert tabulate("both", PLAN, old, rows, Both()).rows[1].gains["rated"].p is None
