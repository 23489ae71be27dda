"""Scores of coreference, as in the reference scorer of CoNLL-2012 (Pradhan et al., 2014).

    MUC      the share of the links within clusters that are found                  Vilain et al., 1995
    B-cubed  for each mention, the share of its cluster that is found               Bagga and Baldwin, 1998
    CEAF     an optimal one-to-one alignment of clusters; a pair counts its common mentions (CEAF-m), or twice these
             divided by the mentions of both (CEAF-e)                               Luo, 2005
    BLANC    the average of coreferent pairs of mentions and of other pairs         Luo et al., 2014
    CoNLL    the average of the F1 of MUC, B-cubed and CEAF-e

Numerators and denominators are summed over documents. A mention is correct if both of its ends are. If a response
contains a mention several times, in one cluster or in several, only the first occurrence counts.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmore.tasks.metrics.metric import Array, Rows, SumMetric, array_of, check_lengths

E = TypeVar("E")
P = TypeVar("P")
Clusters = Sequence[Sequence[Hashable]]  # of mentions
# From the number of common mentions of each pair of clusters, and the number of mentions of both.
Similarity = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


class Ratio(NamedTuple):
    """Recall or precision, as a fraction."""

    numerator: float
    denominator: float

    @property
    def value(self) -> float:
        return self.numerator / self.denominator if self.denominator else 0.0


class Shares(NamedTuple):
    """Recall, precision and F1, from 0 to 1."""

    recall: float
    precision: float
    f1: float


class _Document(NamedTuple):
    key: list[frozenset[Hashable]]
    response: list[frozenset[Hashable]]


class ConllF1(SumMetric[E, P]):
    """The CoNLL average, with one row for each document.

    Columns: the terms of `document_terms` without clusters of one mention, then the terms with them. Parts: recall,
    precision and f1 of mentions (in any cluster), muc, b_cubed, ceaf_m, ceaf_e and blanc; with_singletons, the score
    with clusters of one mention, and its parts; precision and recall, averages as in the score.

    >>> score = ConllF1().score([[["a", "b"], ["c", "d"]]], [[["a", "b", "c"]]])
    >>> round(score.parts["muc.f1"], 2), round(score.parts["b_cubed.recall"], 2)
    (50.0, 62.5)
    """

    name = "CoNLL F1"

    def documents(self, examples: Sequence[E], predictions: Sequence[P]) -> list[tuple[Clusters, Clusters]]:
        """The gold and the predicted clusters of each document; here the examples and predictions are clusters."""
        check_lengths(examples, predictions, "documents")
        return list(zip(examples, predictions, strict=True))  # type: ignore[arg-type]

    def rows(self, examples: Sequence[E], predictions: Sequence[P]) -> Rows:
        values = []
        for key, response in self.documents(examples, predictions):
            terms = document_terms(without_singletons(key), without_singletons(response))
            values.append([*terms, *document_terms(key, response)])
        return Rows(array_of(values, 2 * TERMS))

    def of_sums(self, sums: Array) -> Array:
        above, below = sums[..., 0:12:2], sums[..., 1:12:2]
        shares = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
        recall, precision = shares[..., 0::2], shares[..., 1::2]
        both = recall + precision
        f1 = np.divide(2 * recall * precision, both, out=np.zeros_like(both), where=both > 0)
        return 100 * f1.mean(axis=-1)  # type: ignore[no-any-return]

    def parts(self, rows: Rows) -> dict[str, float]:
        sums = self.sums(rows)
        parts = _named(all_shares(sums[:TERMS]))
        parts["with_singletons"] = float(self.of_sums(sums[TERMS:]))
        parts |= {f"with_singletons.{name}": value for name, value in _named(all_shares(sums[TERMS:])).items()}
        # Shown after each epoch.
        for name in ("precision", "recall"):
            parts[name] = sum(parts[f"{metric}.{name}"] for metric in AVERAGED) / len(AVERAGED)
        return parts

    def table(self, rows: Rows) -> str:
        sums = self.sums(rows)
        names = {"b_cubed": "B-cubed", "ceaf_m": "CEAF-m", "ceaf_e": "CEAF-e", "muc": "MUC", "blanc": "BLANC"}
        lines = [f"{'':10}{'recall':>10}{'precision':>12}{'F1':>10}"]
        for name, (recall, precision, f1) in all_shares(sums[:TERMS]).items():
            lines.append(f"{names.get(name, name):10}{100 * recall:9.2f}%{100 * precision:11.2f}%{100 * f1:9.2f}%")
        lines.append(f"CoNLL, the average F1 of MUC, B-cubed and CEAF-e: {float(self.of_sums(sums)):.2f}")
        return "\n".join([*lines, f"with clusters of one mention: {float(self.of_sums(sums[TERMS:])):.2f}"])


AVERAGED = ("muc", "b_cubed", "ceaf_e")
TERMS = 26  # of `document_terms`


def document_terms(key: Clusters, response: Clusters) -> list[float]:
    """The terms of one document in the sums of all metrics.

    For MUC, B-cubed, CEAF-e, mentions and CEAF-m: numerator and denominator of recall, then of precision. For BLANC:
    links of coreferent mentions in the key, in the response and in both, then the same of other links.
    """
    document = _Document(_distinct(key), _distinct(response))
    ratios = [*_both_ways(document, _muc), *_both_ways(document, _b_cubed), *_ceaf_ratios(document, _relative)]
    ratios += [*_both_ways(document, _mentions), *_ceaf_ratios(document, _common)]
    return [*(value for ratio in ratios for value in ratio), *_blanc_links(document)]


def all_shares(sums: Array) -> dict[str, Shares]:  # (26,)
    """Recall, precision and F1 of every metric, from summed terms."""
    values = sums.tolist()
    shares = {}
    for number, name in enumerate((*AVERAGED, "mentions", "ceaf_m")):
        one, other = Ratio(*values[4 * number : 4 * number + 2]), Ratio(*values[4 * number + 2 : 4 * number + 4])
        shares[name] = _with_f1(one.value, other.value)
    shares["blanc"] = _blanc_shares(sums[20:23], sums[23:26])
    return {name: shares[name] for name in ("mentions", "muc", "b_cubed", "ceaf_m", "ceaf_e", "blanc")}


def _named(shares: Mapping[str, Shares]) -> dict[str, float]:
    return {
        f"{name}.{field}": 100 * value
        for name, of_metric in shares.items()
        for field, value in zip(Shares._fields, of_metric, strict=True)
    }


def without_singletons(clusters: Iterable[Sequence[Hashable]]) -> list[Sequence[Hashable]]:
    """Clusters of at least two mentions, as in OntoNotes."""
    return [cluster for cluster in clusters if len(set(cluster)) > 1]


def _distinct(clusters: Clusters) -> list[frozenset[Hashable]]:
    seen: set[Hashable] = set()
    found = []
    for cluster in clusters:
        new = frozenset(cluster) - seen
        seen |= new
        if new:
            found.append(new)
    return found


def _both_ways(document: _Document, metric: Callable[[_Document], Ratio]) -> tuple[Ratio, Ratio]:
    return metric(document), metric(_Document(document.response, document.key))


def _with_f1(recall: float, precision: float) -> Shares:
    return Shares(recall, precision, 2 * recall * precision / (recall + precision) if recall + precision else 0.0)


def _mentions(document: _Document) -> Ratio:
    key, response = (frozenset().union(*clusters) for clusters in document)
    return Ratio(len(key & response), len(key))


def _muc(document: _Document) -> Ratio:
    """Of the minimal links of the key's clusters, those that the response has too."""
    cluster_of = _cluster_numbers(document.response)
    found = 0
    for cluster in document.key:
        # The response divides the cluster into parts; a mention that is not in the response is a separate part.
        responses = {cluster_of[mention] for mention in cluster if mention in cluster_of}
        parts = len(responses) + sum(mention not in cluster_of for mention in cluster)
        found += len(cluster) - parts
    return Ratio(found, sum(len(cluster) - 1 for cluster in document.key))


