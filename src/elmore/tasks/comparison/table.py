"""The table of a comparison: mean and spread of each variant's scores, and its gain over the baseline.

    gain               mean score - mean score of the baseline, over the seeds that both have
    error reduction    gain / (100 - score of the baseline)

The spread is the standard deviation over seeds. p-values and intervals are computed from the pooled rows of all seeds
(`elmore.tasks.metrics.metric`).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import mean, stdev
from typing import Any, NamedTuple

from numpy.typing import NDArray

from elmore.tasks.comparison.plan import Plan
from elmore.tasks.comparison.store import EnsembleResult, RunResult, ScoreKey, TestScore
from elmore.tasks.metrics.metric import Metric, bootstrap_interval, randomization_test

RowsByKey = Mapping[ScoreKey, Mapping[str, NDArray[Any]]]  # and by test set: rows of the metric
Interval = tuple[float, float]  # contains the value in 95 % of test sets drawn from the test set


@dataclass(frozen=True, kw_only=True)
class MeanScore:
    """A score over seeds."""

    mean: float
    spread: float | None  # None for a single seed

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.spread is None else f"{self.mean:.2f} ± {self.spread:.2f}"


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The gain of a variant over its baseline on one test set."""

    gain: float
    error_reduction: float | None  # from 0 to 1; None if the baseline makes no errors
    p: float | None  # None without stored rows
    interval: Interval | None  # of the gain; None without stored rows


@dataclass(frozen=True, kw_only=True)
class Row:
    """A variant, trained on a share of the data."""

    variant: str
    fraction: float
    examples: float  # trained on
    seeds: tuple[int, ...]
    dev: MeanScore
    tests: Mapping[str, MeanScore]
    intervals: Mapping[str, Interval]  # of the scores, by test set
    gains: Mapping[str, Gain]  # by test set; empty for a baseline
    epochs: float  # mean, until training ended
    best_epoch: float  # mean
    # For each seed: the epochs until the dev score was above the baseline's best; None: never.
    epochs_to_pass: tuple[int | None, ...]
    seconds: float  # mean


