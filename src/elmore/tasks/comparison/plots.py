"""The report of a comparison: table, and plots of scores by data fraction, learned mixes and dev scores."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from elmore.errors import MissingExtra
from elmore.files.atomic_files import atomic_write, make_folder
from elmore.tasks.comparison.events import Reported
from elmore.tasks.comparison.plan import Plan, Variant
from elmore.tasks.comparison.store import ComparisonFolder, RunResult
from elmore.tasks.comparison.table import Comparison, Row, tabulate
from elmore.tasks.core.mix_plot import PANEL, STYLE, draw_mixes
from elmore.tasks.core.task import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Distinguishable with color blindness and in gray print (Paul Tol's color schemes).
COLORS = ("#4477aa", "#cc6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#888888")
MARKERS = "osD^vP*"


def write_report(
    folder: Path, task: Task[Any, Any], plan: Plan, *, results_folder: ComparisonFolder, failed: int = 0
) -> Reported:
    """Write table and plots of the stored results of a plan to `folder`. `failed` is the number of failed runs."""
    planned = {run.key for run in plan.runs}
    results = list({result.key: result for result in results_folder.read_results() if result.key in planned}.values())
    ensembles = results_folder.read_ensembles()
    counts = results_folder.read_counts([*results, *ensembles])
    comparison = tabulate(task.name, plan, results, counts, task.metric, ensembles=ensembles)
    output = ComparisonFolder(folder)
    make_folder(folder)
    files = {"table": output.table, "json": output.table_json}
    for path, text in ((files["table"], comparison.to_markdown()), (files["json"], comparison.to_json())):
        with atomic_write(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
    try:
        files |= plot_comparison(folder, comparison, plan, results) if results else {}
    except MissingExtra:
        return Reported(comparison, files, failed, is_drawn=False)
    return Reported(comparison, files, failed, is_drawn=True)


def plot_comparison(folder: Path, comparison: Comparison, plan: Plan, results: Sequence[RunResult]) -> dict[str, Path]:
    """Draw all plots for which there are results. Returns the file of each plot by name."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("plots of a comparison", library="matplotlib", extra="plots") from None
    drawn: dict[str, Path] = {}

    def save(name: str, figure: "Figure") -> None:
        drawn[name] = folder / f"{name}.png"
        with atomic_write(drawn[name]) as unfinished:
            figure.savefig(unfinished, dpi=200)

    with mpl.rc_context(STYLE):
        if len({row.fraction for row in comparison.rows}) > 1:
            figure = Figure(figsize=(PANEL[0] * len(comparison.tests), PANEL[1]), layout="constrained")
            plot_fractions(figure, comparison)
            save("fractions", figure)
        if mixes := learned_mixes(plan, results):
            drawn["mixes"] = folder / "mixes.png"
            draw_mixes(mixes, drawn["mixes"])
        figure = Figure(figsize=(4.8, 3.2), layout="constrained")
        plot_dev_scores(figure, comparison.metric, plan, results)
        save("dev-scores", figure)
    return drawn


def plot_fractions(figure: "Figure", comparison: Comparison) -> None:
    """Figure 1 of the paper: the score on each test set against the share of the training data, spread as a band."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    by_variant: dict[str, list[Row]] = {}
    for row in comparison.rows:
        by_variant.setdefault(row.variant, []).append(row)
    curves = {name: rows for name, rows in by_variant.items() if len(rows) > 1}
    panels = figure.subplots(1, len(comparison.tests), squeeze=False)[0]
    for axes, test in zip(panels, comparison.tests, strict=True):
        for number, (name, rows) in enumerate(curves.items()):
            color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
            shares, scores = [100 * row.fraction for row in rows], [row.tests[test] for row in rows]
            axes.plot(shares, [score.mean for score in scores], marker=marker, markersize=4, color=color, label=name)
            low, high = ([score.mean + sign * (score.spread or 0) for score in scores] for sign in (-1, 1))
            axes.fill_between(shares, low, high, color=color, alpha=0.2, linewidth=0)
        axes.set(xscale="log", xlabel="training examples (%)", ylabel=comparison.metric_of(test), title=test)
        axes.set_xticks(sorted({100 * row.fraction for rows in curves.values() for row in rows}))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(axis="y", alpha=0.3)
        axes.set_axisbelow(True)
    panels[0].legend(loc="best")


def learned_mixes(plan: Plan, results: Sequence[RunResult]) -> dict[str, list[tuple[float, ...]]]:
    """The mix weights of each seed, by variant and position, for variants with trained mix weights."""
    from elmore.recipe import apply_overrides

    fraction = plan.base.training.fraction
    mixes: dict[str, list[tuple[float, ...]]] = {}
    for variant in _trained_variants(plan):
        if apply_overrides(plan.base, variant.changes).elmo.layers != "all":
            continue
        for result in results:
            if (result.variant, result.fraction) == (variant.name, fraction) and result.seed in plan.seeds:
                for position, mix in result.mixes.items():
                    mixes.setdefault(f"{variant.name}\nat the {position}", []).append(mix.weights)
    return mixes


def plot_dev_scores(figure: "Figure", metric: str, plan: Plan, results: Sequence[RunResult]) -> None:
    """The dev score after each epoch, a line for each seed with its best epoch marked.

    A dotted line is the mean of a baseline's best scores. The plot contains each baseline and the first variant that is
    compared with it; more lines would be hard to read.
    """
    from matplotlib.ticker import MaxNLocator

    fraction = plan.base.training.fraction
    axes = figure.subplots()
    trained = _trained_variants(plan)
    first = {variant.baseline: variant.name for variant in reversed(trained)}
    shown = [variant for variant in trained if variant.baseline is None or first[variant.baseline] == variant.name]
    for number, variant in enumerate(shown):
        color, marker = COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]
        runs: list[RunResult] = [
            result
            for result in results
            if (result.variant, result.fraction) == (variant.name, fraction) and result.seed in plan.seeds
        ]
        for index, result in enumerate(runs):
            epochs = range(1, len(result.dev_scores) + 1)
            (line,) = axes.plot(epochs, result.dev_scores, color=color, linewidth=1, alpha=0.75, marker=marker)
            line.set(markersize=5, markevery=[result.best_epoch - 1], markeredgecolor="white", markeredgewidth=0.5)
            line.set_label("" if index else variant.name)
        if variant.baseline is None and runs:
            best = mean(max(result.dev_scores) for result in runs)
            axes.axhline(best, color=color, linewidth=0.8, linestyle=":", label=f"best {variant.name}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="epoch", ylabel=f"dev {metric}")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    _add_legend(figure)


def _add_legend(figure: "Figure") -> None:
    """Add a legend above the axes, with as many columns as fit."""
    for columns in (3, 2, 1):
        legend = figure.legend(loc="outside upper center", ncols=columns, columnspacing=1.2)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def _trained_variants(plan: Plan) -> list[Variant]:
    """The variants without duplicates."""
    return [variant for variant in plan.variants if plan.duplicate_of[variant.name] == variant.name]
