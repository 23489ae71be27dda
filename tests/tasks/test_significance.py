from itertools import product

import numpy as np
import pytest

from elmore.tasks.core.registry import TASKS
from elmore.tasks.metrics.score import Counts
from elmore.tasks.significance import ENDS, bootstrap_interval, randomization_test, score_of


def drawn_counts(seed: int, *, examples: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """What two models that find and miss by chance count on the same examples; the second misses more."""
    draw = np.random.default_rng(seed)
    gold = draw.integers(0, 4, examples)
    models = []
    for share in (0.9, 0.5):
        correct = draw.binomial(gold, share)
        models.append(np.stack([gold, correct + draw.integers(0, 2, examples), correct], axis=1))
    return models[0], models[1]


def enumerated_p_value(first: np.ndarray, second: np.ndarray) -> float:
    """By all ways to swap, one after another, and F1 as everybody writes it."""

    def f1(counts: np.ndarray) -> float:
        gold, predicted, correct = counts.sum(axis=0)
        precision, recall = correct / max(predicted, 1), correct / max(gold, 1)
        return 200 * precision * recall / max(precision + recall, 1e-12)

    found = abs(f1(first) - f1(second))
    larger = 0
    for swaps in product([False, True], repeat=len(first)):
        swapped = np.array(swaps)[:, None]
        one, other = np.where(swapped, second, first), np.where(swapped, first, second)
        larger += abs(f1(one) - f1(other)) >= found - 1e-9
    return larger / 2 ** len(first)


@pytest.mark.parametrize("seed", range(5))
def test_the_p_value_is_that_of_all_ways_to_swap(seed):
    first, second = drawn_counts(seed)
    exact = enumerated_p_value(first, second)
    # Four standard deviations of a share of 10,000 throws, and the true order that is counted with them.
    assert randomization_test(first, second) == pytest.approx(
        exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000) + 1e-4
    )


def test_the_examples_of_the_test_above_tell_formulas_apart():
    exact = [enumerated_p_value(*drawn_counts(seed)) for seed in range(5)]
    assert min(exact) < 0.05
    assert max(exact) > 0.3


def test_it_is_the_same_every_time_and_another_with_another_seed():
    counts = max((drawn_counts(seed) for seed in range(5)), key=lambda pair: enumerated_p_value(*pair))
    assert randomization_test(*counts) == randomization_test(*counts)
    assert randomization_test(*counts, seed=2) != randomization_test(*counts)


def test_where_nothing_was_found_and_nothing_is_there_the_score_is_zero():
    nothing = np.zeros((3, 3), np.int64)
    assert score_of(nothing) == 0.0
    assert randomization_test(nothing, nothing) == 1.0


@pytest.mark.parametrize("name", TASKS)
def test_every_task_says_what_an_example_counts(name):
    assert TASKS[name].counts is not None


def test_an_interval_is_that_of_all_draws():
    first, second = drawn_counts(3, examples=5)
    for pair in ((first, None), (first, second)):
        scores = []
        for places in product(range(5), repeat=5):
            drawn = list(places)
            scores.append(score_of(first[drawn]) - (0 if pair[1] is None else score_of(second[drawn])))
        below, above = (np.percentile(scores, (end - 1, end + 1)) for end in ENDS)
        low, high = bootstrap_interval(*pair, draws=20_000)
        assert below[0] <= low <= below[1]
        assert above[0] <= high <= above[1]


def test_models_that_say_the_same_differ_by_nothing_in_every_draw():
    first, _ = drawn_counts(1, examples=30)
    assert bootstrap_interval(first, first.copy()) == (0.0, 0.0)
    assert bootstrap_interval(first)[0] < score_of(first) < bootstrap_interval(first)[1]


def test_names_are_counted_as_spans_and_tags_as_tokens():
    from elmore.tasks.classification.task import LabeledTokens, PredictedLabel
    from elmore.tasks.tagging.model import TaggedTokens

    example = TaggedTokens(["Anna", "Lee", "saw", "Rome"], ("B-PER", "L-PER", "O", "U-LOC"))
    assert TASKS["ner"].counts(example, ["U-PER", "O", "O", "U-LOC"]) == Counts(correct=1, found=2, gold=2)
    assert TASKS["pos"].counts(example, ["B-PER", "O", "O", "O"]) == Counts(correct=2, found=4, gold=4)
    right, wrong = PredictedLabel("good", ()), PredictedLabel("bad", ())
    counts = TASKS["classify"].counts
    assert [counts(LabeledTokens(["Hm"], "good"), one) for one in (right, wrong)] == [(1, 1, 1), (1, 1, 0)]


def test_senses_are_counted_by_target_and_pairs_one_by_one():
    from elmore.tasks.senses.wic import PredictedPair, TokenUse, UsePair
    from elmore.tasks.senses.wsd import PredictedSense, SenseSentence
    from elmore.tasks.senses.wsd_reader import WsdInstance

    targets = [
        WsdInstance(f"d{n}", "bank", "NOUN", n, n + 1, keys) for n, keys in enumerate([("a", "b"), ("c",), ("d",)])
    ]
    senses = [PredictedSense("b"), PredictedSense("a"), PredictedSense(None)]
    found = TASKS["wsd"].counts(SenseSentence(["bank"] * 3, targets), senses)
    assert found == Counts(gold=3, found=2, correct=1)
    use = TokenUse(["bank"], 0, 1, (0, 4))
    pairs = [TASKS["wic"].counts(UsePair(use, use, label), PredictedPair(True, 0.9)) for label in (True, False)]
    assert pairs == [Counts(gold=1, found=1, correct=1), Counts(gold=1, found=1, correct=0)]