@dataclass(frozen=True, kw_only=True)
class EnsembleRow:
    """The ensemble of a variant's models of all seeds."""

    variant: str
    fraction: float
    seeds: tuple[int, ...]
    tests: Mapping[str, float]
    intervals: Mapping[str, Interval]  # as of a row
    gains: Mapping[str, Gain]  # over the ensemble of the baseline


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All rows, in the order of the variants."""

    task: str
    metric: str  # of the dev set
    tests: tuple[str, ...]
    rows: tuple[Row, ...]
    ensembles: tuple[EnsembleRow, ...] = ()
    test_metrics: Mapping[str, str] = field(default_factory=dict)  # by test set, if not `metric`

    def metric_of(self, test: str) -> str:
        return self.test_metrics.get(test, self.metric)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    def to_text(self) -> str:
        """A table for each test set, in columns."""
        return "\n".join(f"{title}\n{_in_columns(header, body)}" for title, header, body in self._tables())

    def to_markdown(self) -> str:
        parts = []
        for title, header, body in self._tables():
            lines = ["| " + " | ".join(cells) + " |" for cells in (header, *body)]
            lines.insert(1, "|---" + "|--:" * (len(header) - 1) + "|")
            parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
        return "\n".join(parts)

    def _tables(self) -> list[tuple[str, list[str], list[list[str]]]]:
        has_fractions = len({row.fraction for row in self.rows}) > 1
        header = ["variant", *(["data"] if has_fractions else []), "seeds", "dev", "test"]
        header += ["gain", "interval", "error reduction", "p", "best epoch", "passes baseline"]
        tables = []
        for test in self.tests:
            body = []
            for row in self.rows:
                share = [f"{100 * row.fraction:.3g} %"] if has_fractions else []
                first = [row.variant, *share, str(len(row.seeds)), str(row.dev), str(row.tests[test])]
                epochs = f"{row.best_epoch:.1f} of {row.epochs:.1f}"
                body.append([*first, *_gain_cells(row.gains.get(test)), epochs, _passing(row)])
            for ensemble in self.ensembles:
                share = [f"{100 * ensemble.fraction:.3g} %"] if has_fractions else []
                value = f"{ensemble.tests[test]:.2f}"
                first = [f"{ensemble.variant}, ensemble", *share, str(len(ensemble.seeds)), "", value]
                body.append([*first, *_gain_cells(ensemble.gains.get(test)), "", ""])
            tables.append((f"{self.task}, {test}: {self.metric_of(test)}", header, body))
        return tables


def _gain_cells(gain: Gain | None) -> list[str]:
    if gain is None:
        return ["", "", "", ""]
    reduction = "" if gain.error_reduction is None else f"{100 * gain.error_reduction:.1f} %"
    p = "" if gain.p is None else "< 0.001" if gain.p < 0.001 else f"{gain.p:.3f}"
    interval = "" if gain.interval is None else f"{gain.interval[0]:+.2f} to {gain.interval[1]:+.2f}"
    return [f"{gain.gain:+.2f}", interval, reduction, p]


def _passing(row: Row) -> str:
    """The mean number of epochs until the baseline is passed, over the seeds that pass it."""
    passed = [epochs for epochs in row.epochs_to_pass if epochs is not None]
    if not row.epochs_to_pass:
        return ""
    if not passed:
        return "never"
    some = "" if len(passed) == len(row.epochs_to_pass) else f" ({len(passed)} of {len(row.epochs_to_pass)} seeds)"
    return f"after {mean(passed):.1f}{some}"


def _in_columns(header: list[str], body: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in (header, *body)) for column in range(len(header))]
    lines = []
    for row in (header, *body):
        first, *others = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    return "\n".join(lines) + "\n"


def tabulate(
    task: str,
    plan: Plan,
    results: Sequence[RunResult],
    rows_by_key: RowsByKey,
    metric: Metric[Any, Any],
    *,
    ensembles: Sequence[EnsembleResult] = (),
) -> Comparison:
    """The rows of all variants with results, and of the ensembles of all seeds. `metric` is the task's."""
    found: dict[ScoreKey, RunResult] = {result.key: result for result in results}
    together = {(one.variant, one.fraction): one for one in ensembles if one.seeds == plan.seeds}
    stored = _StoredRows(rows_by_key, metric)
    rows, ensemble_rows = [], []
    # Rows of the same fraction are adjacent, for comparison.
    for fraction in sorted({share for variant in plan.variants for share in plan.fractions(variant)}):
        for variant in plan.variants:
            if fraction not in plan.fractions(variant):
                continue
            own = _of(found, plan.duplicate_of[variant.name], fraction, plan.seeds)
            if not own:
                continue
            baseline = {}
            if variant.baseline is not None:
                baseline = _of(found, plan.duplicate_of[variant.baseline], fraction, plan.seeds)
            rows.append(_row(variant.name, own, baseline, stored))
            if ensemble := together.get((plan.duplicate_of[variant.name], fraction)):
                other = together.get((plan.duplicate_of[variant.baseline], fraction)) if variant.baseline else None
                ensemble_rows.append(_ensemble_row(variant.name, ensemble, other, stored))
    tests = tuple(results[0].tests) if results else ()
    return Comparison(
        task=task,
        metric=results[0].metric if results else "",
        tests=tests,
        rows=tuple(rows),
        ensembles=tuple(ensemble_rows),
        test_metrics={test: score.metric for test, score in results[0].tests.items() if score.metric}
        if results
        else {},
    )


def _of(
    found: Mapping[ScoreKey, RunResult], variant: str, fraction: float, seeds: Sequence[int]
) -> dict[int, RunResult]:
    """The results of a variant by seed."""
    return {seed: found[variant, fraction, seed] for seed in seeds if (variant, fraction, seed) in found}


