from itertools import product

import numpy as np
import pytest

from elmore.tasks.core.registry import TASKS
from elmore.tasks.metrics.metric import PERCENTILES, bootstrap_interval, randomization_test
from elmore.tasks.metrics.scores import SpanF1

F1 = SpanF1()


def score_of(values: np.ndarray) -> float:
    return float(F1.value(values.astype(float)))


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
    assert randomization_test(F1, first, second) == pytest.approx(
        exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000) + 1e-4
    )


def test_the_examples_of_the_test_above_tell_formulas_apart():
    exact = [enumerated_p_value(*drawn_counts(seed)) for seed in range(5)]
    assert min(exact) < 0.05
    assert max(exact) > 0.3


def test_it_is_the_same_every_time_and_another_with_another_seed():
    counts = max((drawn_counts(seed) for seed in range(5)), key=lambda pair: enumerated_p_value(*pair))
    assert randomization_test(F1, *counts) == randomization_test(F1, *counts)
    assert randomization_test(F1, *counts, seed=2) != randomization_test(F1, *counts)


def test_where_nothing_was_found_and_nothing_is_there_the_score_is_zero():
    nothing = np.zeros((3, 3), np.int64)
    assert score_of(nothing) == 0.0
    assert randomization_test(F1, nothing, nothing) == 1.0


def test_an_interval_is_that_of_all_draws():
    first, second = drawn_counts(3, examples=5)
    for pair in ((first, None), (first, second)):
        scores = []
        for places in product(range(5), repeat=5):
            drawn = list(places)
            scores.append(score_of(first[drawn]) - (0 if pair[1] is None else score_of(second[drawn])))
        below, above = (np.percentile(scores, (end - 1, end + 1)) for end in PERCENTILES)
        low, high = bootstrap_interval(F1, *pair, draws=20_000)
        assert below[0] <= low <= below[1]
        assert above[0] <= high <= above[1]


def test_models_that_say_the_same_differ_by_nothing_in_every_draw():
    first, _ = drawn_counts(1, examples=30)
    assert bootstrap_interval(F1, first, first.copy()) == (0.0, 0.0)
    assert bootstrap_interval(F1, first)[0] < score_of(first) < bootstrap_interval(F1, first)[1]


def rows_of(task: str, examples: list, predictions: list) -> list[list[float]]:
    return TASKS[task].metric.rows(examples, predictions).values.tolist()


def test_rows_of_names_count_spans_and_rows_of_tags_count_tokens():
    from elmore.tasks.classification.task import LabeledTokens, PredictedLabel
    from elmore.tasks.tagging.model import TaggedTokens

    example = TaggedTokens(["Anna", "Lee", "saw", "Rome"], ("B-PER", "L-PER", "O", "U-LOC"))
    assert rows_of("ner", [example], [["U-PER", "O", "O", "U-LOC"]]) == [[2, 2, 1]]
    assert rows_of("pos", [example], [["B-PER", "O", "O", "O"]]) == [[4, 4, 2]]
    predictions = [PredictedLabel("good", ()), PredictedLabel("bad", ())]
    assert rows_of("classify", [LabeledTokens(["Hm"], "good")] * 2, predictions) == [[1, 1, 1], [1, 1, 0]]


def test_rows_of_senses_are_sentences_and_rows_of_uses_are_pairs():
    from elmore.tasks.senses.wic import PredictedPair, TokenUse, UsePair
    from elmore.tasks.senses.wsd import PredictedSense, SenseSentence
    from elmore.tasks.senses.wsd_reader import WsdInstance

    targets = [
        WsdInstance(f"d{n}", "bank", "NOUN", n, n + 1, keys) for n, keys in enumerate([("a", "b"), ("c",), ("d",)])
    ]
    senses = [PredictedSense("b"), PredictedSense("a"), PredictedSense(None)]
    assert rows_of("wsd", [SenseSentence(["bank"] * 3, targets)], [senses]) == [[3, 2, 1]]
    use = TokenUse(["bank"], 0, 1, (0, 4))
    pairs = [UsePair(use, use, label) for label in (True, False)]
    assert rows_of("wic", pairs, [PredictedPair(True, 0.9)] * 2) == [[1, 1, 1], [1, 1, 0]]


def test_rated_uses_are_compared_by_rank_correlation():
    from elmore.tasks.senses.wic import PredictedPair, TokenUse, UsePair

    use, generator = TokenUse(["bank"], 0, 1, (0, 4)), np.random.default_rng(1)
    ratings = generator.uniform(0, 10, 50)
    pairs = [UsePair(use, use, None, rating) for rating in ratings]
    metric = TASKS["wic"].metric.of(pairs)
    good, bad = (
        metric.rows(pairs, [PredictedPair(True, rating + noise * generator.normal()) for rating in ratings]).values
        for noise in (1, 10)
    )
    assert metric.name == "Spearman"
    assert randomization_test(metric, good, bad) < 0.01
    assert randomization_test(metric, good, good) == 1.0
    low, high = bootstrap_interval(metric, good, bad)
    assert 0 < low < metric.value(good) - metric.value(bad) < high
    assert bootstrap_interval(metric, metric.pooled([good, good])) == bootstrap_interval(metric, good)
