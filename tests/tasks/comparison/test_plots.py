import sys
from dataclasses import replace

import pytest

from elmore.errors import MissingExtra
from elmore.tasks.comparison.plan import WITH, WITHOUT, Variant, make_plan, paper_variants
from elmore.tasks.comparison.plots import learned_mixes, plot_comparison, plot_dev_scores, plot_fractions
from elmore.tasks.comparison.store import RunResult, TestScore
from elmore.tasks.comparison.table import tabulate
from elmore.tasks.core.config import TaskRecipe
from elmore.tasks.core.mix_plot import STYLE, plot_mixes
from elmore.tasks.core.model_folder import MixWeights
from elmore.tasks.metrics.scores import SpanF1

PLAN = make_plan(TaskRecipe(), paper_variants(layers=["last"], where=["input", "both"], fractions=[0.01, 0.1]), seeds=2)


def result(cell) -> RunResult:
    elmo = cell.recipe.elmo
    places = {"both": ("input", "output"), "none": ()}.get(elmo.where, (elmo.where,))
    value = 80.0 + 10 * cell.fraction + cell.seed
    return RunResult(
        variant=cell.variant,
        changes=cell.changes,
        fraction=cell.fraction,
        seed=cell.seed,
        examples=100,
        metric="accuracy",
        dev=value,
        best_epoch=2,
        epochs=3,
        dev_scores=(70.0, value, 75.0),
        tests={name: TestScore(value=value, parts={}, examples=4) for name in ("near", "far")},
        mixes={place: MixWeights(weights=(0.25, 0.5, 0.25), gamma=1.0) for place in places},
        seconds=10.0,
        command="",
    )


RESULTS = [result(cell) for cell in PLAN.runs]
COMPARISON = tabulate("pos", PLAN, RESULTS, {}, SpanF1())


@pytest.fixture
def figure():
    from matplotlib.figure import Figure

    return Figure()


def test_scores_are_drawn_against_the_share_of_the_data(figure):
    plot_fractions(figure, COMPARISON)
    near, far = figure.axes
    assert (near.get_title(), far.get_title()) == ("near", "far")
    assert near.get_xscale() == "log"
    assert [line.get_label() for line in near.lines] == [WITHOUT, WITH]  # others have no curve
    # The mean of seeds 1 and 2.
    assert [list(axis) for axis in near.lines[0].get_data()] == [[1, 10, 100], [81.6, 82.5, 91.5]]
    assert len(near.collections) == 2  # a band for each


def test_only_mixes_that_were_learnt_are_drawn_and_each_once(figure):
    mixes = learned_mixes(PLAN, RESULTS)
    assert list(mixes) == [f"{WITH}\nat the input", "where=both\nat the input", "where=both\nat the output"]
    assert mixes[f"{WITH}\nat the input"] == [(0.25, 0.5, 0.25)] * 2  # of each seed, with all data
    axes = figure.subplots()
    plot_mixes(axes, mixes)
    assert [bar.get_height() for bar in axes.patches] == [0.25] * 3 + [0.5] * 3 + [0.25] * 3


def test_dev_scores_are_drawn_by_epoch_with_and_without(figure):
    plot_dev_scores(figure, "accuracy", PLAN, RESULTS)
    [axes], [legend] = figure.axes, figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [WITHOUT, f"best {WITHOUT}", WITH]
    assert list(axes.lines[0].get_ydata()) == [70.0, 91.0, 75.0]
    assert axes.lines[0].get_markevery() == [1]  # the second epoch was the best


@pytest.mark.parametrize("longest", ["GloVe fixed", "GloVe fixed, biLM fine-tuned on the task's text"])
def test_names_of_variants_leave_room_for_the_dev_scores(longest):
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = (WITHOUT, WITH, f"{WITHOUT}, {longest}", f"{WITH}, {longest}")
    variants = [
        Variant(name=name, changes={"training.epochs": n + 1}, baseline=names[n - 1] if n % 2 else None)
        for n, name in enumerate(names)
    ]
    plan = make_plan(TaskRecipe(), variants, seeds=1)
    with mpl.rc_context(STYLE):  # as plot_comparison draws it
        figure = Figure(figsize=(4.8, 3.2), layout="constrained")
        plot_dev_scores(figure, "accuracy", plan, [replace(RESULTS[0], variant=name) for name in names])
        FigureCanvasAgg(figure).draw()
    [axes], [legend] = figure.axes, figure.legends
    drawn, named = axes.get_window_extent(), legend.get_window_extent()
    assert named.x0 >= 0
    assert named.x1 <= figure.bbox.x1
    assert named.y0 >= drawn.y1  # above the curves
    assert drawn.width > 0.8 * figure.bbox.width
    assert drawn.height > 0.4 * figure.bbox.height


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"pip install 'elmore\[plots\]'"):
        plot_comparison(tmp_path, COMPARISON, PLAN, RESULTS)