class _StoredRows(NamedTuple):
    """The metric's rows of all training runs and ensembles."""

    rows: RowsByKey
    metric: Metric[Any, Any]

    def metric_of(self, score: TestScore) -> Metric[Any, Any] | None:
        """The metric of a stored score; None if an older version stored no metric name and the task has several."""
        return None if self.metric.alternatives and not score.metric else self.metric.named(score.metric)

    def pooled(self, test: str, results: Sequence[RunResult | EnsembleResult]) -> NDArray[Any] | None:
        """The rows of all these models, pooled; None if they are not stored."""
        arrays = [self.rows[result.key][test] for result in results if test in self.rows.get(result.key, {})]
        metric = self.metric_of(results[0].tests[test])
        if metric is None or len(arrays) < len(results) or len({array.shape for array in arrays}) > 1:
            return None
        return metric.pooled(arrays)

    def intervals(self, results: Sequence[RunResult | EnsembleResult]) -> dict[str, Interval]:
        """The intervals of the scores, by test set."""
        intervals = {}
        for test, score in results[0].tests.items():
            rows, metric = self.pooled(test, results), self.metric_of(score)
            if rows is not None and metric is not None:
                intervals[test] = bootstrap_interval(metric, rows)
        return intervals


def _row(name: str, own: Mapping[int, RunResult], baseline: Mapping[int, RunResult], stored: _StoredRows) -> Row:
    results = list(own.values())
    common = [seed for seed in own if seed in baseline]
    pairs = [(own[seed], baseline[seed]) for seed in common]
    return Row(
        variant=name,
        fraction=results[0].fraction,
        examples=mean(result.examples for result in results),
        seeds=tuple(own),
        dev=_mean_score([result.dev for result in results]),
        tests={test: _mean_score([result.tests[test].value for result in results]) for test in results[0].tests},
        intervals=stored.intervals(results),
        gains={test: _gain(test, pairs, stored) for test in results[0].tests} if pairs else {},
        epochs=mean(result.epochs for result in results),
        best_epoch=mean(result.best_epoch for result in results),
        epochs_to_pass=tuple(epochs_to_pass(one.dev_scores, max(other.dev_scores)) for one, other in pairs),
        seconds=mean(result.seconds for result in results),
    )


def _ensemble_row(name: str, own: EnsembleResult, baseline: EnsembleResult | None, stored: _StoredRows) -> EnsembleRow:
    return EnsembleRow(
        variant=name,
        fraction=own.fraction,
        seeds=own.seeds,
        tests={test: score.value for test, score in own.tests.items()},
        intervals=stored.intervals([own]),
        gains={} if baseline is None else {test: _gain(test, [(own, baseline)], stored) for test in own.tests},
    )


def _mean_score(values: Sequence[float]) -> MeanScore:
    return MeanScore(mean=mean(values), spread=stdev(values) if len(values) > 1 else None)


def _gain(
    test: str,
    pairs: Sequence[tuple[RunResult, RunResult]] | Sequence[tuple[EnsembleResult, EnsembleResult]],
    stored: _StoredRows,
) -> Gain:
    own = mean(one.tests[test].value for one, _ in pairs)
    other = mean(one.tests[test].value for _, one in pairs)
    reduction = None if math.isclose(other, 100) else (own - other) / (100 - other)
    own_rows, other_rows = (stored.pooled(test, side) for side in zip(*pairs, strict=True))
    metric = stored.metric_of(pairs[0][0].tests[test])
    if own_rows is None or other_rows is None or metric is None or own_rows.shape != other_rows.shape:
        return Gain(gain=own - other, error_reduction=reduction, p=None, interval=None)
    return Gain(
        gain=own - other,
        error_reduction=reduction,
        p=randomization_test(metric, own_rows, other_rows),
        interval=bootstrap_interval(metric, own_rows, other_rows),
    )


def epochs_to_pass(scores: Sequence[float], bar: float) -> int | None:
    """The number of epochs until the score was first above `bar`; None if it never was.

    >>> epochs_to_pass([70.0, 82.0, 85.0], 81.5), epochs_to_pass([70.0], 70.0)
    (2, None)
    """
    return next((epoch for epoch, score in enumerate(scores, start=1) if score > bar), None)