def _b_cubed(document: _Document) -> Ratio:
    found = 0.0
    for cluster in document.key:
        common = Counter(_overlaps(cluster, _cluster_numbers(document.response)))
        found += sum(number * number for number in common.values()) / len(cluster)
    return Ratio(found, sum(map(len, document.key)))


def _cluster_numbers(clusters: Sequence[frozenset[Hashable]]) -> dict[Hashable, int]:
    return {mention: number for number, cluster in enumerate(clusters) for mention in cluster}


def _overlaps(cluster: frozenset[Hashable], cluster_of: dict[Hashable, int]) -> list[int]:
    return [cluster_of[mention] for mention in cluster if mention in cluster_of]


def _common(common: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG001
    return common


def _relative(common: NDArray[np.float64], sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    return 2 * common / sizes


def _ceaf_ratios(document: _Document, similarity: Similarity) -> tuple[Ratio, Ratio]:
    """Recall and precision of the best alignment of clusters."""
    key, response = document
    cluster_of = _cluster_numbers(response)
    common = np.zeros((len(key), len(response)))
    for number, cluster in enumerate(key):
        for other, times in Counter(_overlaps(cluster, cluster_of)).items():
            common[number, other] = times
    lengths = [np.array(list(map(len, clusters)), np.float64) for clusters in (key, response)]
    best = assignment_value(similarity(common, lengths[0][:, None] + lengths[1]))
    key_size, response_size = (float(similarity(length, 2 * length).sum()) for length in lengths)  # with itself
    return Ratio(best, key_size), Ratio(best, response_size)


def assignment_value(gains: NDArray[np.float64]) -> float:
    """The largest sum of gains of an assignment of rows to columns; gains are not negative.

    The Hungarian method, by shortest augmenting paths with potentials (Jonker and Volgenant, 1987).

    >>> assignment_value(np.array([[3.0, 2.0], [2.0, 0.0], [0.0, 0.0]]))
    4.0
    """
    if min(gains.shape) == 0:
        return 0.0
    costs = -gains if gains.shape[0] <= gains.shape[1] else -gains.T
    rows, columns = costs.shape
    row_potential, column_potential = np.zeros(rows), np.zeros(columns)
    row_of = np.full(columns, -1)
    for row in range(rows):
        distance, previous = np.full(columns, np.inf), np.full(columns, -1)
        is_done = np.zeros(columns, bool)
        current, column, least = row, -1, 0.0
        while True:
            reduced = least + costs[current] - row_potential[current] - column_potential
            shorter = ~is_done & (reduced < distance)
            distance[shorter], previous[shorter] = reduced[shorter], column
            column = int(np.where(is_done, np.inf, distance).argmin())
            least = float(distance[column])
            if row_of[column] < 0:
                break
            is_done[column] = True
            current = int(row_of[column])
        row_potential[row] += least
        row_potential[row_of[is_done]] += least - distance[is_done]
        column_potential[is_done] -= least - distance[is_done]
        while column >= 0:
            before = int(previous[column])
            row_of[column] = row if before < 0 else row_of[before]
            column = before
    chosen = np.flatnonzero(row_of >= 0)
    return float(-costs[row_of[chosen], chosen].sum())


def _blanc_links(document: _Document) -> list[float]:
    key, response = document
    cluster_of = _cluster_numbers(response)
    common = [Counter(_overlaps(cluster, cluster_of)) for cluster in key]
    links = [sum(map(_pairs, map(len, clusters))) for clusters in (key, response)]
    both = sum(_pairs(number) for overlap in common for number in overlap.values())
    mentions = [sum(map(len, key)), sum(map(len, response)), sum(overlap.total() for overlap in common)]
    # Of the pairs whose mentions are in both, those that are coreferent in neither key nor response.
    in_key = sum(_pairs(overlap.total()) for overlap in common)
    in_response = sum(map(_pairs, sum(common, Counter()).values()))
    free = _pairs(mentions[2]) - in_key - in_response + both
    return [*links, both, _pairs(mentions[0]) - links[0], _pairs(mentions[1]) - links[1], free]


def _pairs(number: int) -> int:
    return number * (number - 1) // 2


def _blanc_shares(coreferent: NDArray[np.float64], others: NDArray[np.float64]) -> Shares:
    # A kind of link that the key does not have is left out.
    kinds = [links for links in (coreferent, others) if links[0]]
    shares = [
        _with_f1(Ratio(both, key).value, Ratio(both, response).value)
        for key, response, both in (k.tolist() for k in kinds)
    ]
    if not shares:
        return Shares(0.0, 0.0, 0.0)
    return Shares(*(sum(values) / len(shares) for values in zip(*shares, strict=True)))
