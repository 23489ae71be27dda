"""Scores of coreference are those of the CoNLL reference scorer, and of small cases worked out by hand."""

import csv
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmore.errors import InputError
from elmore.tasks.coref import metric
from elmore.tasks.coref.metric import (
    ConllF1,
    Shares,
    assignment_value,
    document_terms,
    without_singletons,
)
from elmore.tasks.readers.conll2012 import parse_mentions

coreference_scores = ConllF1().score


def all_shares(keys, responses) -> dict[str, Shares]:
    return metric.all_shares(np.sum([document_terms(*pair) for pair in zip(keys, responses, strict=True)], axis=0))


NAMES = {"muc": "muc", "bcub": "b_cubed", "ceafm": "ceaf_m", "ceafe": "ceaf_e", "blanc": "blanc"}


def read_clusters(path: Path) -> dict[str, list[list[tuple[int, int]]]]:
    """Of each document of a scorer's file, whose columns are not all there, the clusters."""
    documents: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#begin"):
            cells = documents.setdefault(line, [])
        elif line.strip() and not line.startswith("#"):
            cells.append(line.split()[-1])
    found = {}
    for name, column in documents.items():
        clusters: dict[int, list[tuple[int, int]]] = {}
        for mention in parse_mentions(column, [str(path)] * len(column)):
            clusters.setdefault(mention.cluster, []).append((mention.start, mention.end))
        found[name] = list(clusters.values())
    return found


def test_all_cases_of_the_reference_scorer_give_its_numbers(shared):
    folder = shared / "data" / "tasks" / "scoring" / "coref"
    with (folder / "expected.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for row in rows:
        key, response = read_clusters(folder / row["key"]), read_clusters(folder / row["response"])
        shares = all_shares(list(key.values()), [response.get(name, []) for name in key])[NAMES[row["metric"]]]
        expected = [float(row[name]) for name in ("recall", "precision", "f1")]
        assert list(shares) == pytest.approx(expected, abs=1e-4), f"{row['case']} by {row['metric']}"
    assert len(rows) == 180


# The key {a, b, c}, {d, e} and the response {a, b}, {c, d, e, x}, by hand.
KEY, RESPONSE = ["abc", "de"], ["ab", "cdex"]


@pytest.mark.parametrize(
    ("name", "recall", "precision"),
    [
        ("mentions", 5 / 5, 5 / 6),
        # Links: of 2 + 1, the first cluster is broken into {a, b} and {c}; of 1 + 3, the second into {c}, {d, e}, {x}.
        ("muc", (1 + 1) / 3, (1 + 1) / 4),
        # For a and b 2/3, c 1/3, d and e 2/2; for a and b 2/2, c 1/4, d and e 2/4, x nothing.
        ("b_cubed", (2 * 2 / 3 + 1 / 3 + 2) / 5, (2 + 1 / 4 + 2 * 2 / 4) / 6),
        # {a, b, c} with {a, b}, {d, e} with the other: 2 + 2 mentions.
        ("ceaf_m", 4 / 5, 4 / 6),
        # 2 * 2 / 5 + 2 * 2 / 6, of two clusters each.
        ("ceaf_e", (4 / 5 + 4 / 6) / 2, (4 / 5 + 4 / 6) / 2),
        # Coreferent links: ab, de of 4 and of 7. Others: ad, ae, bd, be of the key's 6, and of the response's 8.
        ("blanc", (2 / 4 + 4 / 6) / 2, (2 / 7 + 4 / 8) / 2),
    ],
)
def test_a_small_case_gives_what_comes_out_by_hand(name, recall, precision):
    shares = all_shares([KEY], [RESPONSE])[name]
    assert shares[:2] == pytest.approx((recall, precision))
    if name != "blanc":
        assert shares.f1 == pytest.approx(2 * recall * precision / (recall + precision))


def test_documents_are_added_up_and_not_averaged():
    # MUC of the first 2 of 3 and 2 of 4 links, of the second 1 of 1 both ways.
    shares = all_shares([KEY, ["mn"]], [RESPONSE, ["mn"]])["muc"]
    assert shares[:2] == pytest.approx((3 / 4, 3 / 5))


def test_the_average_is_that_of_three_metrics():
    score = coreference_scores([KEY], [RESPONSE])
    assert score.metric == "CoNLL F1"
    assert score.value == pytest.approx(sum(score.parts[f"{name}.f1"] for name in ("muc", "b_cubed", "ceaf_e")) / 3)
    assert score.table.splitlines()[-2].endswith(f": {score.value:.2f}")


def test_a_mention_that_comes_twice_counts_where_it_stands_first():
    assert all_shares([KEY], [["ab", "bcdex"]]) == all_shares([KEY], [RESPONSE])


def test_clusters_of_one_mention_are_removed():
    assert without_singletons(["a", "bc", "dd"]) == ["bc"]


@pytest.mark.parametrize(("key", "response"), [([], []), (["ab"], []), ([], ["ab"]), (["a"], ["b"])])
def test_nothing_found_is_zero_and_no_error(key, response):
    assert coreference_scores([key], [response]).value == 0
    assert coreference_scores([], []).value == 0


def test_documents_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="there are 2 gold documents, but 1 predicted documents"):
        coreference_scores([[], []], [[]])


@given(st.integers(0, 4), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_clusters_are_paired_as_well_as_can_be(rows, columns, seed):
    # Whole numbers, so that there are ties.
    gains = np.random.default_rng(seed).integers(0, 4, (rows, columns)).astype(float)
    small, large = sorted((gains, gains.T), key=len)
    best = max(
        (
            sum(small[n, column] for n, column in enumerate(chosen))
            for chosen in permutations(range(len(large)), len(small))
        ),
        default=0,
    )
    assert assignment_value(gains) == best
